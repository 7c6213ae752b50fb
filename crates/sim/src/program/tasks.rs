//! [`Tasks`]: the tasks of a machine that execute programs, and their objects.

use super::code::Library;
use super::jobs::JobState;
use super::shared::{self, Shared};
use super::task_state::TaskState;
use super::{Object, ObjectId};
use sched::{EntityId, GroupId, Instant};

/// Maximum number of consecutive steps of a task that neither use time nor wait. Also the maximum number of calls of
/// `advance` on a machine at one instant.
pub(super) const STEPS_MOST: u32 = 1_000_000;

/// Maximum number of steps of all tasks of a machine at one instant.
const STEPS_MOST_OF_ALL: u32 = 10_000_000;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// The next step follows at once.
    Next,
    /// The task runs, sleeps or waits before its next step.
    Wait,
}

/// The state of an application.
#[derive(Clone, Default, Debug)]
pub(crate) struct ApplicationState {
    /// Number of tasks that have not ended.
    pub(crate) there: u32,
    /// Number of tasks that wait for objects, except ports, inboxes and rings.
    pub(crate) waiting: u32,
    /// Number of tasks that wait for their children.
    pub(crate) joining: u32,
    /// Whether the application has been stopped.
    pub(crate) is_over: bool,
    /// Index of the application's first object among the objects of its machine.
    pub(crate) base: u32,
    /// Groups of the application: the group in which the application was started, then its own groups.
    pub(crate) groups: Vec<GroupId>,
    /// Whether the application waits for its stop, rather than ending the run, when all its tasks wait for each other.
    pub(crate) may_stall: bool,
    /// Whether all tasks of the application wait for each other.
    pub(crate) is_stalled: bool,
}

/// The tasks of a machine that execute programs, and their shared objects.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// States of the tasks, by entity index.
    pub(crate) states: Vec<Option<Box<TaskState>>>,
    pub(crate) library: Library,
    pub(crate) objects: Vec<Shared>,
    pub(crate) applications: Vec<ApplicationState>,
    /// Number of tasks ever begun.
    pub(crate) begun: u64,
    /// Whether any object is a ring.
    pub(crate) has_rings: bool,
    /// Instant to which the counts belong, and number of calls of `advance` at this instant.
    instant: Instant,
    advances: u32,
    /// Number of steps at this instant.
    pub(super) steps: u32,
    pub(crate) seed: u64,
    /// Tasks whose jobs are released at this instant, after the aborts.
    pub(crate) releasing: Vec<EntityId>,
}

impl Tasks {
    pub(crate) fn of(&mut self, entity: EntityId) -> &mut TaskState {
        self.states[entity.index()].as_mut().expect("it follows a program")
    }

    /// Counts a call of `advance` at `now`. Returns whether there are so many calls or steps at this instant that the
    /// tasks must loop without using time.
    pub(super) fn goes_round_at(&mut self, now: Instant) -> bool {
        if self.instant != now {
            (self.instant, self.advances, self.steps) = (now, 0, 0);
        }
        self.advances += 1;
        self.advances > STEPS_MOST || self.steps > STEPS_MOST_OF_ALL
    }

    pub(crate) fn follows(&self, entity: EntityId) -> bool {
        self.states.get(entity.index()).is_some_and(Option::is_some)
    }

    /// Returns the progress of `entity` in its jobs. `None`: the entity has no jobs.
    pub(super) fn jobs_of(&mut self, entity: EntityId) -> Option<&mut JobState> {
        self.states.get_mut(entity.index())?.as_mut()?.jobs.as_deref_mut()
    }

    /// Returns the number of open jobs of `entity` whose deadlines are before `now`.
    pub(crate) fn late_jobs(&self, entity: EntityId, now: Instant) -> u64 {
        let state = self.states.get(entity.index()).and_then(Option::as_ref);
        state.map_or(0, |state| match &state.jobs {
            Some(jobs) => jobs.late(now),
            None => u64::from(state.deadline < now),
        })
    }

    /// Adds the objects of an application.
    pub(crate) fn share(&mut self, objects: &[(String, Object)]) {
        self.has_rings |= objects.iter().any(|(_, object)| matches!(object, Object::Ring(_)));
        self.objects.extend(objects.iter().map(|(name, object)| Shared::new(name, *object)));
    }

    pub(super) fn object(&mut self, id: ObjectId) -> &mut Shared {
        shared::at(&mut self.objects, id)
    }
}
