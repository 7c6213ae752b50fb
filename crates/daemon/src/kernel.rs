//! [`Kernel`]: the only interface between the daemon or its guardian and a kernel. [`Linux`](crate::linux::Linux)
//! implements the interface for real hosts. The simulated host (crate `simhost`) implements the interface in virtual
//! time, so that tests can inject crashes, hangs and refusals.
//!
//! An implementation makes no decisions. An implementation does not allocate memory between the expiry of a timer and
//! the resulting dispatch: threads are opened once and stay open.

use crate::table::ControlGroup;
use sched::{CpuId, CpuSet, Instant, Nanos};
use sys::Result;
use sys::attributes::Attributes;
use sys::thread::{Identity, Owner, Status};
use sys::usage::Usage;

/// Real-time priorities, in descending order.
pub mod priority {
    /// Priority of the guardian, which must preempt an agent that hangs.
    pub const GUARDIAN: u32 = 99;
    /// Priority of the agents.
    pub const AGENT: u32 = 98;
    /// Priority of a dispatched client that is alone on its CPU, and of a blocked client that has budget left or whose
    /// period has ended. The blocked client therefore runs as soon as it wakes.
    pub const RAISED: u32 = 97;
    /// Priority of the threads that serve the vCPUs of a dispatched client.
    pub const HELPER: u32 = 96;
    /// Priority of the dispatched client if other clients share its CPU, or if threads serve its vCPUs. A client that
    /// wakes at priority [`RAISED`] preempts the dispatched client. The agent detects the wake-up, and the machine picks
    /// one of the clients.
    pub const AMONG_OTHERS: u32 = 95;
    /// Priority of the sentinels. Each sentinel runs when no raised thread wants its CPU.
    pub const SENTINEL: u32 = 94;
    /// Priority of a thread that only precedes ordinary threads.
    pub const LEAST: u32 = 1;
    /// The priorities of raised threads.
    pub const ALL_RAISED: [u32; 3] = [RAISED, HELPER, AMONG_OTHERS];
}

/// The place of a process relative to a control group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// The process was in the group, or in a group below.
    Already,
    /// The process has been moved into the group.
    Moved,
    /// The process is not in the group: it freezes with another group.
    Elsewhere,
}

/// A share of the CPUs for a control group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct CpuShare {
    /// Weight relative to other groups. An ordinary group has 100. Range: 1 … 10,000. `None`: the default.
    pub weight: Option<u32>,
    /// Maximum CPU time. Unit: percent of a CPU. Range: 1 … 100 times the number of CPUs. `None`: no maximum.
    pub cap_percent: Option<u32>,
}

/// Operations that the daemon and its guardian need from a kernel.
pub trait Kernel {
    /// A handle to a thread. Once the thread has ended, every call with the handle returns `Gone`, even if the tid is
    /// reused.
    type Thread;

    /// A loan of a priority to a thread. The loan ends when this value is dropped, and after this process has ended or
    /// was stopped. The end of a loan never fails.
    type Loan;

    /// An open control group through which processes are frozen, or have a share of the CPUs. The group stays when this
    /// value is dropped.
    type Freezer;

    /// Returns the time of the monotonic clock.
    fn now(&self) -> Instant;

    /// Opens thread `tid`.
    ///
    /// # Errors
    /// The thread has ended.
    fn open(&self, tid: u32) -> Result<Self::Thread>;

    /// Opens the thread with this identity, but never a later thread with the same tid.
    ///
    /// # Errors
    /// The thread has ended. Its tid may have been reused.
    fn open_as(&self, identity: Identity) -> Result<Self::Thread>;

    /// Returns the identity of the thread, which is unique until the machine reboots.
    fn identity(&self, thread: &Self::Thread) -> Identity;

    /// Returns the tids of the threads of process `pid`, in ascending order.
    ///
    /// # Errors
    /// The process has ended.
    fn threads(&self, pid: u32) -> Result<Vec<u32>>;

    /// Returns the pid of the parent of process `pid`. This call takes less time than the status of a thread.
    ///
    /// # Errors
    /// The process has ended.
    fn parent(&self, pid: u32) -> Result<u32>;

    /// Returns the pids of the children of process `pid`, in ascending order. Ended children may be included.
    ///
    /// # Errors
    /// The process has ended.
    fn children(&self, pid: u32) -> Result<Vec<u32>>;

    /// Returns a number that changes whenever a thread or process starts on this host.
    ///
    /// # Errors
    /// The host does not report this number.
    fn births(&self) -> Result<u64>;

    /// Returns the current status of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    fn status(&self, thread: &Self::Thread) -> Result<Status>;

    /// Returns the owner of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    fn owner(&self, thread: &Self::Thread) -> Result<Owner>;

    /// Returns the real user ID of this process.
    fn user(&self) -> u32;

    /// Returns the CPU time that the thread may use at real-time priority between two sleeps; `None`: no limit.
    ///
    /// # Errors
    /// The thread has ended.
    fn realtime_limit(&self, thread: &Self::Thread) -> Result<Option<Nanos>>;

    /// Returns the pid of the thread's process.
    ///
    /// # Errors
    /// The thread has ended.
    fn process(&self, thread: &Self::Thread) -> Result<u32>;

    /// Returns the CPU time and the number of dispatches of the thread. The values are exact if they are read on the
    /// thread's last CPU immediately after the thread has left that CPU.
    ///
    /// # Errors
    /// The thread has ended.
    fn usage(&self, thread: &Self::Thread) -> Result<Usage>;

    /// Returns how often the thread has blocked (voluntary context switches). The end of a reservation's slice does not
    /// count.
    ///
    /// # Errors
    /// The thread has ended, or the kernel does not count.
    fn sleeps(&self, thread: &Self::Thread) -> Result<u64>;

    /// Returns the scheduling attributes of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    fn attributes(&self, thread: &Self::Thread) -> Result<Attributes>;

    /// Returns the nice value of the thread. A real-time thread has one, too.
    ///
    /// # Errors
    /// The thread has ended.
    fn nice(&self, thread: &Self::Thread) -> Result<i32>;

    /// Sets the scheduling attributes of the thread.
    ///
    /// # Errors
    /// The thread has ended, or the caller lacks permission or privilege.
    fn schedule(&self, thread: &Self::Thread, wanted: Attributes) -> Result<()>;

    /// Returns the timer slack of the thread; zero in the real-time classes and SCHED_DEADLINE.
    ///
    /// # Errors
    /// The thread has ended, or the caller lacks the privilege.
    fn slack(&self, thread: &Self::Thread) -> Result<Nanos>;

    /// Sets the timer slack of the thread. Has no effect in the real-time classes and SCHED_DEADLINE.
    ///
    /// # Errors
    /// The thread has ended, or the caller lacks the privilege.
    fn set_slack(&self, thread: &Self::Thread, slack: Nanos) -> Result<()>;

    /// Begins a loan to the thread. No priority is lent yet. A call takes as long as the start of a thread, so no
    /// caller may hold the dispatcher.
    ///
    /// # Errors
    /// The thread has ended, there are too many threads, or the kernel does not let the thread inherit a priority.
    /// `Busy`: the thread ends or executes a program just now; try again later.
    fn begin_loan(&self, thread: &Self::Thread) -> Result<Self::Loan>;

    /// Lets the thread of the loan inherit real-time priority `priority`; `None`: no priority. The attributes of the
    /// thread do not change.
    ///
    /// # Errors
    /// The caller lacks the privilege for this priority.
    fn lend(&self, loan: &Self::Loan, priority: Option<u32>) -> Result<()>;

    /// Returns whether the loan lasts. If not, the thread has ended or has executed a program, or this process was
    /// stopped.
    fn is_lending(&self, loan: &Self::Loan) -> bool;

    /// Moves all threads of another process of Tactus to SCHED_OTHER, which ends the effect of its loans. A process that is
    /// killed or stopped lends until its donors run, and they may have to wait for the threads that inherit from them.
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    fn lower_all(&self, process: Identity) -> Result<()>;

    /// Returns the CPUs that the thread may run on.
    ///
    /// # Errors
    /// The thread has ended.
    fn affinity(&self, thread: &Self::Thread) -> Result<CpuSet>;

    /// Returns the CPUs that thread `tid` may run on. The tid may have been reused, so check the identity of the thread
    /// before it is changed.
    ///
    /// # Errors
    /// There is no such thread.
    fn affinity_of(&self, tid: u32) -> Result<CpuSet>;

    /// Returns the CPUs of the thread's cpuset, without CPUs of the thread that go offline just now; all online CPUs if
    /// the host does not show the cpuset.
    ///
    /// # Errors
    /// The thread has ended.
    fn cpuset(&self, thread: &Self::Thread) -> Result<CpuSet>;

    /// Lets the thread run on all CPUs of its cpuset, now and after later changes of the cpuset.
    ///
    /// # Errors
    /// The thread has ended, or the caller lacks permission.
    fn follow_cpuset(&self, thread: &Self::Thread) -> Result<()>;

    /// Restricts the thread to `cpus`. The kernel remembers `cpus`, and applies them again whenever the cpuset of the
    /// thread changes.
    ///
    /// # Errors
    /// The thread has ended, the caller lacks permission, or the thread's cpuset contains none of `cpus`.
    fn set_affinity(&self, thread: &Self::Thread, cpus: &CpuSet) -> Result<()>;

    /// Returns the group through which the process of `leader`, its first thread, can be frozen. Changes nothing.
    ///
    /// # Errors
    /// The process has ended, or this host has no freezer for the process.
    fn freezer_group(&self, leader: &Self::Thread) -> Result<ControlGroup>;

    /// Returns the group through which the process of `leader`, its first thread, can have this share of the CPUs.
    /// Changes nothing.
    ///
    /// # Errors
    /// The process has ended, or this host has no cpu controller for the process.
    fn share_group(&self, leader: &Self::Thread, share: CpuShare) -> Result<ControlGroup>;

    /// Sets the share of a group that was opened for a [`share_group`](Kernel::share_group) with the same share.
    ///
    /// # Errors
    /// The group has been removed, or the kernel does not support the values.
    fn set_share(&self, group: &Self::Freezer, share: CpuShare) -> Result<()>;

    /// Opens `group`, which [`freezer_group`](Kernel::freezer_group) has returned for `leader`. Creates a group of Tactus
    /// below the present group of the process, but does not move the process.
    ///
    /// # Errors
    /// The process has ended or is in another group now, or the caller lacks permission.
    fn open_freezer(&self, group: ControlGroup, leader: &Self::Thread) -> Result<Self::Freezer>;

    /// Moves the process of `leader` into a group of Tactus, if the process is in the group directly above. Otherwise,
    /// moves nothing. The first of several moves takes some 10 ms, so no caller may hold the dispatcher.
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    fn join_freezer(&self, freezer: &Self::Freezer, leader: &Self::Thread) -> Result<Joined>;

    /// Returns the pids of the processes that freeze with the group.
    ///
    /// # Errors
    /// The group has been removed.
    fn freezer_processes(&self, freezer: &Self::Freezer) -> Result<Vec<u32>>;

    /// Returns whether another program has frozen the group. Other programs do not freeze a group of Tactus; their freezes
    /// of a group above have no effect on this answer.
    ///
    /// # Errors
    /// The group has been removed.
    fn is_freezing(&self, freezer: &Self::Freezer) -> Result<bool>;

    /// Starts to freeze the group: no process in the group, and no later child, runs until the thaw. A thread in a system
    /// call may run until the end of the call.
    ///
    /// # Errors
    /// The group has been removed.
    fn freeze(&self, freezer: &Self::Freezer) -> Result<()>;

    /// Thaws the group. A process that another program has stopped (SIGSTOP) stays stopped.
    ///
    /// # Errors
    /// The group has been removed.
    fn thaw(&self, freezer: &Self::Freezer) -> Result<()>;

    /// Thaws a recorded group. Has no effect if the group does not exist.
    ///
    /// # Errors
    /// The caller lacks permission.
    fn thaw_group(&self, group: ControlGroup) -> Result<()>;

    /// Thaws a recorded group that Tactus has created, moves its processes to the group above, and removes the group. Of a
    /// group that existed before Tactus, restores the weight and the cap, unless another program has changed them since.
    /// Has no effect if the group does not exist.
    ///
    /// # Errors
    /// The caller lacks permission, or there are groups below.
    fn remove_group(&self, group: ControlGroup) -> Result<()>;

    /// Continues the process whose first thread is `leader` (SIGCONT), which an earlier program of Tactus has stopped.
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    fn cont(&self, leader: &Self::Thread) -> Result<()>;

    /// Starts or stops waking the agent of `cpu` when this blocked thread begins to run on `cpu`. The thread must be
    /// confined to `cpu`, and not be awaited on another CPU.
    ///
    /// # Errors
    /// The thread has ended, or the host does not report context switches: poll the thread instead.
    fn await_entry(&self, thread: &mut Self::Thread, cpu: CpuId, wanted: bool) -> Result<()>;

    /// Starts waking the keeper when this thread or a descendant of the thread forks on `cpu`. The thread must be
    /// confined to `cpu`. Returns the pids of the processes that they have forked since the last call, which may have
    /// named another CPU.
    ///
    /// # Errors
    /// The thread has ended, or the host does not report forks: scan for new threads once per period instead.
    fn await_births(&self, thread: &mut Self::Thread, cpu: CpuId) -> Result<Vec<u32>> {
        let _ = (thread, cpu);
        let (what, why) = ("fork events".to_string(), "this kernel does not report them".to_string());
        Err(sys::Error::Absent { what, why, remedy: "use a kernel with perf events" })
    }

    /// Returns the pids of the processes that a thread and its descendants have forked since the last call of this
    /// function or of [`await_births`](Kernel::await_births). Makes no system call, so an agent may call it.
    fn last_births(&self, thread: &mut Self::Thread) -> Vec<u32> {
        let _ = thread;
        Vec::new()
    }

    /// Wakes the agent of `cpu` when the thread has used `time` of CPU time from now on, and again after each further
    /// `time`. `None`: no longer. The thread must be confined to `cpu`, and have no timer on another CPU.
    ///
    /// # Errors
    /// The thread has ended, or the host does not report this: use a timer of elapsed time instead. `Busy`: the timer is
    /// not ready; the next call of [`await_births`](Kernel::await_births) for the thread prepares it.
    fn set_cpu_timer(&self, thread: &mut Self::Thread, cpu: CpuId, time: Option<Nanos>) -> Result<()>;

    /// Ends all wake-ups of agents by the thread, before its handle is dropped. The call takes locks that agents take, so
    /// the caller must run at the priority of the agents.
    fn stop_waking(&self, thread: &mut Self::Thread) {
        let _ = thread;
    }

    /// Starts or stops waiting until no raised thread wants `cpu`. The agent of `cpu` is then woken once.
    fn await_quiet(&self, cpu: CpuId, wanted: bool);
}

/// Memory that the daemon shares with its guardian, as an array of words. Stores are atomic, and other processes see
/// them in order.
pub trait Cells: Send + Sync {
    /// Returns the number of words.
    fn len(&self) -> usize;

    /// Returns whether there are no words.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of word `at`.
    fn load(&self, at: usize) -> u64;

    /// Stores `value` into word `at`. A process that reads this value also sees all earlier stores.
    fn store(&self, at: usize, value: u64);
}

impl<K: Kernel> Kernel for &K {
    type Thread = K::Thread;
    type Loan = K::Loan;
    type Freezer = K::Freezer;

    fn now(&self) -> Instant {
        (**self).now()
    }

    fn open(&self, tid: u32) -> Result<Self::Thread> {
        (**self).open(tid)
    }

    fn open_as(&self, identity: Identity) -> Result<Self::Thread> {
        (**self).open_as(identity)
    }

    fn identity(&self, thread: &Self::Thread) -> Identity {
        (**self).identity(thread)
    }

    fn threads(&self, pid: u32) -> Result<Vec<u32>> {
        (**self).threads(pid)
    }

    fn parent(&self, pid: u32) -> Result<u32> {
        (**self).parent(pid)
    }

    fn children(&self, pid: u32) -> Result<Vec<u32>> {
        (**self).children(pid)
    }

    fn births(&self) -> Result<u64> {
        (**self).births()
    }

    fn status(&self, thread: &Self::Thread) -> Result<Status> {
        (**self).status(thread)
    }

    fn owner(&self, thread: &Self::Thread) -> Result<Owner> {
        (**self).owner(thread)
    }

    fn user(&self) -> u32 {
        (**self).user()
    }

    fn realtime_limit(&self, thread: &Self::Thread) -> Result<Option<Nanos>> {
        (**self).realtime_limit(thread)
    }

    fn process(&self, thread: &Self::Thread) -> Result<u32> {
        (**self).process(thread)
    }

    fn usage(&self, thread: &Self::Thread) -> Result<Usage> {
        (**self).usage(thread)
    }

    fn sleeps(&self, thread: &Self::Thread) -> Result<u64> {
        (**self).sleeps(thread)
    }

    fn attributes(&self, thread: &Self::Thread) -> Result<Attributes> {
        (**self).attributes(thread)
    }

    fn nice(&self, thread: &Self::Thread) -> Result<i32> {
        (**self).nice(thread)
    }

    fn schedule(&self, thread: &Self::Thread, wanted: Attributes) -> Result<()> {
        (**self).schedule(thread, wanted)
    }

    fn slack(&self, thread: &Self::Thread) -> Result<Nanos> {
        (**self).slack(thread)
    }

    fn set_slack(&self, thread: &Self::Thread, slack: Nanos) -> Result<()> {
        (**self).set_slack(thread, slack)
    }

    fn begin_loan(&self, thread: &Self::Thread) -> Result<Self::Loan> {
        (**self).begin_loan(thread)
    }

    fn lend(&self, loan: &Self::Loan, priority: Option<u32>) -> Result<()> {
        (**self).lend(loan, priority)
    }

    fn is_lending(&self, loan: &Self::Loan) -> bool {
        (**self).is_lending(loan)
    }

    fn lower_all(&self, process: Identity) -> Result<()> {
        (**self).lower_all(process)
    }

    fn affinity(&self, thread: &Self::Thread) -> Result<CpuSet> {
        (**self).affinity(thread)
    }

    fn affinity_of(&self, tid: u32) -> Result<CpuSet> {
        (**self).affinity_of(tid)
    }

    fn cpuset(&self, thread: &Self::Thread) -> Result<CpuSet> {
        (**self).cpuset(thread)
    }

    fn follow_cpuset(&self, thread: &Self::Thread) -> Result<()> {
        (**self).follow_cpuset(thread)
    }

    fn set_affinity(&self, thread: &Self::Thread, cpus: &CpuSet) -> Result<()> {
        (**self).set_affinity(thread, cpus)
    }

    fn freezer_group(&self, leader: &Self::Thread) -> Result<ControlGroup> {
        (**self).freezer_group(leader)
    }

    fn share_group(&self, leader: &Self::Thread, share: CpuShare) -> Result<ControlGroup> {
        (**self).share_group(leader, share)
    }

    fn set_share(&self, group: &Self::Freezer, share: CpuShare) -> Result<()> {
        (**self).set_share(group, share)
    }

    fn open_freezer(&self, group: ControlGroup, leader: &Self::Thread) -> Result<Self::Freezer> {
        (**self).open_freezer(group, leader)
    }

    fn join_freezer(&self, freezer: &Self::Freezer, leader: &Self::Thread) -> Result<Joined> {
        (**self).join_freezer(freezer, leader)
    }

    fn freezer_processes(&self, freezer: &Self::Freezer) -> Result<Vec<u32>> {
        (**self).freezer_processes(freezer)
    }

    fn is_freezing(&self, freezer: &Self::Freezer) -> Result<bool> {
        (**self).is_freezing(freezer)
    }

    fn freeze(&self, freezer: &Self::Freezer) -> Result<()> {
        (**self).freeze(freezer)
    }

    fn thaw(&self, freezer: &Self::Freezer) -> Result<()> {
        (**self).thaw(freezer)
    }

    fn thaw_group(&self, group: ControlGroup) -> Result<()> {
        (**self).thaw_group(group)
    }

    fn remove_group(&self, group: ControlGroup) -> Result<()> {
        (**self).remove_group(group)
    }

    fn cont(&self, leader: &Self::Thread) -> Result<()> {
        (**self).cont(leader)
    }

    fn await_entry(&self, thread: &mut Self::Thread, cpu: CpuId, wanted: bool) -> Result<()> {
        (**self).await_entry(thread, cpu, wanted)
    }

    fn await_births(&self, thread: &mut Self::Thread, cpu: CpuId) -> Result<Vec<u32>> {
        (**self).await_births(thread, cpu)
    }

    fn last_births(&self, thread: &mut Self::Thread) -> Vec<u32> {
        (**self).last_births(thread)
    }

    fn set_cpu_timer(&self, thread: &mut Self::Thread, cpu: CpuId, time: Option<Nanos>) -> Result<()> {
        (**self).set_cpu_timer(thread, cpu, time)
    }

    fn stop_waking(&self, thread: &mut Self::Thread) {
        (**self).stop_waking(thread);
    }

    fn await_quiet(&self, cpu: CpuId, wanted: bool) {
        (**self).await_quiet(cpu, wanted);
    }
}
