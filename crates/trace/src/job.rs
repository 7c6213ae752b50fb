//! [`Job`]: a job of a periodic process, as reported by the process after the run.

use sched::Instant;

/// A released job. The instants come from the clock of the process.
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
