//! [`ReservedThread`]: a thread that the kernel serves by a reservation.

use super::account::Account;
use super::former::FormerThread;
use crate::Explanation;
use crate::affinity::observe;
use crate::dispatch::adopt::inherited;
use crate::dispatch::journal::Journal;
use crate::dispatch::refusal::Refusal;
use crate::dispatch::scan::Found;
use crate::kernel::Kernel;
use crate::table::{Entry, Original, Reserved, Row, Table};
use sched::{CpuSet, EntityId, Instant, Nanos, Reservation};
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use trace::Event;

/// A reserved thread.
pub(super) struct ReservedThread<K: Kernel> {
    pub(super) entity: EntityId,
    pub(super) promise: usize,
    pub(super) name: String,
    thread: K::Thread,
    pub(super) identity: Identity,
    /// The first thread of the thread's process.
    pub(super) leader: Identity,
    attributes: Attributes,
    original: Original,
    pub(super) reserved: Reserved,
    /// Row of the thread in the table. `None`: nothing is left to restore.
    pub(super) row: Option<Row>,
    account: Account,
    ran: Nanos,
    sleeps: u64,
    /// Whether the thread was runnable at the last read.
    was_runnable: bool,
}

/// The result of a read.
pub(super) enum Seen {
    /// The thread has its reservation.
    Kept,
    /// The thread has ended.
    Ended,
    /// Another process has changed the thread, which ends the promise for this reason. Nothing is to be restored.
    Changed(Explanation),
    /// The thread cannot be observed, which ends the promise for this reason.
    Unreadable(Explanation),
}

impl<K: Kernel> ReservedThread<K> {
    /// Returns whether the promise counts as kept.
    pub(super) fn is_kept(&self) -> bool {
        self.account.is_kept()
    }

    /// Records the thread in the table, and reserves it. While the service is suspended, the reservation takes effect
    /// afterwards.
    ///
    /// # Errors
    /// The thread has ended, the table is full, or the kernel refuses. The thread is not reserved then, and not in the
    /// table.
    pub(super) fn begin(
        kernel: &K,
        table: &Table,
        new: Found<K::Thread>,
        (entity, promise): (EntityId, usize),
        name: String,
        account: Account,
        is_served: bool,
    ) -> Result<ReservedThread<K>, Refusal> {
        let Found { thread, identity, leader, .. } = new;
        let attributes = kernel.attributes(&thread).map_err(Refusal::from)?;
        let (affinity, follows_cpuset) = observe(kernel, &thread).map_err(Refusal::from)?;
        let original = Original { attributes: Some(attributes), affinity, follows_cpuset };
        let usage = kernel.usage(&thread).map_err(Refusal::from)?;
        let slack = kernel.slack(&thread).unwrap_or_default();
        let Reservation { slice, period, .. } = account.reservation();
        let reserved = Reserved { slice, period, slack };
        let row = record(table, (identity, leader), original, reserved)?;
        if is_served && let Err(refused) = kernel.schedule(&thread, reserved.attributes()) {
            table.forget(row);
            return Err(refused.into());
        }
        Ok(ReservedThread {
            entity,
            promise,
            name,
            identity,
            leader,
            attributes,
            original,
            reserved,
            row: Some(row),
            account,
            ran: usage.ran,
            sleeps: kernel.sleeps(&thread).unwrap_or_default(),
            was_runnable: false,
            thread,
        })
    }

    /// Returns the state of this thread for a new program of this process; `None` if its row is forgotten.
    pub(super) fn pass_on(&self) -> Option<FormerThread> {
        Some(FormerThread {
            entity: self.entity,
            promise: self.promise,
            name: self.name.clone(),
            row: self.row?.number(),
            account: self.account.clone(),
            ran: self.ran,
            sleeps: self.sleeps,
            was_runnable: self.was_runnable,
        })
    }

    /// Continues a thread of the former program, which has the row `row` with the content `entry`, for `entity`. `None`: the
    /// row has no reservation.
    pub(super) fn of_former(
        former: FormerThread,
        thread: K::Thread,
        (row, entry): (Row, &Entry),
        entity: EntityId,
    ) -> Option<ReservedThread<K>> {
        let FormerThread { promise, name, account, ran, sleeps, was_runnable, .. } = former;
        let Entry { thread: identity, leader, original, reserved, .. } = *entry;
        Some(ReservedThread {
            entity,
            promise,
            name,
            thread,
            identity,
            leader,
            attributes: original.attributes?,
            original,
            reserved: reserved?,
            row: Some(row),
            account,
            ran,
            sleeps,
            was_runnable,
        })
    }

    pub(super) fn reservation(&self) -> Reservation {
        self.account.reservation()
    }

    /// Returns the instant of the next read.
    pub(super) fn next_read(&self) -> Instant {
        self.account.next()
    }

    /// Reads the CPU time of the thread, and checks the reservation if `is_served`.
    pub(super) fn read(&mut self, kernel: &K, now: Instant, is_served: bool, journal: &mut Journal) -> Seen {
        let (usage, status, sleeps) =
            (kernel.usage(&self.thread), kernel.status(&self.thread), kernel.sleeps(&self.thread));
        let (usage, status) = match (usage, status) {
            (Ok(usage), Ok(status)) => (usage, status),
            (Err(sys::Error::Gone(_)), _) | (_, Err(sys::Error::Gone(_))) => return Seen::Ended,
            (Err(error), _) | (_, Err(error)) => return Seen::Unreadable(error.into()),
        };
        let ran = usage.ran.saturating_sub(self.ran);
        self.ran = usage.ran;
        if !ran.is_zero() {
            journal.note(now, Event::Background { entity: self.entity, time: ran });
        }
        let is_runnable = status.state == State::Runnable;
        // Without the number of sleeps, no period is judged.
        let throughout = self.was_runnable && is_runnable && sleeps.as_ref().is_ok_and(|it| *it == self.sleeps);
        (self.was_runnable, self.sleeps) = (is_runnable, sleeps.unwrap_or_default());
        if status.state == State::Dead {
            return Seen::Ended;
        }
        self.account.record(self.entity, ran, throughout && is_served, now, journal);
        match kernel.attributes(&self.thread) {
            Ok(found) if is_served && found != self.reserved.attributes() => {
                let tid = self.identity.tid;
                let why = format!("another process has made thread {tid} {found}, so the promise to it has ended");
                Seen::Changed(Explanation::new(why, "let Tactus alone schedule it"))
            }
            Ok(_) => Seen::Kept,
            Err(sys::Error::Gone(_)) => Seen::Ended,
            Err(error) => Seen::Unreadable(error.into()),
        }
    }

    /// Replaces the reservation. While the service is suspended, the new reservation takes effect afterwards. Returns
    /// whether the promise counted as kept before; the new promise does.
    ///
    /// # Errors
    /// The kernel refuses, or the table is full. The thread keeps its reservation.
    pub(super) fn change(
        &mut self,
        kernel: &K,
        table: &Table,
        reservation: Reservation,
        now: Instant,
        is_served: bool,
    ) -> Result<bool, Refusal> {
        let reserved = Reserved { slice: reservation.slice, period: reservation.period, ..self.reserved };
        // With two rows, a restoring process recognizes the earlier and the new reservation.
        let row = record(table, (self.identity, self.leader), self.original, reserved)?;
        if is_served && let Err(refused) = kernel.schedule(&self.thread, reserved.attributes()) {
            table.forget(row);
            return Err(refused.into());
        }
        self.row.replace(row).into_iter().for_each(|earlier| table.forget(earlier));
        self.reserved = reserved;
        let account = self.account.reopen(reservation, now);
        Ok(std::mem::replace(&mut self.account, account).is_kept())
    }

    /// Ends the reservation for a while, unless another process has changed it.
    pub(super) fn suspend(&mut self, kernel: &K) {
        if kernel.attributes(&self.thread).is_ok_and(|found| found == self.reserved.attributes()) {
            // The calls fail if the thread has ended.
            let _ = kernel.schedule(&self.thread, self.attributes);
            if !self.reserved.slack.is_zero() {
                let _ = kernel.set_slack(&self.thread, self.reserved.slack);
            }
        }
    }

    /// Begins the reservation again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn resume(&mut self, kernel: &K, now: Instant) -> Result<(), Explanation> {
        self.account.restart(now);
        match kernel.attributes(&self.thread) {
            Ok(found) if found == self.attributes => match kernel.schedule(&self.thread, self.reserved.attributes()) {
                Ok(()) | Err(sys::Error::Gone(_)) => Ok(()),
                Err(refused) => Err(refused.into()),
            },
            // The next read finds the end of the thread, or the values of another process.
            _ => Ok(()),
        }
    }
}

/// Records a reserved thread, which keeps its affinity.
fn record(
    table: &Table,
    (thread, leader): (Identity, Identity),
    original: Original,
    reserved: Reserved,
) -> Result<Row, Refusal> {
    let entry = Entry { thread, leader, original, confined: CpuSet::EMPTY, reserved: Some(reserved) };
    table.record(&entry).map_err(Refusal::Full)
}

/// Gives a new thread the attributes that it would have inherited if Tactus had not reserved `parent`.
pub(super) fn bring_up<K: Kernel>(kernel: &K, thread: &K::Thread, parent: &ReservedThread<K>) {
    if let Ok(found) = kernel.attributes(thread) {
        let wanted = inherited(found, Some(parent.attributes));
        if wanted != found {
            // The call fails if the thread has ended, or without the privilege for its class.
            let _ = kernel.schedule(thread, wanted);
        }
    }
}
