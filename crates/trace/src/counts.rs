//! [`Counts`]: what happened in a run, in numbers.

use sched::Nanos;

/// Totals of a run, under the names of the EDF oracle table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Jobs released.
    pub releases: u64,
    /// Jobs completed.
    pub completions: u64,
    /// Jobs completed after their deadline.
    pub misses: u64,
    /// Times an entity was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times a job (or a hog) began or resumed running.
    pub dispatches: u64,
    /// Times a job (or a hog) resumed on another CPU than the one it was taken off.
    pub migrations: u64,
    /// Jobs not completed whose deadline had passed when the run or their entity's stay ended.
    pub unfinished_late: u64,
    /// The time from the deadline to the completion of the job that was completed latest; zero if none was late.
    pub worst_lateness: Nanos,
}

impl Counts {
    /// The counts of both together: sums, and the worse lateness.
    #[must_use]
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            releases: self.releases + other.releases,
            completions: self.completions + other.completions,
            misses: self.misses + other.misses,
            preemptions: self.preemptions + other.preemptions,
            dispatches: self.dispatches + other.dispatches,
            migrations: self.migrations + other.migrations,
            unfinished_late: self.unfinished_late + other.unfinished_late,
            worst_lateness: self.worst_lateness.max(other.worst_lateness),
        }
    }
}
