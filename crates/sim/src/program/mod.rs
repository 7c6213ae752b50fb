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

/// Something that tasks of one machine share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// A sleeping lock: whoever finds it taken blocks, and is woken when it is its turn (first come, first served).
    Mutex,
    /// A lock that is waited for by spinning. How it is handed on is a matter of the machine, see
    /// [`Spinning`](crate::guest::Spinning).
    Spin,
    /// A condition variable.
    Condition,
    /// Whoever comes waits for the others; the last of `parties` lets all go. Range: 1 ….
    Barrier {
        /// How many.
        parties: u32,
    },
    /// As a barrier, but whoever waits spins: a parallel program whose threads wait actively (OMP_WAIT_POLICY=active).
    SpinBarrier {
        /// How many.
        parties: u32,
    },
    /// Counts what was posted and not yet taken, up to `most`; begins at 0. Whoever takes from an empty one blocks.
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

/// One thing a task does.
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
    /// Uses CPU time until the period of its timer is over on the clock, as a program that looks at the clock again and again: whoever
    /// is kept off its CPU does less, and one that comes back late goes on at once (load playback). Counts as [`TimerMode::Absolute`].
    RunUntil {
        /// Which of its timers. Range: 0 … 15.
        timer: u8,
        /// From the last end to this one. Range: above zero.
        period: Nanos,
        /// CPU time from one look at the clock to the next. Range: above zero.
        grain: Nanos,
    },
    /// The condition of those who leave out what comes too late (a player that drops frames): each beat of its timer that has been
    /// over for longer than `late` takes up a round of the loop around it, and is not waited for. Without rounds left, the loop ends
    /// here. The other beats are waited for with [`Step::Timer`]. Outside any loop, nothing.
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
    /// Wakes who has waited longest for the condition, if anybody does.
    Signal(ObjectId),
    /// Wakes all who wait for the condition.
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
    /// Gives its turn away.
    Yield,
    /// Begins another task, its child.
    Fork(Arc<TaskSpec>),
    /// Waits until all tasks that it has forked have ended.
    Join,
    /// Asks for something else than before. Its group stays.
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
    /// Says how long after the end of its last sleep or timer it has come to run (cyclictest's measure).
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
    /// What people call it.
    pub name: String,
    /// What is asked for it. Its group is given where it is attached.
    pub params: Params,
    /// When it begins, counted from when its application does. Of a forked one: from the fork. A random one is drawn from the seed of
    /// the run.
    pub delay: Length,
    /// What it does; at the end of it, it ends.
    pub steps: Vec<Step>,
}

/// Tasks that belong together, on one machine, and what they share.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Application {
    /// What they share: a name, for messages, and what it is.
    pub objects: Vec<(String, Object)>,
    /// The tasks that are there from the beginning.
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
