//! [`Tasks`]: the threads and processes of a world, and how their numbers are given out.

use crate::actors::Actor;
use crate::births::Birth;
use sched::{Class, CpuId, CpuSet, EntityId, Instant, Nanos, Params, RtPriority, Weight};
use std::collections::BTreeMap;
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, Owner};
use sys::usage::Usage;

/// The clock tick in which start times are told: USER_HZ is 100 on every architecture that we know.
pub(super) const TICK: Nanos = Nanos::ms(10);

/// The first of all processes, which gets the children of those that end.
pub(super) const INIT: u32 = 1;

/// What a thread is asked to be and may be changed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// How it is scheduled.
    pub attributes: Attributes,
    /// The CPUs it may run on.
    pub affinity: CpuSet,
}

impl Setting {
    /// What a child of it begins with. Source: `sched_fork`, kernel/sched/core.c, v5.13.
    pub(super) fn of_child(self) -> Setting {
        let Setting { attributes, affinity } = self;
        if !attributes.reset_on_fork {
            return self;
        }
        let policy = match attributes.policy {
            Policy::Other { nice } => Policy::Other { nice: nice.max(0) },
            Policy::Batch { nice } => Policy::Batch { nice: nice.max(0) },
            Policy::Idle => Policy::Idle,
            _ => Policy::Other { nice: 0 },
        };
        Setting { attributes: Attributes::of(policy), affinity }
    }
}

/// What the scheduler is asked for on behalf of a thread; `None`: a class that this kernel does not have.
pub(super) fn params(setting: &Setting) -> Option<Params> {
    let nice = |nice: i32| Weight::nice(nice);
    let priority = |priority: u32| RtPriority::new(u8::try_from(priority).ok()?);
    let (class, weight) = match setting.attributes.policy {
        Policy::Other { nice: value } => (Class::Normal, nice(value)?),
        Policy::Batch { nice: value } => (Class::Batch, nice(value)?),
        Policy::Idle => (Class::Idle, Weight::IDLE),
        Policy::Fifo { priority: number } => (Class::Fifo(priority(number)?), Weight::NORMAL),
        Policy::RoundRobin { priority: number } => (Class::RoundRobin(priority(number)?), Weight::NORMAL),
        Policy::Deadline { .. } | Policy::Ext { .. } | Policy::Unknown(_) => return None,
    };
    Some(Params { class, weight, affinity: setting.affinity, ..Params::default() })
}

/// Where a thread was when it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Away,
    Waiting,
    On(usize),
}

/// What a thread has had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) usage: Usage,
    /// CPU time at a priority that only we give.
    pub(super) raised: Nanos,
    pub(super) place: Place,
    /// Up to when that is counted.
    pub(super) since: Instant,
    pub(super) cpu: usize,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) identity: Identity,
    /// Names it among all that ever were.
    pub(super) birth: u64,
    pub(super) process: u32,
    /// Whom it is beginning.
    pub(super) birth_begun: Option<Birth>,
    pub(super) name: String,
    pub(super) setting: Setting,
    /// What it would be if our processes had never done anything.
    pub(super) untouched: Setting,
    /// `None` once it has ended: the first thread of a process stays until all have.
    pub(super) entity: Option<EntityId>,
    /// Whether it runs and sleeps as it is told to.
    pub(super) is_scripted: bool,
    /// Of a scripted one: whether it wants to run.
    pub(super) wants: bool,
    /// The process whose agent of which CPU is woken when it comes onto that.
    pub(super) awaited_by: Option<(u32, CpuId)>,
    pub(super) actor: Option<Actor>,
    /// What it was marked with, or who began it.
    pub(super) tag: Option<usize>,
    pub(super) account: Account,
}

impl Thread {
    /// Counts the time up to `now`.
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

/// Whether this is a priority that a chosen thread is given.
pub(super) fn is_raised(attributes: &Attributes) -> bool {
    use daemon::kernel::priority::{AMONG_OTHERS, RAISED};
    matches!(attributes.policy, Policy::Fifo { priority } if (AMONG_OTHERS..=RAISED).contains(&priority))
}

/// What a process's control group, owner or a security module do not let anybody do to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refuses {
    /// To give it a real-time class: its group has no real-time runtime.
    pub real_time: bool,
    /// To change where it may run.
    pub affinity: bool,
    /// Anything.
    pub all: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) parent: u32,
    pub(super) owner: Owner,
    pub(super) is_kernel: bool,
    /// Whether it may do to others what only CAP_SYS_NICE and CAP_KILL permit.
    pub(super) is_privileged: bool,
    /// Whether it asks at once how its children ended, so that they are gone.
    pub(super) reaps: bool,
    pub(super) refuses: Refuses,
    /// The CPUs that its control group has.
    pub(super) cpuset: CpuSet,
    pub(super) is_stopped: bool,
    /// Whether it would be stopped if our processes had never done anything.
    pub(super) is_stopped_by_others: bool,
    /// Ascending.
    pub(super) threads: Vec<u32>,
    /// Ascending.
    pub(super) children: Vec<u32>,
    pub(super) has_ended: bool,
    /// Whether a process that it descends from by way of another has lost the one that began it.
    pub(super) is_orphan: bool,
}

impl Process {
    /// One that runs, without threads yet.
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

/// All of them.
#[derive(Debug)]
pub(super) struct Tasks {
    /// By number.
    threads: Vec<Option<Thread>>,
    /// The last start time given with each number.
    started: Vec<u64>,
    /// Numbers of those that have not ended.
    pub(super) living: Vec<u32>,
    pub(super) processes: BTreeMap<u32, Process>,
    last: u32,
    /// How many were begun, whether they are seen already or not.
    pub(super) births: u64,
    /// How many were seen.
    pub(super) seen: u64,
}

impl Tasks {
    /// None, with numbers from 1 up to `numbers`.
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

    /// The next free number after the last that was given, from the beginning again at the end; `None` if all are in use. A
    /// number is not given twice within one clock tick: a real machine has too many for that.
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

    /// It is not found any more.
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

    /// One that is known to be there.
    pub(super) fn thread(&mut self, tid: u32) -> &mut Thread {
        self.get_mut(tid).expect("it is there")
    }

    /// The process of a thread that is there.
    pub(super) fn process_of(&self, tid: u32) -> Option<&Process> {
        self.processes.get(&self.get(tid)?.process)
    }
}
