//! [`Measures`]: what an entity or a group got.

use super::jobs::Jobs;
use super::promise::Promise;
use sched::Nanos;
use trace::{Counts, Durations};

/// What one entity, or all of a group, got.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// CPU time. In a guest, without the time in which its CPU was frozen.
    pub delivered: Nanos,
    /// Time for which it was on a CPU of a guest that was frozen: by its guest's books it ran, but it got nothing.
    pub stolen: Nanos,
    /// Times it waited for a spin lock, as far as the trace says.
    pub spins: u64,
    /// The CPU time that took it.
    pub spun: Nanos,
    /// Times a job began or resumed running; without jobs, times it began to run.
    pub dispatches: u64,
    /// Times it was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times it resumed on another CPU than the one it was taken off.
    pub migrations: u64,
    /// Every time from being woken or taken off a CPU to running; zero if it ran at once. Time held counts. On a frozen CPU no
    /// entity runs: a wait goes on there until the thaw, but the freeze of a CPU begins none.
    pub waits: Durations,
    /// Those of them that began when it was woken, or what it tells of them itself: of each job that it slept for, the time from
    /// the release to its beginning.
    pub wakeups: Durations,
    /// From the release of each job to its completion.
    pub responses: Durations,
    /// Time it was runnable, but held by its policy.
    pub held: Nanos,
    /// Its jobs.
    pub jobs: Jobs,
    /// Its reservation.
    pub promise: Promise,
}

impl Measures {
    /// The same of both together: sums, and the worst of the worst.
    pub fn add(&mut self, other: &Measures) {
        self.delivered += other.delivered;
        self.stolen += other.stolen;
        self.spins += other.spins;
        self.spun += other.spun;
        self.dispatches += other.dispatches;
        self.preemptions += other.preemptions;
        self.migrations += other.migrations;
        self.waits.add(&other.waits);
        self.wakeups.add(&other.wakeups);
        self.responses.add(&other.responses);
        self.held += other.held;
        self.jobs.add(&other.jobs);
        self.promise.add(&other.promise);
    }

    /// Returns the columns of the EDF oracle table.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            releases: self.jobs.releases,
            completions: self.jobs.completions,
            misses: self.jobs.misses,
            preemptions: self.preemptions,
            dispatches: self.dispatches,
            migrations: self.migrations,
            unfinished_late: self.jobs.unfinished_late,
            worst_lateness: self.jobs.worst_lateness,
        }
    }
}
