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

/// Number of periods without CPU time after which the kernel is taken to withhold a reservation, and number of periods for
/// which the thread then has its original attributes. The shortest of these times is [`WITHHELD_LEAST`].
///
/// The kernel withholds a reservation for good if the thread had one before that it left while it was throttled, and whose
/// timers expire later (Linux 6.18, kernel/sched/deadline.c: `dl_task_timer` leaves `dl_throttled` set for a thread of
/// another class, and only `inactive_task_timer` clears it). Observed for 31 % of the threads that are reserved again within
/// a period, for 2 % after 2 to 2.5 periods, and for none of 800 after 6 periods.
const WITHHELD: u64 = 3;
const REST: u64 = 6;
const WITHHELD_LEAST: Nanos = Nanos::ms(30);

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
    /// Start of the time in which the thread was runnable and did not run.
    waits_since: Option<Instant>,
    /// Instant at which the thread is reserved again, because the kernel withholds its reservation.
    rests_until: Option<Instant>,
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
            waits_since: None,
            rests_until: None,
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
            rests_until: self.rests_until,
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
        let FormerThread { promise, name, account, ran, sleeps, was_runnable, rests_until, .. } = former;
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
            waits_since: None,
            rests_until,
        })
    }

    pub(super) fn reservation(&self) -> Reservation {
        self.account.reservation()
    }

    /// Returns the instant of the next read.
    pub(super) fn next_read(&self) -> Instant {
        self.rests_until.map_or(self.account.next(), |until| until.min(self.account.next()))
    }

    /// Reads the CPU time of the thread, and checks the reservation if `is_served`. A reservation that the kernel withholds
    /// ends, and begins again later.
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
        // The periods of a thread that rests are missed.
        self.account.record(self.entity, ran, throughout && is_served, now, journal);
        self.release_withheld(kernel, now, throughout && is_served && ran.is_zero());
        match kernel.attributes(&self.thread) {
            Ok(found) if is_served && self.rests_until.is_none() && found != self.reserved.attributes() => {
                let tid = self.identity.tid;
                let why = format!("another process has made thread {tid} {found}, so the promise to it has ended");
                Seen::Changed(Explanation::new(why, "let Tactus alone schedule it"))
            }
            Ok(_) => Seen::Kept,
            Err(sys::Error::Gone(_)) => Seen::Ended,
            Err(error) => Seen::Unreadable(error.into()),
        }
    }

    /// Ends the reservation for some periods if the kernel withholds it, and begins it again afterwards. `waits`: the thread
    /// was runnable since the last read, and did not run.
    fn release_withheld(&mut self, kernel: &K, now: Instant, waits: bool) {
        let period = self.reserved.period.as_ns();
        let periods = |count| Nanos::ns(period * count).max(WITHHELD_LEAST);
        if let Some(until) = self.rests_until {
            if now >= until {
                // The next read finds that the kernel refuses, or the values of another process.
                let _ = self.reserve(kernel);
            }
            return;
        }
        self.waits_since = waits.then(|| self.waits_since.unwrap_or(now));
        if self.waits_since.is_some_and(|since| now.since(since) >= periods(WITHHELD)) {
            self.suspend(kernel);
            self.rests_until = Some(now.saturating_add(periods(REST)));
        }
    }

    /// Reserves the thread again, unless another process has changed its attributes.
    fn reserve(&mut self, kernel: &K) -> sys::Result<()> {
        (self.waits_since, self.rests_until) = (None, None);
        match kernel.attributes(&self.thread) {
            Ok(found) if found == self.attributes => match kernel.schedule(&self.thread, self.reserved.attributes()) {
                Ok(()) | Err(sys::Error::Gone(_)) => Ok(()),
                Err(refused) => Err(refused),
            },
            // The next read finds the end of the thread, or the values of another process.
            _ => Ok(()),
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
        let is_reserved = is_served && self.rests_until.is_none();
        if is_reserved && let Err(refused) = kernel.schedule(&self.thread, reserved.attributes()) {
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
        (self.waits_since, self.rests_until) = (None, None);
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
        self.reserve(kernel).map_err(Explanation::from)
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
