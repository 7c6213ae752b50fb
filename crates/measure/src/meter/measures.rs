//! [`Measures`]: the measurements of an entity or a group.

use super::jobs::Jobs;
use super::promise::Promise;
use sched::Nanos;
use trace::{Counts, Durations};

/// The measurements of one entity, or the total of a group.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// CPU time. In a guest, the CPU time excludes the time for which the CPU was frozen.
    pub delivered: Nanos,
    /// Steal time: time on a frozen CPU of a guest. The guest counts the entity as running, but the entity receives no
    /// CPU time.
    pub stolen: Nanos,
    /// Number of waits for a spin lock or spinning barrier, if the trace records such waits.
    pub spins: u64,
    /// Total duration of these waits.
    pub spun: Nanos,
    /// Number of times a job began or resumed. For an entity without jobs: number of times the entity began to run.
    pub dispatches: u64,
    /// Number of times the entity lost its CPU with work left.
    pub preemptions: u64,
    /// Number of times the entity resumed an unfinished job on a CPU other than its last CPU. For an entity without
    /// jobs: number of times the entity resumed on a CPU other than its last CPU.
    pub migrations: u64,
    /// Waits from each wake-up or loss of the CPU until the entity runs; zero if the entity ran at once. Held time is
    /// included. A wait on a frozen CPU continues until the thaw, but a freeze begins no wait.
    pub waits: Durations,
    /// Wake-up latencies: the waits that began with a wake-up. For an entity that reports its own wake-ups: the times
    /// from the release of each awaited job to its beginning.
    pub wakeups: Durations,
    /// Response times: from the release of each job to its completion.
    pub responses: Durations,
    /// Time for which the entity was ready to run, but held by its policy.
    pub held: Nanos,
    /// Results of the entity's jobs.
    pub jobs: Jobs,
    /// Results of the entity's reservation.
    pub promise: Promise,
}

impl Measures {
    /// Adds the measurements of `other`: sums, and the maximum of worst values.
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

    /// Returns the counts that the simulator keeps as well. Tests compare both.
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
