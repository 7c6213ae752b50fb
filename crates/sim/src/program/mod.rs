//! What a task does, step by step: [`Step`]s over the [`Object`]s of an [`Application`].
//!
//! Steps take no time of their own; time passes where a task runs, sleeps or waits. What is shared (locks, pipes, …) is named by an
//! [`ObjectId`], the place of the object in its application.

mod code;
mod interpreter;
mod length;
mod locks;
mod ports;
mod ring;
mod serving;
mod shared;
mod task_state;
mod tasks;
mod timers;
mod trouble;

pub(crate) use code::{CodeId, Op};
pub(crate) use length::Draws;
pub use length::Length;
pub use ring::{Notify, Ring};
pub(crate) use serving::Notified;
pub(crate) use task_state::Waiting;
pub(crate) use tasks::{ApplicationState, Tasks};

use sched::{Nanos, Params};
use std::sync::Arc;

/// The place of an object in its [`Application`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// An object that tasks of one machine share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// A sleeping lock. A task that finds it taken blocks until it gets the lock, first come, first served.
    Mutex,
    /// A spin lock. [`Spinning`](crate::guest::Spinning) defines how a guest hands it on.
    Spin,
    /// A condition variable.
    Condition,
    /// A barrier. Tasks wait until `parties` of them have come.
    Barrier {
        /// How many.
        parties: u32,
    },
    /// A barrier whose tasks wait by spinning: a parallel program whose threads wait actively (OMP_WAIT_POLICY=active).
    SpinBarrier {
        /// How many.
        parties: u32,
    },
    /// A semaphore, 0 at first. A task that takes from an empty one blocks.
    Semaphore {
        /// The most it counts to; posts beyond are lost. Range: 1 ….
        most: u32,
    },
    /// A pipe or one direction of a socket: writers block when it is full, readers when it is empty.
    Pipe {
        /// How many bytes it holds. Range: 1 ….
        capacity: u64,
    },
    /// Where tasks send on a [flow](crate::network::Flow): they block while more was sent than `window` that has not been read.
    Port {
        /// How many bytes may be on their way, or there and unread. Range: 1 …; at least what is sent at once.
        window: u64,
    },
    /// Where tasks receive from flows; what comes when it is full is dropped.
    Inbox {
        /// How many bytes it holds. Range: 1 ….
        room: u64,
    },
    /// Packets of flows that wait for a task to handle them.
    Ring(Ring),
}

/// How a timer counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerMode {
    /// From when the last period ended, or from now if that has passed: a late task is never behind.
    Relative,
    /// From when the last period ended, or from now if that has passed for longer than `most`: a late task does not wait until it has
    /// caught up, unless it is too far behind.
    CatchingUp {
        /// How far behind is not yet too far.
        most: Nanos,
    },
    /// From when the last period ended, even if that has passed: a late task does not wait until it has caught up.
    Absolute,
    /// The same, but periods that have passed altogether are left out: a late task waits for the next beat (cyclictest).
    Skipping,
}

/// A step of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Uses so much CPU time.
    Run(Length),
    /// Sleeps for so long.
    Sleep(Length),
    /// Sleeps until the period of its timer number `timer` (from 0, its own) is over. The first one counts from when the task
    /// began, after its delay, whenever the timer is first used; each is as long as this step says.
    Timer {
        /// Which of its timers. Range: 0 … 15.
        timer: u8,
        /// From the last end to this one. Range: above zero.
        period: Nanos,
        /// From when it counts.
        mode: TimerMode,
    },
    /// Uses CPU time until the period of its timer is over, as a program that polls the clock. A preempted task does less work, and a
    /// late one goes on at once (load playback). The timer counts as [`TimerMode::Absolute`].
    RunUntil {
        /// Which of its timers. Range: 0 … 15.
        timer: u8,
        /// From the last end to this one. Range: above zero.
        period: Nanos,
        /// CPU time from one look at the clock to the next. Range: above zero.
        grain: Nanos,
    },
    /// Drops late work (a player that drops frames): each beat of its timer that is more than `late` ago uses up a round of the
    /// enclosing loop without waiting. The loop ends here when no rounds are left. [`Step::Timer`] waits for the other beats. Outside
    /// any loop it has no effect.
    DropLate {
        /// Which of its timers. Range: 0 … 15.
        timer: u8,
        /// From one beat to the next. Range: above zero.
        period: Nanos,
        /// How late is not yet too late.
        late: Nanos,
    },
    /// Sleeps for `pause` if the last period of its timer was over before now, else goes on: what had to be held up meanwhile is taken
    /// up again (a drive that stopped for want of room seeks back).
    Resume {
        /// Which of its timers. Range: 0 … 15.
        timer: u8,
        /// How long.
        pause: Length,
    },
    /// Takes a mutex or spin lock.
    Lock(ObjectId),
    /// Gives it back.
    Unlock(ObjectId),
    /// Gives `mutex` back, waits for the condition, and takes it again.
    Wait {
        /// The condition.
        condition: ObjectId,
        /// The mutex, which it holds.
        mutex: ObjectId,
    },
    /// Wakes the task that has waited longest for the condition, if there is one.
    Signal(ObjectId),
    /// Wakes all tasks that wait for the condition.
    Broadcast(ObjectId),
    /// Waits at a barrier for all the others.
    Barrier(ObjectId),
    /// Takes one from a semaphore.
    Take(ObjectId),
    /// Posts one to a semaphore.
    Post(ObjectId),
    /// Writes so many bytes into a pipe or port, all at once: blocks until there is room for them. At most what it holds.
    Send {
        /// Where.
        pipe: ObjectId,
        /// How many. Range: 1 ….
        bytes: u64,
    },
    /// Reads so many bytes from a pipe or inbox: blocks until they are there.
    Receive {
        /// Where.
        pipe: ObjectId,
        /// How many. Range: 1 ….
        bytes: u64,
    },
    /// Handles one packet of a ring and sends it on its way: blocks until there is one.
    Serve(ObjectId),
    /// Yields the CPU.
    Yield,
    /// Forks another task, its child.
    Fork(Arc<TaskSpec>),
    /// Waits until all tasks that it has forked have ended.
    Join,
    /// Asks for new parameters. Its group stays.
    Ask(Box<Params>),
    /// Enters a group of its application, by its place in [`Application::groups`]; `None`: the group in which the application was
    /// started.
    EnterGroup(Option<u32>),
    /// A job begins, to be done within `deadline`, if any. Its metric is the time until [`Step::JobEnds`].
    JobBegins {
        /// From now on.
        deadline: Option<Nanos>,
    },
    /// The job that began is done.
    JobEnds,
    /// Records the time from the end of its last sleep or timer until now (cyclictest's measure).
    Woke,
    /// All of `body`, `times` over; `None`: without end.
    Repeat {
        /// How often. Range: 0 ….
        times: Option<u64>,
        /// What.
        body: Vec<Step>,
    },
    /// Ends here.
    Exit,
    /// Ends here, and with it all tasks of its application, as a process ends with its main thread (exit_group).
    Quit,
}

/// A task of an application.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// Its parameters. Its group is set where it is attached.
    pub params: Params,
    /// When it begins, counted from when its application does. Of a forked one: from the fork. A random one is drawn from the seed of
    /// the run.
    pub delay: Length,
    /// Its program. The task ends with it.
    pub steps: Vec<Step>,
}

/// Tasks of one program on one machine, with the objects that they share.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Application {
    /// The shared objects, each with a name for messages.
    pub objects: Vec<(String, Object)>,
    /// The tasks at its start.
    pub tasks: Vec<TaskSpec>,
    /// Groups below the one in which the application is started. Tasks begin in that one and enter these by [`Step::EnterGroup`].
    pub groups: Vec<TaskGroup>,
    /// Whether the run goes on when all tasks wait for each other: they wait until the application is stopped, and the run records
    /// it ([`World::stalls`](crate::World::stalls)). Otherwise the run ends there.
    pub may_stall: bool,
}

/// A group of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskGroup {
    /// Its name in traces.
    pub name: String,
    /// The group that it is part of, by its place, which is before this one; `None`: the group in which the application is started.
    pub parent: Option<usize>,
}

impl Application {
    /// Adds an object.
    pub fn share(&mut self, name: impl Into<String>, object: Object) -> ObjectId {
        let id = ObjectId(u32::try_from(self.objects.len()).expect("an application has fewer than 2^32 objects"));
        self.objects.push((name.into(), object));
        id
    }
}
