//! [`Gauge`]: the measurement of one application, and the [`Fact`]s that it sees.

use super::reading::Reading;
use sched::{Instant, Nanos};
use std::fmt::Debug;

/// What a task of an application does, or what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    /// It is there.
    Came,
    /// It is gone.
    Left,
    /// It could run now.
    Awake,
    /// It waits for something else than a CPU.
    Asleep,
    /// A job of it begins.
    Begins,
    /// Its job is done.
    Done,
    /// It runs, so long after the time to which it slept.
    Late(Nanos),
    /// A packet has come for it, over this link of its application.
    Arrived {
        /// Which.
        link: u32,
        /// How long it was on its way.
        took: Nanos,
    },
    /// A packet for it was dropped.
    Lost {
        /// Of which link.
        link: u32,
    },
    /// It has left out so many beats.
    LeftOut(u64),
}

/// Measures one application.
pub(crate) trait Gauge: Debug {
    /// Something happened to its task `role`: what comes after `/` in the task's name; empty for a task that has the name alone.
    fn note(&mut self, at: Instant, role: &str, fact: Fact);

    /// Counting begins at `at`: earlier events no longer change any number. A gauge whose tasks are not there has nothing to forget.
    fn begin(&mut self, at: Instant);

    /// What is known at the end of the run.
    fn read(&mut self, end: Instant) -> Reading;
}
