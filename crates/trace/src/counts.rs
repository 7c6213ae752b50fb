//! [`Counts`]: the totals of a run.

use sched::Nanos;

/// Totals of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of released jobs.
    pub releases: u64,
    /// Number of completed jobs.
    pub completions: u64,
    /// Number of jobs completed after their deadline.
    pub misses: u64,
    /// Number of times that an entity with unfinished work lost its CPU.
    pub preemptions: u64,
    /// Number of starts and resumptions of a job (or a hog) on a CPU.
    pub dispatches: u64,
    /// Number of resumptions of a job (or a hog) on a CPU other than its last CPU.
    pub migrations: u64,
    /// Number of incomplete jobs whose deadline had passed at the end of the run or at the detachment of their entity.
    pub unfinished_late: u64,
    /// Maximum time from the deadline of a completed job to its completion. Zero if no completed job missed its
    /// deadline.
    pub worst_lateness: Nanos,
}

impl Counts {
    /// Returns the sum of `self` and `other`. The worst lateness is the maximum of both.
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
