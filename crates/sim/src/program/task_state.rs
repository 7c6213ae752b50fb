//! [`TaskState`]: the state of a task that follows a program.

use super::{CodeId, Draws, Length, ObjectId, code::LOOPS_MOST};
use sched::{EntityId, Instant, Nanos};

/// What a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// Nothing: it runs or could run.
    Nothing,
    /// A time.
    Time,
    /// An object.
    Object(ObjectId),
    /// An object that other applications fill or empty: a port, an inbox, a ring.
    Outside(ObjectId),
    /// The end of its children.
    Children,
}

/// The state of a task.
#[derive(Debug)]
pub(crate) struct TaskState {
    pub(crate) name: Box<str>,
    pub(crate) code: CodeId,
    /// The step that comes next.
    pub(crate) next: u32,
    /// Rounds left, of each loop it is in.
    pub(crate) rounds: [u64; LOOPS_MOST],
    /// When it began.
    pub(crate) began: Instant,
    /// When the last period of each of its timers ended; in the order of their numbers.
    pub(crate) timers: Vec<Instant>,
    /// Its random draws, once it has drawn.
    draws: Option<Box<Draws>>,
    /// Its number in the run, which its draws depend on.
    pub(crate) number: u64,
    pub(crate) waiting: Waiting,
    /// Since when it waits for an object.
    pub(crate) since: Instant,
    /// When its last sleep was to end.
    pub(crate) due: Instant,
    /// The deadline of its open job; NEVER if it has none.
    pub(crate) deadline: Instant,
    /// The task that forked it.
    pub(crate) parent: Option<EntityId>,
    /// Children that have not ended.
    pub(crate) children: u32,
    /// Mutexes and spin locks it holds.
    pub(crate) holds: u32,
    /// Its application.
    pub(crate) application: u32,
    /// What its last steps cost, to be paid with its next run.
    pub(crate) owes: Nanos,
    /// The mutex it takes again once its condition is signalled.
    pub(crate) retakes: Option<ObjectId>,
}

impl TaskState {
    pub(crate) fn new(code: CodeId, number: u64, application: u32, parent: Option<EntityId>) -> TaskState {
        TaskState {
            name: Box::default(),
            code,
            next: 0,
            rounds: [0; LOOPS_MOST],
            began: Instant::ZERO,
            timers: Vec::new(),
            draws: None,
            number,
            waiting: Waiting::Nothing,
            since: Instant::ZERO,
            due: Instant::ZERO,
            deadline: Instant::NEVER,
            parent,
            children: 0,
            holds: 0,
            application,
            owes: Nanos::ZERO,
            retakes: None,
        }
    }

    /// How long `length` is this time.
    pub(crate) fn draw(&mut self, length: Length, seed: u64) -> Nanos {
        if let Length::Fixed(time) = length {
            return time;
        }
        self.draws.get_or_insert_with(|| Box::new(Draws::new(seed, self.number))).length(length)
    }
}
