//! A client: a process with a promise, with all its threads and descendants.

use super::journal::Ledger;
use super::scan::Found;
use crate::Explanation;
use crate::kernel::Kernel;
use crate::table::{Original, Row, Table};
use sched::{CpuId, CpuSet, EntityId, Limit, Nanos, Reservation};
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use sys::usage::Usage;

/// Scheduling attributes of a client's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The recorded original attributes of each thread.
    Original,
    /// SCHED_FIFO at this priority.
    Raised(u32),
}

/// A thread of a client.
pub(super) struct Member<T> {
    pub(super) thread: T,
    pub(super) identity: Identity,
    /// The first thread of the thread's process.
    pub(super) leader: Identity,
    pub(super) original: Original,
    pub(super) row: Row,
    /// CPU time of the thread at the last [`Client::read`].
    ran: Nanos,
    /// Number of dispatches of the thread at the last [`Client::read`].
    dispatches: u64,
    has_ended: bool,
    /// Whether forks of the thread are awaited, if this host reports forks.
    has_awaited_births: bool,
    /// Whether another process has changed the attributes or affinity of the thread. If so, Tactus no longer sets these
    /// values, and only stops and continues the process.
    pub(super) is_released: bool,
}

impl<T> Member<T> {
    pub(super) fn is_leader(&self) -> bool {
        self.identity == self.leader
    }
}

/// A client and its state.
pub(super) struct Client<T> {
    pub(super) name: String,
    /// Number of the client's process tree. The clients of a promise on several CPUs share one tree.
    pub(super) tree: usize,
    pub(super) cpu: CpuId,
    /// Reservation of the client on this CPU.
    pub(super) reservation: Reservation,
    pub(super) members: Vec<Member<T>>,
    /// Whether the client is reported to the machine as blocked.
    pub(super) is_blocked: bool,
    pub(super) level: Level,
    /// Whether Tactus has stopped the processes of the client.
    pub(super) stopped: bool,
    /// Whether a wake-up of the client is awaited.
    pub(super) awaited: bool,
    /// Whether this host reports wake-ups of the client. If not, the agent polls for wake-ups.
    pub(super) reports_wakeups: bool,
    /// Whether this host reports forks of the client's threads. If not, the keeper scans for forks once per period.
    pub(super) reports_forks: bool,
    /// Number of consecutive slices that the client has used up without blocking.
    pub(super) slices_used_up: u32,
    /// Whether the client was dispatched since its agent last set levels.
    pub(super) is_dispatched: bool,
    /// Pids of descendants of the client's threads that the host has reported and that are not adopted yet.
    pub(super) reported: Vec<u32>,
    /// Original attributes and affinity of the thread that was added to the client first.
    pub(super) root: Option<Original>,
    pub(super) ledger: Option<Ledger>,
    /// Reason why the client can no longer be served.
    pub(super) trouble: Option<Explanation>,
}

/// CPU time and changes since the last read.
pub(super) struct Since {
    pub(super) ran: Nanos,
    /// Whether a thread has been dispatched.
    pub(super) dispatched: bool,
    /// Whether a thread has ended. The CPU time that an ended thread used after its last read is unknown.
    pub(super) ended: bool,
}

impl<T> Client<T> {
    pub(super) fn new(name: String, tree: usize, cpu: CpuId, reservation: Reservation) -> Client<T> {
        Client {
            name,
            tree,
            cpu,
            reservation,
            members: Vec::new(),
            is_blocked: true,
            level: Level::Original,
            stopped: false,
            awaited: false,
            reports_wakeups: true,
            reports_forks: true,
            slices_used_up: 0,
            is_dispatched: false,
            reported: Vec::new(),
            root: None,
            ledger: None,
            trouble: None,
        }
    }

    pub(super) fn is_hard(&self) -> bool {
        self.reservation.limit == Limit::Hard
    }

    /// Adds a thread. The earlier CPU time of the thread is not charged. The next read reports a dispatch if the thread
    /// has ever run.
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
            has_awaited_births: false,
            is_released: false,
        });
    }

    /// Returns the CPU time that the client's threads have used since the last read. Removes ended threads from the
    /// client and the table.
    pub(super) fn read<K: Kernel<Thread = T>>(&mut self, kernel: &K, table: &Table) -> Since {
        let mut since = Since { ran: Nanos::ZERO, dispatched: false, ended: false };
        for member in &mut self.members {
            match kernel.usage(&member.thread) {
                // The CPU time of a released thread is not part of the promise.
                Ok(_) if member.is_released => {}
                Ok(usage) => {
                    since.ran += usage.ran.saturating_sub(member.ran);
                    since.dispatched |= usage.dispatches != member.dispatches;
                    (member.ran, member.dispatches) = (usage.ran, usage.dispatches);
                }
                Err(sys::Error::Gone(_)) => {
                    since.ended |= !member.has_ended;
                    member.has_ended = true;
                }
                // The thread exists and stays in the table. Without its CPU time, no promise can be kept.
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

    /// Removes ended threads, except the first thread of a process that still runs. Tactus stops and continues the
    /// process through its first thread.
    #[cold]
    fn forget_ended<K: Kernel<Thread = T>>(&mut self, kernel: &K, table: &Table) {
        let mut at = 0;
        while at < self.members.len() {
            let Member { has_ended, identity, row, .. } = self.members[at];
            let goes_on = || self.members.iter().any(|other| other.leader == identity && !other.has_ended);
            if has_ended && !goes_on() {
                table.forget(row);
                let mut ended = self.members.remove(at);
                // Only these reports name the remaining children of an ended thread.
                self.reported.extend(kernel.await_births(&mut ended.thread, self.cpu).unwrap_or_default());
            } else {
                at += 1;
            }
        }
    }

    /// Sets the level of the client's threads. The next read detects threads that have ended.
    pub(super) fn set_level<K: Kernel<Thread = T>>(&mut self, level: Level, kernel: &K) {
        self.level = level;
        self.set_level_from(0, kernel);
    }

    /// Sets the level of the last added thread to the level of the client.
    pub(super) fn set_level_of_last<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.set_level_from(self.members.len().saturating_sub(1), kernel);
    }

    fn set_level_from<K: Kernel<Thread = T>>(&mut self, first: usize, kernel: &K) {
        for at in first..self.members.len() {
            let member = &self.members[at];
            if member.is_released {
                continue;
            }
            let wanted = match self.level {
                Level::Original => member.original.attributes,
                Level::Raised(priority) => Attributes::raised(priority),
            };
            match kernel.schedule(&member.thread, wanted) {
                Ok(()) | Err(sys::Error::Gone(_)) => {}
                Err(refused) if self.level == Level::Original => self.trouble = Some(refused.into()),
                Err(refused) => {
                    self.trouble = Some(refused.into());
                    return self.set_level(Level::Original, kernel);
                }
            }
        }
    }

    /// Stops the client's processes, or continues the processes that Tactus has stopped. The stop is recorded before
    /// the processes stop, and cleared after the processes continue.
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

    /// Releases the threads whose attributes or affinity another process, or the thread itself, has changed. Does
    /// nothing unless the client is raised. If the call releases the last thread, returns the reason why the client can
    /// no longer be served.
    pub(super) fn release_changed_threads<K: Kernel<Thread = T>>(&mut self, kernel: &K) -> Option<Explanation> {
        let Level::Raised(priority) = self.level else { return None };
        let (level, confined) = (Attributes::raised(priority), CpuSet::one(self.cpu));
        let mut reason = None;
        for member in self.members.iter_mut().filter(|member| !member.is_released && !member.has_ended) {
            let what = match (kernel.attributes(&member.thread), kernel.affinity(&member.thread)) {
                (Ok(found), _) if found != level => found.to_string(),
                (_, Ok(found)) if found != confined => format!("one for CPUs {found}"),
                _ => continue,
            };
            member.is_released = true;
            // Stop awaiting the thread's wake-ups, and restore the values that Tactus has set.
            let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
            if kernel.attributes(&member.thread).is_ok_and(|found| found == level) {
                let _ = kernel.schedule(&member.thread, member.original.attributes);
            }
            give_back_cpus(kernel, &member.thread, &confined, &member.original.affinity);
            let tid = member.identity.tid;
            let why = format!("another process has made thread {tid} {what}, so no promise can be kept to it");
            reason = Some(Explanation::new(why, "let Tactus alone schedule it"));
        }
        let is_left = |member: &Member<T>| !member.is_released && !member.has_ended;
        reason.filter(|_| !self.members.iter().any(is_left))
    }

    /// Starts or stops the detection of the client's wake-ups.
    pub(super) fn set_awaited<K: Kernel<Thread = T>>(&mut self, awaited: bool, kernel: &K) {
        self.awaited = awaited;
        self.set_awaited_from(0, kernel);
    }

    /// Starts or stops the detection of wake-ups of the last added thread.
    pub(super) fn set_awaited_of_last<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.set_awaited_from(self.members.len().saturating_sub(1), kernel);
    }

    fn set_awaited_from<K: Kernel<Thread = T>>(&mut self, first: usize, kernel: &K) {
        for member in self.members[first..].iter_mut().filter(|member| !member.is_released) {
            if let Err(refused) = kernel.await_entry(&mut member.thread, self.cpu, self.awaited) {
                self.reports_wakeups &= matches!(refused, sys::Error::Gone(_));
            }
        }
    }
}

impl<T> Client<T> {
    /// Removes reported children that are adopted or have ended.
    pub(super) fn forget_reported<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.reported.sort_unstable();
        self.reported.dedup();
        let members = &self.members;
        self.reported.retain(|&pid| {
            let is_there =
                || kernel.open(pid).is_ok_and(|it| kernel.status(&it).is_ok_and(|it| it.state != State::Dead));
            !members.iter().any(|member| member.leader.tid == pid) && is_there()
        });
    }

    /// Starts waking the keeper for forks of the client's threads, and collects the forks reported so far.
    pub(super) fn await_births<K: Kernel<Thread = T>>(&mut self, kernel: &K) {
        self.await_births_of(kernel, |_| true);
    }

    /// Starts waking the keeper for forks of up to `most` further threads. Returns the number of these threads.
    pub(super) fn await_further_births<K: Kernel<Thread = T>>(&mut self, kernel: &K, most: usize) -> usize {
        let mut count = 0;
        self.await_births_of(kernel, |member| {
            let is_next = !member.has_awaited_births && count < most;
            count += usize::from(is_next);
            is_next
        });
        count
    }

    fn await_births_of<K: Kernel<Thread = T>>(&mut self, kernel: &K, mut wanted: impl FnMut(&Member<T>) -> bool) {
        for member in self.members.iter_mut().filter(|member| !member.is_released && wanted(member)) {
            member.has_awaited_births = true;
            match kernel.await_births(&mut member.thread, self.cpu) {
                Ok(reported) => self.reported.extend(reported),
                Err(refused) => self.reports_forks &= matches!(refused, sys::Error::Gone(_)),
            }
        }
    }
}

/// Restores the affinity of a thread, unless another process has changed the affinity.
pub(super) fn give_back_cpus<K: Kernel>(kernel: &K, thread: &K::Thread, confined: &CpuSet, original: &CpuSet) {
    if kernel.affinity(thread).is_ok_and(|now| now == *confined) {
        // The call fails if the thread has ended, or if its original CPUs are offline. The kernel moves the threads of
        // offline CPUs itself.
        let _ = kernel.set_affinity(thread, original);
    }
}

/// Clients, indexed by entity.
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

    /// Returns the number of slots. The indices below this number cover all clients.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the client in slot `at`, if the client is on `cpu`.
    pub(super) fn at(&mut self, at: usize, cpu: CpuId) -> Option<(EntityId, &mut Client<T>)> {
        let (e, client) = self.slots[at].as_mut()?;
        (client.cpu == cpu).then_some((*e, client))
    }

    /// Returns the number of clients on `cpu`.
    pub(super) fn on(&self, cpu: CpuId) -> usize {
        self.iter().filter(|(_, client)| client.cpu == cpu).count()
    }
}
