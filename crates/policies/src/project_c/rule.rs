//! [`Rule`]: the difference between BMQ and PDS, the level of an entity that is neither real-time nor of the stop
//! class.

use super::queues::{Layout, Level};
use super::task::Task;
use core::fmt;
use sched::{Instant, Nanos, Position};

/// The effect of a yield of the default kind on the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Yielder {
    /// The entity keeps its place in the queue: a new level counts from its next enqueue.
    Stays,
    /// The entity is enqueued last at its new level.
    GoesLast,
}

/// Whether an entity with a used-up time slice is in a queue, or has just left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    Queued,
    Blocked,
}

/// The change of levels with the behaviour of an entity.
pub(crate) trait Rule: Send + fmt::Debug {
    /// The state of an entity for this rule.
    type TaskState: Copy + Send + fmt::Debug;

    /// Returns the layout of the levels.
    fn layout(&self) -> Layout;

    /// Returns a full time slice.
    fn slice(&self) -> Nanos;

    /// Returns the remainder of a time slice below which the slice counts as used up.
    fn rest_least(&self) -> Nanos;

    /// Returns the number of real-time priorities that share a level.
    fn priorities_each(&self) -> usize {
        1
    }

    /// Returns the state of an entity without a parent.
    fn first_state(&self, nice: i32, now: Instant) -> Self::TaskState;

    /// Returns the state of `child`, just forked by `parent`.
    fn forked(&self, child: &Task<Self::TaskState>, parent: &Self::TaskState, now: Instant) -> Self::TaskState;

    /// Returns the level of `task`, which is not real-time.
    fn level(&self, task: &Task<Self::TaskState>, now: Instant) -> Level;

    /// Updates `task`, which is neither SCHED_FIFO nor real-time, after it has used up its time slice.
    fn expired(&self, task: &mut Task<Self::TaskState>, how: Expired, now: Instant);

    /// Updates `task`, which blocks `run` after its CPU switched to it.
    fn blocks(&self, _task: &mut Task<Self::TaskState>, _run: Nanos) {}

    /// Updates `task`, which wakes `slept` after it last ran.
    fn wakes(&self, _task: &mut Task<Self::TaskState>, _slept: Nanos) {}

    /// Updates `task`, which yields.
    fn yields(&self, task: &mut Task<Self::TaskState>, now: Instant) -> Yielder;

    /// Returns whether `task` counts as interactive.
    fn interactive(&self, _task: &Task<Self::TaskState>) -> bool {
        false
    }

    /// Returns the position of an entity in this state; `None` if it is not one of [`Position`].
    fn position(&self, _state: &Self::TaskState) -> Option<Position> {
        None
    }

    /// Passes the state of an entity to `show`.
    fn show(&self, state: &Self::TaskState, show: &mut dyn FnMut(&'static str, i64));
}
