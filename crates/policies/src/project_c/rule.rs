//! [`Rule`]: what BMQ and PDS differ in, the level of who is neither real-time nor a stopper.

use super::queues::{Layout, Level};
use super::task::Task;
use core::fmt;
use sched::{Instant, Nanos, Position};

/// What a yield of the default kind does to the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Yielder {
    /// The place in the queue is kept: a new level counts from the next time it is queued.
    Stays,
    /// It goes last at its new level.
    GoesLast,
}

/// Whether an entity whose slice is over is in a queue, or has just left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    Queued,
    Blocked,
}

/// How levels change with what an entity does.
pub(crate) trait Rule: Send + fmt::Debug {
    /// What is kept of an entity for it.
    type Standing: Copy + Send + fmt::Debug;

    /// The levels there are.
    fn layout(&self) -> Layout;

    /// A whole slice.
    fn slice(&self) -> Nanos;

    /// The rest of a slice that is as good as none.
    fn rest_least(&self) -> Nanos;

    /// How many real-time priorities share a level.
    fn priorities_each(&self) -> usize {
        1
    }

    /// The standing of who has no parent.
    fn first_standing(&self, nice: i32, now: Instant) -> Self::Standing;

    /// The standing of `child`, just forked by `parent`.
    fn forked(&self, child: &Task<Self::Standing>, parent: &Self::Standing, now: Instant) -> Self::Standing;

    /// The level of `task`, which is not real-time.
    fn level(&self, task: &Task<Self::Standing>, now: Instant) -> Level;

    /// `task`, which takes turns and is not real-time, has used up its slice.
    fn expired(&self, task: &mut Task<Self::Standing>, how: Expired, now: Instant);

    /// `task` blocks, `run` after its CPU switched to it.
    fn blocks(&self, _task: &mut Task<Self::Standing>, _run: Nanos) {}

    /// `task` wakes, `slept` after it last ran.
    fn wakes(&self, _task: &mut Task<Self::Standing>, _slept: Nanos) {}

    /// `task` yields.
    fn yields(&self, task: &mut Task<Self::Standing>, now: Instant) -> Yielder;

    /// Whether `task` is taken for an interactive entity.
    fn interactive(&self, _task: &Task<Self::Standing>) -> bool {
        false
    }

    /// The place of an entity of this standing; `None` where it is not one of [`Position`].
    fn position(&self, _standing: &Self::Standing) -> Option<Position> {
        None
    }

    /// Shows what is kept of an entity.
    fn show(&self, standing: &Self::Standing, show: &mut dyn FnMut(&'static str, i64));
}
