//! [`Job`]: a job of a periodic process, as the process reports the job after the run.

use sched::Instant;

/// A released job. Instants are by the clock of the job's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Instant of the job's release.
    pub released: Instant,
    /// Deadline of the job.
    pub deadline: Instant,
    /// Instant at which the job began. `None`: the previous job was incomplete at this release, so the process did not
    /// sleep until the release.
    pub woke: Option<Instant>,
    /// Instant of the job's completion. `None`: the job was not completed.
    pub done: Option<Instant>,
}
