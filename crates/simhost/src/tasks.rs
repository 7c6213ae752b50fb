//! [`Tasks`]: the threads and processes of a world, and the allocation of their tids.

use crate::actor::Actor;
use crate::fork::Birth;
use crate::group::ROOT;
use crate::masks::Masks;
use crate::setting::{Lent, Setting, is_raised};
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use sys::thread::{Identity, Owner};
use sys::usage::Usage;

/// Clock tick of start times: USER_HZ is 100 on all common architectures.
pub(super) const TICK: Nanos = Nanos::ms(10);

/// Pid of init, which adopts orphans.
pub(super) const INIT: u32 = 1;

/// State of a thread at the last observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Away,
    Waiting,
    On(usize),
}

/// CPU time of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) usage: Usage,
    /// Time of the present wait for a CPU so far, which `usage` does not contain yet.
    pub(super) waits: Nanos,
    /// CPU time at a priority that only Tactus sets.
    pub(super) raised: Nanos,
    pub(super) place: Place,
    /// Number of times that the thread has blocked.
    pub(super) sleeps: u64,
    /// Instant up to which CPU time is charged.
    pub(super) since: Instant,
    pub(super) cpu: usize,
}

/// A timer of the CPU time of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuTimer {
    /// Pid of the daemon, and the CPU whose agent the timer wakes.
    pub(super) daemon: u32,
    pub(super) cpu: CpuId,
    /// Total CPU time of the thread when the timer should expire, and when it expires. The difference is a simulated
    /// lateness.
    pub(super) due: Nanos,
    pub(super) at: Nanos,
    /// CPU time between two expiries.
    pub(super) every: Nanos,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) identity: Identity,
    /// Unique number of the thread among all past and present threads.
    pub(super) birth: u64,
    pub(super) process: u32,
    /// Fork in progress by the thread.
    pub(super) birth_begun: Option<Birth>,
    pub(super) name: String,
    pub(super) setting: Setting,
    /// Nice value of the thread, which a real-time thread has, too.
    pub(super) nice: i32,
    /// Setting of the thread without Tactus.
    pub(super) untouched: Setting,
    /// User masks of the thread, as it is and without Tactus.
    pub(super) masks: Masks,
    /// Loan of a priority to the thread.
    pub(super) lent: Option<Lent>,
    /// Entity of the thread; `None` once the thread has ended. The first thread of a process is kept without an entity
    /// until the process is reaped.
    pub(super) entity: Option<EntityId>,
    /// Timer slack of the thread. It has no effect in this world.
    pub(super) slack: Nanos,
    /// Whether calls of `World::want` and `World::block` decide when the thread runs and sleeps, instead of a workload.
    pub(super) is_scripted: bool,
    /// Whether a scripted thread wants to run.
    pub(super) wants: bool,
    /// Pid of the daemon, and a CPU. The daemon's agent of this CPU is woken when the thread begins to run on this CPU.
    pub(super) awaited_by: Option<(u32, CpuId)>,
    /// Timer of the thread's CPU time.
    pub(super) cpu_timer: Option<CpuTimer>,
    pub(super) actor: Option<Actor>,
    /// Mark of the thread, which may be inherited from an ancestor.
    pub(super) tag: Option<usize>,
    pub(super) account: Account,
}

impl Thread {
    /// Returns the setting that the scheduler applies.
    pub(super) fn effective(&self) -> Setting {
        self.setting.with(self.lent)
    }

    /// Charges the CPU time up to `now`.
    pub(super) fn charge(&mut self, now: Instant) {
        let is_raised = is_raised(&self.effective().attributes);
        let account = &mut self.account;
        let spent = now.since(account.since);
        account.since = now;
        match account.place {
            Place::Away => {}
            // Linux counts a wait when it is over.
            Place::Waiting => account.waits += spent,
            Place::On(_) => {
                account.usage.ran += spent;
                if is_raised {
                    account.raised += spent;
                }
            }
        }
    }
}

/// Changes to a process that the kernel refuses because of the process's control group, its owner or a security module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refuses {
    /// Whether a real-time class is refused, because the control group has no real-time runtime.
    pub real_time: bool,
    /// Whether a change of affinity is refused.
    pub affinity: bool,
    /// Whether all changes are refused.
    pub all: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) parent: u32,
    pub(super) owner: Owner,
    pub(super) is_kernel: bool,
    /// Whether the process has CAP_SYS_NICE and CAP_KILL.
    pub(super) is_privileged: bool,
    /// Whether the process reaps its children at once.
    pub(super) reaps: bool,
    pub(super) refuses: Refuses,
    /// CPUs of the process's cpuset.
    pub(super) cpuset: CpuSet,
    pub(super) is_stopped: bool,
    /// Whether the process would be stopped without Tactus.
    pub(super) is_stopped_by_others: bool,
    /// Number of the process's freezer group, and of its group without Tactus.
    pub(super) group: u64,
    pub(super) group_by_others: u64,
    /// Whether the process was killed while it was frozen.
    pub(super) is_killed: bool,
    /// Tids of the process's threads, in ascending order.
    pub(super) threads: Vec<u32>,
    /// Pids of the process's children, in ascending order.
    pub(super) children: Vec<u32>,
    pub(super) has_ended: bool,
    /// Whether the parent of the process has ended, or the process was forked by an orphan.
    pub(super) is_orphan: bool,
}

impl Process {
    /// Creates a running process without threads.
    pub(super) fn new(parent: u32, owner: Owner, cpuset: CpuSet) -> Process {
        Process {
            parent,
            owner,
            is_kernel: false,
            is_privileged: owner.effective == 0,
            reaps: true,
            refuses: Refuses::default(),
            cpuset,
            is_stopped: false,
            is_stopped_by_others: false,
            group: ROOT,
            group_by_others: ROOT,
            is_killed: false,
            threads: Vec::new(),
            children: Vec::new(),
            has_ended: false,
            is_orphan: false,
        }
    }
}

/// All threads and processes.
#[derive(Debug)]
pub(super) struct Tasks {
    /// Threads, indexed by tid.
    threads: Vec<Option<Thread>>,
    /// Start time of the newest thread with each tid, indexed by tid.
    started: Vec<u64>,
    /// Tids of the threads that have not ended, in the order of their start.
    pub(super) living: Vec<u32>,
    pub(super) processes: BTreeMap<u32, Process>,
    last: u32,
    /// Number of forks so far, whether finished or not.
    pub(super) births: u64,
    /// Number of threads that have appeared so far.
    pub(super) seen: u64,
}

impl Tasks {
    /// Creates an empty set of tasks, with tids from 1 to `numbers`.
    pub(super) fn new(numbers: u32) -> Tasks {
        let room = numbers as usize + 1;
        Tasks {
            threads: (0..room).map(|_| None).collect(),
            started: vec![u64::MAX; room],
            living: Vec::new(),
            processes: BTreeMap::new(),
            last: 0,
            births: 0,
            seen: 0,
        }
    }

    /// Returns the next free tid, wrapping around; `None` if all tids are in use. A tid is not reused within one clock
    /// tick. A real machine has too many tids to reuse one within a tick.
    pub(super) fn number(&mut self, start_time: u64) -> Option<u32> {
        let room = u32::try_from(self.threads.len()).expect("numbers are 32 bits");
        let after = (self.last + 1..room).chain(1..=self.last);
        let is_free = |tid: &u32| self.threads[*tid as usize].is_none() && self.started[*tid as usize] != start_time;
        let tid = after.into_iter().find(is_free)?;
        self.last = tid;
        Some(tid)
    }

    pub(super) fn add(&mut self, thread: Thread) {
        let Identity { tid, start_time } = thread.identity;
        self.started[tid as usize] = start_time;
        self.living.push(tid);
        self.seen += 1;
        let process = self.processes.get_mut(&thread.process).expect("its process is there");
        process.threads.push(tid);
        process.threads.sort_unstable();
        self.threads[tid as usize] = Some(thread);
    }

    /// Removes a thread.
    pub(super) fn remove(&mut self, tid: u32) {
        self.living.retain(|&living| living != tid);
        let thread = self.threads[tid as usize].take().expect("it was there");
        if let Some(process) = self.processes.get_mut(&thread.process) {
            process.threads.retain(|&other| other != tid);
        }
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Thread> {
        self.threads.get(tid as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, tid: u32) -> Option<&mut Thread> {
        self.threads.get_mut(tid as usize)?.as_mut()
    }

    /// Returns thread `tid`, which must exist.
    pub(super) fn thread(&mut self, tid: u32) -> &mut Thread {
        self.get_mut(tid).expect("it is there")
    }

    /// Returns the process of thread `tid`; `None` if there is no such thread.
    pub(super) fn process_of(&self, tid: u32) -> Option<&Process> {
        self.processes.get(&self.get(tid)?.process)
    }
}
