//! [`TaskState`]: the state of a task that executes a program.

use super::jobs::JobState;
use super::{CodeId, Draws, Length, ObjectId, code::LOOPS_MOST};
use sched::{EntityId, Instant, Nanos};

/// The reason why a task waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// No wait: the task runs or is runnable.
    Nothing,
    /// A wait for an instant: a sleep, a timer, or the delay of the start.
    Time,
    /// A wait for an object.
    Object(ObjectId),
    /// A wait for a port, an inbox or a ring. The network ends such a wait.
    Outside(ObjectId),
    /// A wait for the end of the task's children.
    Children,
}

/// The state of a task.
#[derive(Debug)]
pub(crate) struct TaskState {
    pub(crate) name: Box<str>,
    pub(crate) code: CodeId,
    /// Position of the next step.
    pub(crate) next: u32,
    /// Remaining rounds of each loop that the task is in.
    pub(crate) rounds: [u64; LOOPS_MOST],
    /// Instant at which the task starts, after its delay.
    pub(crate) began: Instant,
    /// End of the last period of each timer of the task, by number.
    pub(crate) timers: Vec<Instant>,
    /// Random draws of the task. `None`: the task has drawn nothing yet.
    draws: Option<Box<Draws>>,
    /// Number of the task on its machine. Number and seed determine the draws of the task.
    pub(crate) number: u64,
    pub(crate) waiting: Waiting,
    /// Instant since which the task waits for an object.
    pub(crate) since: Instant,
    /// Instant at which the last sleep of the task was due to end.
    pub(crate) due: Instant,
    /// Deadline of the task's open job. NEVER if no job is open or the job has no deadline.
    pub(crate) deadline: Instant,
    /// Progress in the jobs of [`Step::Jobs`](super::Step::Jobs). `None`: the task has no jobs.
    pub(crate) jobs: Option<Box<JobState>>,
    /// Task that forked this task.
    pub(crate) parent: Option<EntityId>,
    /// Number of children that have not ended.
    pub(crate) children: u32,
    /// Number of mutexes and spin locks that the task holds.
    pub(crate) holds: u32,
    /// Number of the task's application.
    pub(crate) application: u32,
    /// Unpaid cost of the task's last steps, charged with its next run.
    pub(crate) owes: Nanos,
    /// Mutex that the task acquires again once its condition is signalled.
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
            jobs: None,
            parent,
            children: 0,
            holds: 0,
            application,
            owes: Nanos::ZERO,
            retakes: None,
        }
    }

    /// Draws the duration of this use of `length`.
    pub(crate) fn draw(&mut self, length: Length, seed: u64) -> Nanos {
        if let Length::Fixed(time) = length {
            return time;
        }
        self.draws.get_or_insert_with(|| Box::new(Draws::new(seed, self.number))).length(length)
    }
}
