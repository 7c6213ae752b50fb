//! [`Tasks`]: the threads and processes of a world, and the allocation of their numbers.

use crate::actor::Actor;
use crate::fork::Birth;
use crate::setting::{Setting, is_raised};
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use sys::thread::{Identity, Owner};
use sys::usage::Usage;

/// The clock tick of start times: USER_HZ is 100 on every known architecture.
pub(super) const TICK: Nanos = Nanos::ms(10);

/// Init, which adopts orphans.
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
    /// CPU time at a priority that only Tactus sets.
    pub(super) raised: Nanos,
    pub(super) place: Place,
    /// The instant up to which time is charged.
    pub(super) since: Instant,
    pub(super) cpu: usize,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) identity: Identity,
    /// Its unique number among all threads that ever existed.
    pub(super) birth: u64,
    pub(super) process: u32,
    /// Its fork in progress.
    pub(super) birth_begun: Option<Birth>,
    pub(super) name: String,
    pub(super) setting: Setting,
    /// Its setting without Tactus.
    pub(super) untouched: Setting,
    /// `None` once it has ended: the first thread of a process stays until all threads have ended.
    pub(super) entity: Option<EntityId>,
    /// Whether the caller decides when it runs and sleeps.
    pub(super) is_scripted: bool,
    /// Whether a scripted thread wants to run.
    pub(super) wants: bool,
    /// The daemon process and CPU whose agent is woken when the thread arrives there.
    pub(super) awaited_by: Option<(u32, CpuId)>,
    pub(super) actor: Option<Actor>,
    /// Its mark, or that of the ancestor it comes from.
    pub(super) tag: Option<usize>,
    pub(super) account: Account,
}

impl Thread {
    /// Charges the time up to `now`.
    pub(super) fn charge(&mut self, now: Instant) {
        let account = &mut self.account;
        let spent = now.since(account.since);
        account.since = now;
        match account.place {
            Place::Away => {}
            Place::Waiting => account.usage.waited += spent,
            Place::On(_) => {
                account.usage.ran += spent;
                if is_raised(&self.setting.attributes) {
                    account.raised += spent;
                }
            }
        }
    }
}

/// Changes to a process that its control group, its owner or a security module refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refuses {
    /// A real-time class: its group has no real-time runtime.
    pub real_time: bool,
    /// Another affinity.
    pub affinity: bool,
    /// All changes.
    pub all: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) parent: u32,
    pub(super) owner: Owner,
    pub(super) is_kernel: bool,
    /// Whether it has CAP_SYS_NICE and CAP_KILL.
    pub(super) is_privileged: bool,
    /// Whether it reaps its children at once.
    pub(super) reaps: bool,
    pub(super) refuses: Refuses,
    /// The CPUs of its cpuset.
    pub(super) cpuset: CpuSet,
    pub(super) is_stopped: bool,
    /// Whether it would be stopped without Tactus.
    pub(super) is_stopped_by_others: bool,
    /// In ascending order.
    pub(super) threads: Vec<u32>,
    /// In ascending order.
    pub(super) children: Vec<u32>,
    pub(super) has_ended: bool,
    /// Whether the parent of an ancestor has ended.
    pub(super) is_orphan: bool,
}

impl Process {
    /// A running process, without threads yet.
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
    /// By number.
    threads: Vec<Option<Thread>>,
    /// The last start time given with each number.
    started: Vec<u64>,
    /// Numbers of the threads that have not ended.
    pub(super) living: Vec<u32>,
    pub(super) processes: BTreeMap<u32, Process>,
    last: u32,
    /// The number of forks so far, finished or not.
    pub(super) births: u64,
    /// The number of threads that have appeared.
    pub(super) seen: u64,
}

impl Tasks {
    /// No tasks, with numbers from 1 up to `numbers`.
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

    /// The next free number after the last one, wrapping around; `None` if all are in use. A number is not reused within one
    /// clock tick: a real machine has too many for that.
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

    /// A thread that exists.
    pub(super) fn thread(&mut self, tid: u32) -> &mut Thread {
        self.get_mut(tid).expect("it is there")
    }

    /// The process of a living thread.
    pub(super) fn process_of(&self, tid: u32) -> Option<&Process> {
        self.processes.get(&self.get(tid)?.process)
    }
}
