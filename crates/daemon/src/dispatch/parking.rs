//! Sleeping threads are parked, so that a client with many sleeping threads does not prolong the turns of its CPU.
//!
//! A turn reads the CPU time of each active thread of a client, and sets the level of each. A thread that has not run
//! for [`PATIENCE`] is parked: the turns no longer read it, and its loan stays at the priority of a client that sleeps
//! with slice left. The kernel's records of its context switches are on. A parked thread that wakes is dispatched at once,
//! like any sleeper with slice left. The record of this dispatch wakes the agent, which preempts the thread, makes it
//! active and sets it to the level of its client. If the client is dispatched, it is charged for the CPU time of the
//! thread until then.
//!
//! If the client is not dispatched, this time is not part of a slice. If, in addition, no thread of the client may be
//! raised, the thread has delayed another client by a turn. The patience with this thread then doubles, so that a client
//! gains little from threads that sleep just long enough: at most a turn per thread every 3.2 s.
//!
//! Threads are parked only if the kernel reports their dispatches, and if they inherit their priority: the kernel then
//! lowers them with the daemon. The active threads precede the parked threads in [`Client::members`].

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::member::{Level, Member, Raise};
use super::role::Role;
use crate::kernel::{Kernel, priority};
use crate::table::Table;
use sched::{CpuId, EntityId, Instant, Nanos};
use trace::Event;

/// Time without a dispatch after which a thread is parked. To park a thread and to make it active again takes about as
/// long as three turns of an active thread.
const PATIENCE: Nanos = Nanos::ms(50);
/// Maximum number of times that the patience with a thread doubles, which makes 3.2 s.
const DOUBLINGS_MOST: u32 = 6;
/// Part of the active threads that are parked at the end of a period, so that no turn becomes long.
const AT_ONCE: usize = 16;

impl<K: Kernel> Client<K> {
    /// Returns the active threads.
    pub(super) fn active(&self) -> &[Member<K>] {
        &self.members[..self.active]
    }

    /// Adds `member` as the last active thread.
    pub(super) fn push(&mut self, member: Member<K>) {
        self.vcpus += usize::from(member.role == Role::Vcpu);
        self.members.push(member);
        let last = self.members.len() - 1;
        self.members.swap(self.active, last);
        self.active += 1;
    }

    /// Removes thread `at`.
    pub(super) fn take(&mut self, at: usize) -> Member<K> {
        let member = self.members.remove(at);
        self.vcpus -= usize::from(member.role == Role::Vcpu);
        self.active -= usize::from(at < self.active);
        member
    }

    /// Parks active threads that have not run for a long time. Call it at the end of a period.
    pub(super) fn park_idle(&mut self, kernel: &K) {
        let (period, mut left) = (self.reservation.period, 1 + self.active / AT_ONCE);
        let mut at = self.active;
        while at > 0 && left > 0 {
            at -= 1;
            let recent = &self.members[at].recent;
            let patience = Nanos::ns(PATIENCE.as_ns() << recent.doublings);
            if !recent.is_active() && recent.slept(period) >= patience {
                left -= 1;
                self.park(at, kernel);
            }
        }
    }

    /// Parks the active thread `at`, unless it has run since its last read, or cannot be parked.
    pub(super) fn park(&mut self, at: usize, kernel: &K) {
        let member = &mut self.members[at];
        let Raise::Inherit(loan) = &member.raise else { return };
        if !self.reports_wakeups || !member.is_served() || !kernel.is_lending(loan) {
            return;
        }
        let was_awaited = std::mem::replace(&mut member.is_awaited, true);
        if let Err(refused) = kernel.await_entry(&mut member.thread, self.cpu, true) {
            self.reports_wakeups &= matches!(refused, sys::Error::Gone(_));
            return;
        }
        // The thread may have run before its dispatches were recorded.
        let has_slept = kernel.usage(&member.thread).is_ok_and(|usage| usage.ran == member.ran);
        if has_slept && kernel.lend(loan, Some(priority::RAISED)).is_ok() {
            self.active -= 1;
            self.members.swap(at, self.active);
        } else if !was_awaited {
            member.is_awaited = false;
            let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
        }
    }

    /// Makes thread `at` active, and sets its level. Returns its new index.
    pub(super) fn unpark(&mut self, at: usize, kernel: &K, table: &Table) -> usize {
        if at < self.active {
            return at;
        }
        let now = self.active;
        self.members.swap(now, at);
        self.active += 1;
        let member = &mut self.members[now];
        // The next read detects the end of the thread.
        if let Ok(usage) = kernel.usage(&member.thread) {
            let ran = usage.ran.saturating_sub(member.ran);
            member.ran = usage.ran;
            member.waited = usage.waited;
            member.recent.add(ran);
            self.owed += ran;
        }
        if !self.awaited {
            member.is_awaited = false;
            let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
        }
        self.set_level_of(now, kernel, table);
        now
    }

    /// Stops the detection of dispatches of the parked threads, before the client is dismissed.
    pub(super) fn stop_awaiting_parked(&mut self, kernel: &K) {
        for member in &mut self.members[self.active..] {
            // The call fails if the thread has ended.
            let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
        }
    }

    /// Makes all threads active.
    pub(super) fn unpark_all(&mut self, kernel: &K, table: &Table) {
        while self.active < self.members.len() {
            self.unpark(self.active, kernel, table);
        }
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Makes thread `tid` active if it is a parked thread of a client of `cpu`. The thread has been dispatched, or has
    /// ended.
    pub(super) fn enter(&mut self, cpu: CpuId, tid: u32, now: Instant) {
        let is_it = |member: &Member<K>| member.identity.tid == tid;
        let parked = |(e, client): (EntityId, &Client<K>)| {
            let at = client.members[client.active..].iter().position(is_it)?;
            Some((e, client.active + at))
        };
        let mut here = self.clients.iter_on(cpu);
        let Some((e, at)) = here.find_map(parked) else { return };
        drop(here);
        let Some(client) = self.clients.get_mut(e) else { return };
        let is_early = client.level == Level::Original;
        let at = client.unpark(at, &self.kernel, &self.table);
        let is_dispatched = self.cpus[cpu.index()].dispatched() == Some(e);
        let time = if is_dispatched { Nanos::ZERO } else { std::mem::take(&mut client.owed) };
        if !time.is_zero() {
            self.journal.note(now, Event::Background { entity: e, time });
        }
        let recent = &mut client.members[at].recent;
        recent.doublings = (recent.doublings + u32::from(is_early)).min(DOUBLINGS_MOST);
    }
}
