//! [`Job`]: a job of periodic work, as the process that did it reports it afterwards.

use sched::Instant;

/// A job that was released. Instants are of the clock of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The instant of its release.
    pub released: Instant,
    /// Its deadline.
    pub deadline: Instant,
    /// The instant at which it began. `None`: the job before it was unfinished at its release, so its process did not sleep for it.
    pub woke: Option<Instant>,
    /// The instant of its completion. `None`: it was not completed.
    pub done: Option<Instant>,
}
