//! [`Job`]: a piece of periodic work, as whoever did it tells of it afterwards.

use sched::Instant;

/// A job that was released. Moments of the clock of who did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// When it was due to begin.
    pub released: Instant,
    /// When it should be done.
    pub deadline: Instant,
    /// When it was begun; `None`: the one before it was not done when it was released, so that nobody waited for it.
    pub woke: Option<Instant>,
    /// When it was done; `None`: it was not.
    pub done: Option<Instant>,
}
