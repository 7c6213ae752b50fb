//! [`Rule`]: the difference between BMQ and PDS. The rule determines the level of an entity outside the real-time and
//! stop classes.

use super::queues::{Layout, Level};
use super::task::Task;
use core::fmt;
use sched::{Instant, Nanos, Position};

/// The effect of a yield on the queue, under the default of the knob `yield`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Yielder {
    /// The entity keeps its position in the queue. A new level takes effect at the next enqueue.
    Stays,
    /// The entity is enqueued last at its new level.
    GoesLast,
}

/// The position of an entity at the end of its time slice: in a queue, or just removed from a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    Queued,
    Blocked,
}

/// The rule that determines the level of an entity from its nice value and its behaviour.
pub(crate) trait Rule: Send + fmt::Debug {
    /// The state of an entity for this rule.
    type TaskState: Copy + Send + fmt::Debug;

    /// Returns the layout of the levels.
    fn layout(&self) -> Layout;

    /// Returns the length of a full time slice.
    fn slice(&self) -> Nanos;

    /// Returns the remainder of a time slice below which the slice counts as used up.
    fn rest_least(&self) -> Nanos;

    /// Returns the number of real-time priorities that share one level.
    fn priorities_each(&self) -> usize {
        1
    }

    /// Returns the initial state of an entity without a parent.
    fn first_state(&self, nice: i32, now: Instant) -> Self::TaskState;

    /// Returns the initial state of `child`, which `parent` has just forked.
    fn forked(&self, child: &Task<Self::TaskState>, parent: &Self::TaskState, now: Instant) -> Self::TaskState;

    /// Returns the level of `task`, which is not real-time.
    fn level(&self, task: &Task<Self::TaskState>, now: Instant) -> Level;

    /// Updates `task`, which is not real-time, after it has used up its time slice.
    fn expired(&self, task: &mut Task<Self::TaskState>, how: Expired, now: Instant);

    /// Updates `task`, which blocks. `_run` is the time since its CPU switched to the task.
    fn blocks(&self, _task: &mut Task<Self::TaskState>, _run: Nanos) {}

    /// Updates `task`, which wakes. `_slept` is the time since the task last ran.
    fn wakes(&self, _task: &mut Task<Self::TaskState>, _slept: Nanos) {}

    /// Updates `task`, which yields.
    fn yields(&self, task: &mut Task<Self::TaskState>, now: Instant) -> Yielder;

    /// Returns whether `task` counts as interactive.
    fn interactive(&self, _task: &Task<Self::TaskState>) -> bool {
        false
    }

    /// Returns the position of an entity in this state; `None` if the rule defines no [`Position`].
    fn position(&self, _state: &Self::TaskState) -> Option<Position> {
        None
    }

    /// Passes the values of an entity in this state to `show`.
    fn show(&self, state: &Self::TaskState, show: &mut dyn FnMut(&'static str, i64));
}
