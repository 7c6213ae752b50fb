//! The threads of one client share its slices.
//!
//! In the kernel, the raised threads of a client queue at one real-time priority, in order of arrival. A thread that
//! never blocks would keep the others from running for the whole slice, and in every slice. Therefore:
//!
//! - A client raises the thread with the least recent CPU time first.
//! - While two threads have run recently, a turn ends after [`TURN`]: the thread at the head of the queue moves to its
//!   end, unless it has had less recent CPU time than the others.
//! - In a client with vCPUs, the other threads (emulator, I/O, vhost) run above the vCPUs, which may wait for them. They
//!   may use [`HELPERS_SHARE`] of a slice in this way. Afterwards they take turns with the vCPUs until the next period.

use super::client::Client;
use super::member::{Level, Member};
use super::role::Role;
use crate::kernel::{Kernel, priority};
use crate::table::Table;
use sched::Nanos;

/// Time after which the running thread moves behind the other threads of its client. Linux's fair class switches
/// between busy threads after 0.7 ms to 2.8 ms (`sysctl_sched_base_slice`, kernel/sched/fair.c, 6.18). A turn costs about
/// 40 us.
const TURN: Nanos = Nanos::ms(2);
/// Minimum length of a turn.
const TURN_LEAST: Nanos = Nanos::us(100);
/// Part of a slice that the helpers of a client's vCPUs may use above the vCPUs, as a fraction.
const HELPERS_SHARE: (u64, u64) = (1, 2);

impl<K: Kernel> Client<K> {
    /// Returns whether the client has vCPUs and threads that serve them.
    pub(super) fn has_helpers(&self) -> bool {
        self.count_of(Role::Vcpu) > 0 && self.count_of(Role::Other) > 0
    }

    /// Returns the number of the client's threads with this role.
    pub(super) fn count_of(&self, role: Role) -> usize {
        match role {
            Role::Vcpu => self.vcpus,
            Role::Other => self.members.len() - self.vcpus,
        }
    }

    /// Returns whether at least two threads of the client have run in this period or the last.
    pub(super) fn is_shared(&self) -> bool {
        let active = |member: &&Member<K>| member.recent.is_active() && !member.has_ended && !member.is_released;
        self.active().iter().filter(active).nth(1).is_some()
    }

    /// Returns the level of `member` while the level of the client is `level`.
    pub(super) fn level_of(&self, member: &Member<K>, level: Level) -> Level {
        let helps = || member.role == Role::Other && self.helpers_run_first;
        match level {
            Level::Raised(priority::AMONG_OTHERS) if helps() => Level::Raised(priority::HELPER),
            level => level,
        }
    }

    /// Orders the active threads, so that the thread with the least recent CPU time is raised first.
    pub(super) fn order(&mut self) {
        self.members[..self.active].sort_unstable_by_key(|member| (member.recent.time, member.identity.tid));
    }

    /// Begins a period.
    pub(super) fn begin_period(&mut self, kernel: &K, table: &Table) {
        self.has_unreported_sleep = false;
        self.members[..self.active].iter_mut().for_each(|member| member.recent.end_period());
        self.let_helpers_run_first(self.has_helpers(), kernel, table);
    }

    /// Returns the length of the next turn: [`TURN`], or less if the helpers of the vCPUs use up their share earlier.
    pub(super) fn turn(&self) -> Nanos {
        let left = if self.helpers_run_first { self.left_to_helpers() } else { TURN };
        left.max(TURN_LEAST).min(TURN)
    }

    fn left_to_helpers(&self) -> Nanos {
        let helpers = self.active().iter().filter(|member| member.role == Role::Other);
        let used = helpers.fold(Nanos::ZERO, |sum, member| sum + member.recent.in_period);
        self.reservation.slice.scale(HELPERS_SHARE.0, HELPERS_SHARE.1).saturating_sub(used)
    }

    /// Ends the turn of the thread at the head of the queue, which is the thread that has run longest since the last
    /// call: moves the thread behind the other threads of its level if one of these has had less recent CPU time.
    pub(super) fn rotate(&mut self, kernel: &K, table: &Table) {
        if self.helpers_run_first && self.left_to_helpers().is_zero() {
            self.let_helpers_run_first(false, kernel, table);
        }
        let head = (0..self.active).max_by_key(|&at| self.members[at].recent.in_turn);
        self.members[..self.active].iter_mut().for_each(|member| member.recent.in_turn = Nanos::ZERO);
        if let (Some(at), Level::Raised(_)) = (head, self.level) {
            let member = &self.members[at];
            let had_less = |other: &Member<K>| other.recent.is_active() && other.recent.time < member.recent.time;
            if !self.active().iter().any(had_less) {
                return;
            }
            self.follow_attributes(at..at + 1, kernel, table);
            let member = &self.members[at];
            let lowered = if member.is_released { Ok(()) } else { member.set_level(Level::Original, kernel) };
            // The next read detects a thread that has ended. Any other failure is reported when the thread is raised.
            let _ = lowered;
            self.set_level_of(at, kernel, table);
        }
    }

    /// Sets whether the helpers run above the vCPUs.
    fn let_helpers_run_first(&mut self, first: bool, kernel: &K, table: &Table) {
        if std::mem::replace(&mut self.helpers_run_first, first) != first && self.level != Level::Original {
            self.set_level(self.level, kernel, table);
        }
    }
}
