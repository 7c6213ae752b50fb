//! [`Tasks`]: the tasks of a machine that follow programs, and their objects.

use super::code::Library;
use super::shared::{self, Shared};
use super::task_state::TaskState;
use super::{Object, ObjectId};
use sched::{EntityId, GroupId, Instant};

/// The most steps of one task at one instant. A program with more uses no time at all.
pub(super) const STEPS_MOST: u32 = 1_000_000;

/// The most steps of all tasks of a machine at one instant.
const STEPS_MOST_OF_ALL: u32 = 10_000_000;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// The next step follows at once.
    Next,
    /// The task uses time, on the CPU or off it.
    Wait,
}

/// The tasks of an application.
#[derive(Clone, Default, Debug)]
pub(crate) struct ApplicationState {
    /// The number of tasks.
    pub(crate) there: u32,
    /// The number that wait for objects.
    pub(crate) waiting: u32,
    /// The number that wait for their children.
    pub(crate) joining: u32,
    /// Whether the application is being ended.
    pub(crate) is_over: bool,
    /// The index of its first object among those of its machine.
    pub(crate) base: u32,
    /// The group in which it was started, then its own groups.
    pub(crate) groups: Vec<GroupId>,
    /// Whether it waits until it is stopped when all of its tasks wait for each other.
    pub(crate) may_stall: bool,
    /// Whether they do.
    pub(crate) is_stalled: bool,
}

/// The tasks of a machine that follow programs, and what they share.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// By entity index.
    pub(crate) states: Vec<Option<Box<TaskState>>>,
    pub(crate) library: Library,
    pub(crate) objects: Vec<Shared>,
    pub(crate) applications: Vec<ApplicationState>,
    /// Tasks ever begun.
    pub(crate) begun: u64,
    /// Whether there are rings among the objects.
    pub(crate) has_rings: bool,
    /// The instant of the counts below, and the number of advances at it.
    instant: Instant,
    advances: u32,
    /// The number of steps at it.
    pub(super) steps: u32,
    pub(crate) seed: u64,
}

impl Tasks {
    pub(crate) fn of(&mut self, entity: EntityId) -> &mut TaskState {
        self.states[entity.index()].as_mut().expect("it follows a program")
    }

    /// Counts an advance at `now`. Returns whether there are so many that the tasks loop without using time.
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

    /// The deadline of the open job of `entity`; NEVER if it has none.
    pub(crate) fn deadline_of(&self, entity: EntityId) -> Instant {
        let state = self.states.get(entity.index()).and_then(Option::as_ref);
        state.map_or(Instant::NEVER, |state| state.deadline)
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
