//! A client: a process, with all its threads and whatever it begins, that was promised something.

use super::adopt::Found;
use super::journal::Ledger;
use crate::Reason;
use crate::kernel::Kernel;
use crate::table::{Original, Row, Table};
use sched::{CpuId, CpuSet, EntityId, Limit, Nanos, Reservation};
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use sys::usage::Usage;

/// How the threads of a client are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// As they were: each as recorded.
    Own,
    /// SCHED_FIFO of this priority.
    Raised(u32),
}

/// A thread of a client.
pub(super) struct Member<T> {
    pub(super) thread: T,
    pub(super) identity: Identity,
    /// The first thread of its process.
    pub(super) leader: Identity,
    pub(super) original: Original,
    pub(super) row: Row,
    /// What it had had when that was last read.
    ran: Nanos,
    /// How often it had been put on a CPU then.
    dispatches: u64,
    has_ended: bool,
    /// Whether somebody else sees to how it is scheduled: nothing is done to it but what is done to its process.
    pub(super) is_let_go: bool,
}

impl<T> Member<T> {
    pub(super) fn is_leader(&self) -> bool {
        self.identity == self.leader
    }
}

/// What was promised to whom, and how it stands.
pub(super) struct Client<T> {
    pub(super) name: String,
    /// Of the tree of processes it belongs to; several clients share one where it asked for several CPUs.
    pub(super) tree: usize,
    pub(super) cpu: CpuId,
    /// What the machine was asked for.
    pub(super) dealt: Reservation,
    pub(super) members: Vec<Member<T>>,
    pub(super) level: Level,
    /// Whether its processes are stopped by us.
    pub(super) stopped: bool,
    /// Whether its wake-up is awaited.
    pub(super) awaited: bool,
    /// Whether this host tells when it wakes; else it is looked at now and then.
    pub(super) is_seen: bool,
    /// Whether this host tells what its threads begin; else that is looked for once in a period.
    pub(super) is_told: bool,
    /// How many slices in a row it has used without sleeping.
    pub(super) used_up: u32,
    /// Whether it is about to begin a turn.
    pub(super) begins: bool,
    /// Processes that its threads, or what they began, are told to have begun, and that were not taken in yet.
    pub(super) told: Vec<u32>,
    /// What the first of its threads was.
    pub(super) root: Option<Original>,
    pub(super) ledger: Option<Ledger>,
    /// Why nothing is done for it any more.
    pub(super) trouble: Option<Reason>,
}

/// CPU time and changes since they were last read.
pub(super) struct Since {
    pub(super) ran: Nanos,
    /// Whether any of its threads has been put on a CPU.
    pub(super) dispatched: bool,
    /// Whether any has ended: what that one had had since is not known.
    pub(super) ended: bool,
}

impl<T> Client<T> {
    pub(super) fn new(name: String, tree: usize, cpu: CpuId, dealt: Reservation) -> Client<T> {
        Client {
            name,
            tree,
            cpu,
            dealt,
            members: Vec::new(),
            level: Level::Own,
            stopped: false,
            awaited: false,
            is_seen: true,
            is_told: true,
            used_up: 0,
            begins: false,
            told: Vec::new(),
            root: None,
            ledger: None,
            trouble: None,
        }
    }

    pub(super) fn is_hard(&self) -> bool {
        self.dealt.limit == Limit::Hard
    }

    /// Adds a thread. What it has had before is not its client's; that it may have woken since is found out when it is read.
    pub(super) fn add(&mut self, new: Found<T>, original: Original, row: Row, had: Option<Usage>) {
        let Found { thread, identity, leader, .. } = new;
        self.root.get_or_insert(original);
        let ran = had.map_or(Nanos::ZERO, |had| had.ran);
        self.members.push(Member {
            thread,
            identity,
            leader,
            original,
            row,
            ran,
            dispatches: 0,
            has_ended: false,
            is_let_go: false,
        });
    }

    /// Reads what its threads have had since that was last read. Those that have ended leave it and the table.
    pub(super) fn read<K: Kernel<Thread = T>>(&mut self, kernel: &K, table: &Table) -> Since {
        let mut since = Since { ran: Nanos::ZERO, dispatched: false, ended: false };
        for member in &mut self.members {
            match kernel.usage(&member.thread) {
                // What it has is nobody's promise.
                Ok(_) if member.is_let_go => {}
                Ok(usage) => {
                    since.ran += usage.ran.saturating_sub(member.ran);
                    since.dispatched |= usage.dispatches != member.dispatches;
                    (member.ran, member.dispatches) = (usage.ran, usage.dispatches);
                }
                Err(sys::Error::Gone(_)) => {
                    since.ended |= !member.has_ended;
                    member.has_ended = true;
                }
                // It is there, and stays in the table: what it has had cannot be told, so nothing can be promised to it.
                Err(refused) => {
                    self.trouble.get_or_insert_with(|| refused.into());
                }
            }
        }
        if since.ended {
            self.forget_ended(kernel, table);
        }
        since
    }

    /// Those that have ended leave, but for a first thread whose process goes on: that one is stopped and continued by it.
    #[cold]
    fn forget_ended<K: Kernel<Thread = T>>(&mut self, kernel: &K, table: &Table) {
        let mut at = 0;
        while at < self.members.len() {
            let Member { has_ended, identity, row, .. } = self.members[at];
            let goes_on = || self.members.iter().any(|other| other.leader == identity && !other.has_ended);
            if has_ended && !goes_on() {
                table.forget(row);
                let mut ended = self.members.remove(at);
                // Whoever it began and left is known by this alone.
                self.told.extend(kernel.await_births(&mut ended.thread, self.cpu).unwrap_or_default());
            } else {
                at += 1;
            }
        }
    }

    /// Brings its threads to `level`. Who has ended is found out when it is next read.
    pub(super) fn set_level<K: Kernel<Thread = T>>(&mut self, level: Level, kernel: &K) {
        self.level = level;
        self.set_level_from(0, kernel);
    }

    /// Brings the thread that was added last to the level of its siblings, who are there already.
    pub(super) fn set_level_of_last<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.set_level_from(self.members.len().saturating_sub(1), kernel);
    }

    fn set_level_from<K: Kernel<Thread = T>>(&mut self, first: usize, kernel: &K) {
        for at in first..self.members.len() {
            let member = &self.members[at];
            if member.is_let_go {
                continue;
            }
            let wanted = match self.level {
                Level::Own => member.original.attributes,
                Level::Raised(priority) => Attributes::raised(priority),
            };
            match kernel.schedule(&member.thread, wanted) {
                Ok(()) | Err(sys::Error::Gone(_)) => {}
                Err(refused) if self.level == Level::Own => self.trouble = Some(refused.into()),
                Err(refused) => {
                    self.trouble = Some(refused.into());
                    return self.set_level(Level::Own, kernel);
                }
            }
        }
    }

    /// Stops its processes, or continues those that we stopped. It is written down before and crossed out after.
    pub(super) fn set_stopped<K: Kernel<Thread = T>>(&mut self, stopped: bool, kernel: &K, table: &Table) {
        self.stopped = stopped;
        for leader in self.members.iter().filter(|member| member.is_leader()) {
            let answer = if stopped {
                table.set_stopped(leader.row, true);
                kernel.stop(&leader.thread)
            } else {
                let answer = kernel.cont(&leader.thread);
                table.set_stopped(leader.row, false);
                answer
            };
            match answer {
                Ok(()) | Err(sys::Error::Gone(_)) => {}
                Err(refused) => self.trouble = Some(refused.into()),
            }
        }
    }

    /// Lets those of its threads go that somebody else, or they themselves, have made something else than we had, or sent
    /// elsewhere. Says why nothing can be promised any more if that leaves none.
    pub(super) fn let_changed_go<K: Kernel<Thread = T>>(&mut self, kernel: &K) -> Option<Reason> {
        let Level::Raised(priority) = self.level else { return None };
        let (level, confined) = (Attributes::raised(priority), CpuSet::one(self.cpu));
        let mut reason = None;
        for member in self.members.iter_mut().filter(|member| !member.is_let_go && !member.has_ended) {
            let what = match (kernel.attributes(&member.thread), kernel.affinity(&member.thread)) {
                (Ok(found), _) if found != level => found.to_string(),
                (_, Ok(found)) if found != confined => format!("one for CPUs {found}"),
                _ => continue,
            };
            member.is_let_go = true;
            // It is nobody's to be waited for, and what of it is still ours is given back.
            let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
            if kernel.attributes(&member.thread).is_ok_and(|found| found == level) {
                let _ = kernel.schedule(&member.thread, member.original.attributes);
            }
            give_back_cpus(kernel, &member.thread, &confined, &member.original.affinity);
            let tid = member.identity.tid;
            let why = format!("somebody else has made thread {tid} {what}, so no promise can be kept to it");
            reason = Some(Reason::new(why, "to let only one see to it"));
        }
        let is_left = |member: &Member<T>| !member.is_let_go && !member.has_ended;
        reason.filter(|_| !self.members.iter().any(is_left))
    }

    /// Has its wake-up noticed, or not any more.
    pub(super) fn set_awaited<K: Kernel<Thread = T>>(&mut self, awaited: bool, kernel: &K) {
        self.awaited = awaited;
        self.set_awaited_from(0, kernel);
    }

    /// The same for the thread that was added last, as for its siblings.
    pub(super) fn set_awaited_of_last<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.set_awaited_from(self.members.len().saturating_sub(1), kernel);
    }

    fn set_awaited_from<K: Kernel<Thread = T>>(&mut self, first: usize, kernel: &K) {
        for member in self.members[first..].iter_mut().filter(|member| !member.is_let_go) {
            if let Err(refused) = kernel.await_entry(&mut member.thread, self.cpu, self.awaited) {
                self.is_seen &= matches!(refused, sys::Error::Gone(_));
            }
        }
    }
}

impl<T> Client<T> {
    /// Of those that were told of, those that were taken in or have ended are known of no more.
    pub(super) fn forget_told<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.told.sort_unstable();
        self.told.dedup();
        let members = &self.members;
        self.told.retain(|&pid| {
            let is_there =
                || kernel.open(pid).is_ok_and(|it| kernel.status(&it).is_ok_and(|it| it.state != State::Dead));
            !members.iter().any(|member| member.leader.tid == pid) && is_there()
        });
    }

    /// Has whoever looks for what is new woken by what its threads begin from now on.
    pub(super) fn await_births<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        for member in self.members.iter_mut().filter(|member| !member.is_let_go) {
            match kernel.await_births(&mut member.thread, self.cpu) {
                Ok(told) => self.told.extend(told),
                Err(refused) => self.is_told &= matches!(refused, sys::Error::Gone(_)),
            }
        }
    }
}

/// Lets a thread run where it might before, unless somebody else has said where it may.
pub(super) fn give_back_cpus<K: Kernel>(kernel: &K, thread: &K::Thread, confined: &CpuSet, original: &CpuSet) {
    if kernel.affinity(thread).is_ok_and(|now| now == *confined) {
        // It may have ended, or its CPUs may be gone: then the kernel has put it elsewhere already.
        let _ = kernel.set_affinity(thread, original);
    }
}

/// Clients by the index of their entity.
pub(super) struct Clients<T> {
    slots: Vec<Option<(EntityId, Client<T>)>>,
}

impl<T> Clients<T> {
    pub(super) fn new() -> Clients<T> {
        Clients { slots: Vec::new() }
    }

    pub(super) fn insert(&mut self, e: EntityId, client: Client<T>) {
        if self.slots.len() <= e.index() {
            self.slots.resize_with(e.index() + 1, || None);
        }
        self.slots[e.index()] = Some((e, client));
    }

    pub(super) fn remove(&mut self, e: EntityId) -> Option<Client<T>> {
        let slot = self.slots.get_mut(e.index())?;
        slot.take_if(|(id, _)| *id == e).map(|(_, client)| client)
    }

    pub(super) fn get(&self, e: EntityId) -> Option<&Client<T>> {
        self.slots.get(e.index())?.as_ref().filter(|(id, _)| *id == e).map(|(_, client)| client)
    }

    pub(super) fn get_mut(&mut self, e: EntityId) -> Option<&mut Client<T>> {
        self.slots.get_mut(e.index())?.as_mut().filter(|(id, _)| *id == e).map(|(_, client)| client)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (EntityId, &Client<T>)> {
        self.slots.iter().flatten().map(|(e, client)| (*e, client))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (EntityId, &mut Client<T>)> {
        self.slots.iter_mut().flatten().map(|(e, client)| (*e, client))
    }

    /// How many slots there are: what is walked by index meets everybody.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Who is in slot `at` and lives on `cpu`.
    pub(super) fn at(&mut self, at: usize, cpu: CpuId) -> Option<(EntityId, &mut Client<T>)> {
        let (e, client) = self.slots[at].as_mut()?;
        (client.cpu == cpu).then_some((*e, client))
    }

    /// How many live on `cpu`.
    pub(super) fn on(&self, cpu: CpuId) -> usize {
        self.iter().filter(|(_, client)| client.cpu == cpu).count()
    }
}
