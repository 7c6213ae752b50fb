//! [`Job`]: a job of periodic work, as its process reports it afterwards.

use sched::Instant;

/// A released job. Instants are of the clock of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Instant of the job's release.
    pub released: Instant,
    /// Deadline of the job.
    pub deadline: Instant,
    /// Instant at which the job began. `None`: the previous job was unfinished at this release, so the process did not
    /// sleep for this job.
    pub woke: Option<Instant>,
    /// Instant of the job's completion. `None`: the job was not completed.
    pub done: Option<Instant>,
}
