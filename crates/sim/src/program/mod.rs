//! The programs of tasks: sequences of [`Step`]s that use the [`Object`]s of an [`Application`].
//!
//! Steps take no time of their own; time passes while a task runs, sleeps or waits. An [`ObjectId`] names a shared
//! object (a lock, a pipe, …) by its index in its application.

mod code;
mod interpreter;
mod job_steps;
mod jobs;
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
pub use jobs::{Jobs, LateJobs, Releases};
pub(crate) use length::Draws;
pub use length::Length;
pub use ring::{Notify, Ring};
pub(crate) use serving::Notified;
pub(crate) use task_state::Waiting;
pub(crate) use tasks::{ApplicationState, Tasks};

use sched::{Nanos, Params};
use std::sync::Arc;

/// The index of an object in its [`Application`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// An object that tasks of one machine share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// A sleeping lock. A task that finds the lock held blocks until it acquires the lock. Waiters acquire the lock in
    /// FIFO order.
    Mutex,
    /// A spin lock. On a host, waiters acquire the lock in FIFO order. [`Spinning`](crate::guest::Spinning) defines the
    /// order in a guest.
    Spin,
    /// A lock that spins before it sleeps, as a mutex of type PTHREAD_MUTEX_ADAPTIVE_NP. A waiter that has spun for
    /// `spin` blocks. A released lock goes to the first waiter that spins on a CPU, or else to the first sleeping waiter.
    /// If all waiters were preempted while they spin, the lock stays free until one of them or another task takes it.
    AdaptiveMutex {
        /// CPU time for which a waiter spins before it blocks. Range: above zero.
        spin: Nanos,
    },
    /// A condition variable.
    Condition,
    /// A barrier. Tasks wait until `parties` tasks have arrived.
    Barrier {
        /// Number of tasks that the barrier waits for.
        parties: u32,
    },
    /// A barrier whose tasks spin while they wait, as in a parallel program with active waiting
    /// (OMP_WAIT_POLICY=active).
    SpinBarrier {
        /// Number of tasks that the barrier waits for.
        parties: u32,
    },
    /// A barrier that spins before it sleeps, as in libgomp without OMP_WAIT_POLICY. A waiter that has spun for `spin`
    /// blocks.
    AdaptiveBarrier {
        /// Number of tasks that the barrier waits for.
        parties: u32,
        /// CPU time for which a waiter spins before it blocks. Range: above zero.
        spin: Nanos,
    },
    /// A semaphore with the initial value 0. A task that takes from an empty semaphore blocks.
    Semaphore {
        /// Maximum value of the semaphore; further posts are lost. Range: 1 ….
        most: u32,
    },
    /// A pipe or one direction of a socket. A writer blocks while the pipe lacks room for the writer's bytes. A reader
    /// blocks while the pipe holds fewer bytes than the reader requests.
    Pipe {
        /// Capacity of the pipe. Unit: bytes. Range: 1 ….
        capacity: u64,
    },
    /// The sending end of a [flow](crate::network::Flow). A task that sends blocks while its bytes would raise the
    /// number of bytes in transit, unread or not yet acknowledged above `window`.
    Port {
        /// Maximum number of bytes in transit, unread or not yet acknowledged. `u64::MAX`: unlimited. Unit: bytes.
        /// Range: 1 …; at least the size of the largest send.
        window: u64,
    },
    /// The receiving end of flows. A packet that does not fit into the inbox is dropped.
    Inbox {
        /// Capacity of the inbox. Unit: bytes. Range: 1 ….
        room: u64,
    },
    /// Packets of flows that wait for a task to handle them.
    Ring(Ring),
}

/// The rule by which a timer determines the start of each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerMode {
    /// Each period begins at the end of the last period, or now if that end has passed. A late task never has to catch
    /// up.
    Relative,
    /// Each period begins at the end of the last period, or now if that end passed more than `most` ago. A late task
    /// does not wait until it has caught up, unless its delay exceeds `most`.
    CatchingUp {
        /// Maximum delay that a task catches up with.
        most: Nanos,
    },
    /// Each period begins at the end of the last period, even if that end has passed. A late task does not wait until
    /// it has caught up.
    Absolute,
    /// Like `Absolute`, without the periods that have passed entirely: a late task waits for the end of the current
    /// period (cyclictest).
    Skipping,
}

/// A step of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Uses this amount of CPU time.
    Run(Length),
    /// Sleeps for this time.
    Sleep(Length),
    /// Sleeps until the current period of the task's timer number `timer` ends. The period has the length that this
    /// step gives. The first period begins when the task starts, after its delay, even if the timer is first used
    /// later.
    Timer {
        /// Number of the timer in its task. Range: 0 … 15.
        timer: u8,
        /// Length of the period. Range: above zero. Range: above zero.
        period: Nanos,
        /// Start of each period.
        mode: TimerMode,
    },
    /// Uses CPU time until the current period of the timer ends, like a program that polls the clock. A preempted task
    /// does less work, and a late task continues at once (load playback). The timer advances as in
    /// [`TimerMode::Absolute`].
    RunUntil {
        /// Number of the timer in its task. Range: 0 … 15.
        timer: u8,
        /// Length of the period. Range: above zero. Range: above zero.
        period: Nanos,
        /// CPU time between two reads of the clock. Range: above zero.
        grain: Nanos,
    },
    /// Drops late work (a player that drops frames). A beat is the end of a period of the step's timer. For each beat
    /// that is more than `late` ago, the step skips a round of the enclosing loop. The loop ends at this step when no
    /// rounds are left. [`Step::Timer`] waits for the other beats. Outside any loop, the step has no effect.
    DropLate {
        /// Number of the timer in its task. Range: 0 … 15.
        timer: u8,
        /// Time from one beat to the next. Range: above zero.
        period: Nanos,
        /// Maximum delay of a beat that is not dropped.
        late: Nanos,
    },
    /// Sleeps for `pause` if the last period of the timer ended before now; otherwise continues. Models the restart of
    /// suspended work (a drive that stopped for lack of room seeks back).
    Resume {
        /// Number of the timer in its task. Range: 0 … 15.
        timer: u8,
        /// Duration of the sleep.
        pause: Length,
    },
    /// Acquires a mutex or spin lock.
    Lock(ObjectId),
    /// Releases a mutex or spin lock.
    Unlock(ObjectId),
    /// Releases `mutex`, waits for the condition, and acquires `mutex` again.
    Wait {
        /// Condition variable to wait for.
        condition: ObjectId,
        /// Mutex that the task holds.
        mutex: ObjectId,
    },
    /// Wakes the task that has waited longest for the condition, if any.
    Signal(ObjectId),
    /// Wakes all tasks that wait for the condition.
    Broadcast(ObjectId),
    /// Waits at a barrier until the required number of tasks have arrived.
    Barrier(ObjectId),
    /// Decrements a semaphore. Blocks while its value is 0.
    Take(ObjectId),
    /// Increments a semaphore.
    Post(ObjectId),
    /// Writes bytes into a pipe or port, all at once. Blocks until there is room for the bytes. The number of bytes
    /// must not exceed the capacity of the pipe or the window of the port.
    Send {
        /// Pipe or port to write into.
        pipe: ObjectId,
        /// Number of bytes. Range: 1 ….
        bytes: u64,
    },
    /// Reads bytes from a pipe or inbox. Blocks until all bytes have arrived.
    Receive {
        /// Pipe or inbox to read from.
        pipe: ObjectId,
        /// Number of bytes. Range: 1 ….
        bytes: u64,
    },
    /// Handles one packet of a ring and forwards the packet. Blocks while the ring is empty.
    Serve(ObjectId),
    /// Yields the CPU.
    Yield,
    /// Forks a child task.
    Fork(Arc<TaskSpec>),
    /// Waits until all children of the task have ended.
    Join,
    /// Requests new parameters. The task keeps its group.
    Ask(Box<Params>),
    /// Enters a group of the application, by its index in [`Application::groups`]. `None`: the group in which the
    /// application was started.
    EnterGroup(Option<u32>),
    /// Begins a job with an optional `deadline`. The response time of the job is the time until [`Step::JobEnds`].
    JobBegins {
        /// Time from now to the deadline of the job.
        deadline: Option<Nanos>,
    },
    /// Completes the current job.
    JobEnds,
    /// Releases jobs at given instants and completes them in order. The task runs while a job is open. The step never
    /// ends, and is the only step of its program.
    Jobs(Arc<Jobs>),
    /// Records the time from the instant at which the last sleep of the task was due to end until now (cyclictest's
    /// measure).
    Woke,
    /// Repeats `body` `times` times. `None`: without end.
    Repeat {
        /// Number of rounds. Range: 0 ….
        times: Option<u64>,
        /// Steps of a round.
        body: Vec<Step>,
    },
    /// Ends the task.
    Exit,
    /// Ends the task and all tasks of its application, as a process ends with its main thread (exit_group).
    Quit,
}

/// A task of an application.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSpec {
    /// Name of the task.
    pub name: String,
    /// Parameters of the task. The group in them is replaced by the group of the application, or for a child by the
    /// group of its parent.
    pub params: Params,
    /// Time from the start of the application to the start of the task; for a child, time from its fork. A random time
    /// is drawn from the seed of the run.
    pub delay: Length,
    /// Program of the task. The task ends with its program.
    pub steps: Vec<Step>,
}

/// Tasks of one program on one machine, with the objects that they share.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Application {
    /// Shared objects, each with a name for messages.
    pub objects: Vec<(String, Object)>,
    /// Tasks at the start of the application.
    pub tasks: Vec<TaskSpec>,
    /// Groups below the group in which the application is started. Tasks begin in the group in which the application is
    /// started, and enter these groups by [`Step::EnterGroup`].
    pub groups: Vec<TaskGroup>,
    /// Whether the run continues when all tasks wait for each other. In this case, the tasks wait until the application
    /// is stopped, and [`World::stalls`](crate::World::stalls) reports the stall. Otherwise the run ends at that
    /// instant.
    pub may_stall: bool,
}

/// A group of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskGroup {
    /// Name of the group in traces.
    pub name: String,
    /// Index of the parent group, which precedes this group. `None`: the group in which the application is started.
    pub parent: Option<usize>,
}

impl Application {
    /// Adds an object and returns its id.
    pub fn share(&mut self, name: impl Into<String>, object: Object) -> ObjectId {
        let id = ObjectId(u32::try_from(self.objects.len()).expect("an application has fewer than 2^32 objects"));
        self.objects.push((name.into(), object));
        id
    }
}
