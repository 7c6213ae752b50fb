//! [`Member`]: a thread of a client, and how Tactus raises the thread.

use super::recent::Recent;
use super::role::Role;
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Full, Original, Row, Table};
use sched::{CpuSet, Instant, Nanos};
use sys::attributes::Attributes;
use sys::thread::Identity;

/// The level of a client's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The threads have their own scheduling attributes, without an inherited priority.
    Original,
    /// The threads run at this real-time priority.
    Raised(u32),
}

/// How a dispatcher raises the threads of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RaiseBy {
    /// Threads inherit a priority. Only a thread that cannot inherit is raised by its attributes.
    Inheritance,
    /// The attributes of the threads are set, and the table has the originals.
    Attributes,
}

/// How Tactus raises a thread.
pub(super) enum Raise<L> {
    /// Not yet: the thread waits for a loan, and stays at its original level.
    Pending,
    /// The thread inherits the priority of a loan. Its attributes do not change.
    Inherit(L),
    /// Tactus sets the attributes of the thread. The table has the originals.
    Set,
    /// The thread had ended when its loan was to begin, or its client is dismissed.
    Ended,
}

/// A thread of a client.
pub(super) struct Member<K: Kernel> {
    pub(super) thread: K::Thread,
    pub(super) identity: Identity,
    /// The first thread of the thread's process.
    pub(super) leader: Identity,
    pub(super) original: Original,
    pub(super) row: Row,
    pub(super) raise: Raise<K::Loan>,
    /// Instant since which each beginning of a loan was answered with `Busy`.
    pub(super) busy_since: Option<Instant>,
    pub(super) role: Role,
    pub(super) recent: Recent,
    /// CPU time of the thread at the last [`Client::read`](super::client::Client::read).
    pub(super) ran: Nanos,
    /// Time that the thread had waited for a CPU at the last read.
    pub(super) waited: Nanos,
    /// Number of dispatches of the thread at the last read.
    pub(super) dispatches: u64,
    pub(super) has_ended: bool,
    /// Whether the agent is woken when the thread begins to run.
    pub(super) is_awaited: bool,
    /// Whether forks of the thread are awaited, if this host reports forks.
    pub(super) has_awaited_births: bool,
    /// Whether the thread has left the promise, because another process has changed its attributes or its affinity. If
    /// so, Tactus no longer sets these values, and only freezes and thaws the process.
    pub(super) is_released: bool,
}

/// Threads that are no longer served.
pub struct Former<K: Kernel>(pub(super) Vec<Member<K>>);

impl<K: Kernel> Former<K> {
    /// Divides these threads into parts of up to `most` threads.
    pub fn parts(self, most: usize) -> impl Iterator<Item = Former<K>> {
        let mut members = self.0.into_iter();
        std::iter::from_fn(move || {
            let part: Vec<_> = members.by_ref().take(most).collect();
            (!part.is_empty()).then_some(Former(part))
        })
    }

    /// Ends all wake-ups of agents by these threads: see [`Kernel::stop_waking`].
    pub fn stop_waking(&mut self, kernel: &K) {
        self.0.iter_mut().for_each(|member| kernel.stop_waking(&mut member.thread));
    }
}

impl<K: Kernel> std::fmt::Debug for Former<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|member| member.identity.tid)).finish()
    }
}

impl<K: Kernel> Member<K> {
    /// Returns whether the thread runs and has not left the promise.
    pub(super) fn is_served(&self) -> bool {
        !self.is_released && !self.has_ended
    }

    /// Records the thread again, with other originals or another confinement, before the thread changes. Returns the
    /// earlier row, which the caller forgets. See [`Table::record`].
    pub(super) fn record(&mut self, table: &Table, original: Original, confined: CpuSet) -> Result<Row, Full> {
        let (thread, leader) = (self.identity, self.leader);
        let row = table.record(&Entry { thread, leader, original, confined, reserved: None })?;
        self.original = original;
        Ok(std::mem::replace(&mut self.row, row))
    }

    /// Returns the attributes that the thread would have without Tactus, which raises the thread by its attributes.
    /// Another process may have changed them. While the thread is raised, its nice value is still visible.
    pub(super) fn originals_now(&self, kernel: &K) -> Option<Attributes> {
        let found = kernel.attributes(&self.thread).ok()?;
        if !priority::ALL_RAISED.map(Attributes::raised).contains(&found) {
            return Some(found);
        }
        Some(self.original.attributes?.with_nice(kernel.nice(&self.thread).ok()?))
    }

    /// Sets the level of the thread.
    pub(super) fn set_level(&self, level: Level, kernel: &K) -> sys::Result<()> {
        match (&self.raise, level) {
            (Raise::Pending | Raise::Ended, _) => Ok(()),
            (Raise::Inherit(loan), Level::Original) => kernel.lend(loan, None),
            (Raise::Inherit(loan), Level::Raised(priority)) => kernel.lend(loan, Some(priority)),
            (Raise::Set, Level::Original) => {
                self.original.attributes.map_or(Ok(()), |original| kernel.schedule(&self.thread, original))
            }
            (Raise::Set, Level::Raised(priority)) => kernel.schedule(&self.thread, Attributes::raised(priority)),
        }
    }

    /// Returns whether the thread waits for a loan: it has none yet, or its loan has ended.
    pub(super) fn lacks_loan(&self, kernel: &K) -> bool {
        match &self.raise {
            Raise::Pending => true,
            Raise::Inherit(loan) => !kernel.is_lending(loan),
            Raise::Set | Raise::Ended => false,
        }
    }

    /// Returns whether Tactus can raise the thread now.
    pub(super) fn can_be_raised(&self, kernel: &K) -> bool {
        match &self.raise {
            Raise::Pending | Raise::Ended => false,
            Raise::Inherit(loan) => kernel.is_lending(loan),
            Raise::Set => true,
        }
    }
}
