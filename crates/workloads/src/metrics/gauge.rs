//! [`Gauge`]: the measurement of one application, and the [`Fact`]s that it processes.

use super::reading::Reading;
use sched::{Instant, Nanos};
use std::fmt::Debug;

/// An event of a task or packet of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    /// The task arrived.
    Came,
    /// The task left.
    Left,
    /// The task became runnable.
    Awake,
    /// The task blocked: it waits for an event other than a free CPU.
    Asleep,
    /// The task began a job.
    Begins,
    /// The task completed its job.
    Done,
    /// The task started to run this long after the due end of its sleep.
    Late(Nanos),
    /// A packet has arrived over a link of the application.
    Arrived {
        /// Number of the link.
        link: u32,
        /// Transit time of the packet.
        took: Nanos,
    },
    /// A packet was dropped on a link of the application.
    Lost {
        /// Number of the packet's link.
        link: u32,
    },
    /// The task has skipped this number of timer expirations.
    LeftOut(u64),
}

/// The measurement of one application.
pub(crate) trait Gauge: Debug {
    /// Records an event of task `role`. The role is the part after the last `/` in the task's name. The role is empty
    /// for packets, and for a task with the application's name alone.
    fn note(&mut self, at: Instant, role: &str, fact: Fact);

    /// Starts to count at `at`. Events before `at` affect no number, except the completion time of an application. A
    /// gauge without tasks needs no reset.
    fn begin(&mut self, at: Instant);

    /// Returns the reading at the end of the run.
    fn read(&mut self, end: Instant) -> Reading;
}
