//! [`Account`]: whether the kernel delivers a reservation, judged from outside.
//!
//! The kernel does not report where its periods begin. Whole periods are counted from the begin of the reservation
//! instead. In any time of n + 1 periods, the kernel delivers at least n slices to a thread that does not block,
//! wherever the kernel's periods begin. Two things reduce what is read. The kernel deducts an overrun before the account
//! opens from the slices after it. The CPU time of a running thread is as old as the last tick of its CPU, and an overrun
//! lasts for at most a tick, too. The account therefore lends the thread one slice and two overruns.

use crate::dispatch::journal::Journal;
use crate::dispatch::kept::{Judgement, KeptRecord};
use sched::{EntityId, Instant, Nanos, Reservation};
use serde::{Deserialize, Serialize};
use trace::Event;

/// The shortest interval between two reads of the CPU time of a thread. A read takes some 20 us.
const READ_LEAST: Nanos = Nanos::ms(10);
/// Maximum number of periods that one read records.
const PERIODS_MOST: u64 = 1_000;

/// The account of a reserved thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Account {
    reservation: Reservation,
    /// Start of the first period that is not recorded yet.
    from: Instant,
    /// Time by which the kernel may let the thread overrun its slice.
    overrun: Nanos,
    /// Delivered CPU time that no recorded period has used, with the lent time.
    pool: Nanos,
    /// Whether the thread has not blocked since `from`.
    throughout: bool,
    kept: KeptRecord,
}

impl Account {
    /// Opens the account of a reservation that begins at `now`. The kernel may let the thread overrun its slice by `overrun`.
    pub(super) fn open(reservation: Reservation, overrun: Nanos, now: Instant) -> Account {
        let kept = KeptRecord::new(reservation.period);
        Account { reservation, from: now, overrun, pool: lent(reservation, overrun), throughout: true, kept }
    }

    /// Opens the account of another reservation of the same thread.
    pub(super) fn reopen(&self, reservation: Reservation, now: Instant) -> Account {
        Account::open(reservation, self.overrun, now)
    }

    pub(super) fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns whether the promise counts as kept.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_kept()
    }

    /// Returns the end of the first period that is not recorded yet; the end of a later period if periods are short.
    pub(super) fn next(&self) -> Instant {
        let period = self.reservation.period.as_ns();
        self.from.saturating_add(Nanos::ns(period * READ_LEAST.as_ns().div_ceil(period)))
    }

    /// Begins again at `now`, because the thread blocked, or was not reserved for a while.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.from, self.pool, self.throughout) = (now, lent(self.reservation, self.overrun), true);
    }

    /// Records `ran` of CPU time up to `now`. `throughout`: the thread has not blocked since the last call.
    pub(super) fn record(
        &mut self,
        entity: EntityId,
        ran: Nanos,
        throughout: bool,
        now: Instant,
        journal: &mut Journal,
    ) {
        let Reservation { slice, period, .. } = self.reservation;
        self.pool += ran;
        self.throughout &= throughout;
        let periods = now.saturating_since(self.from).as_ns() / period.as_ns();
        if periods == 0 {
            return;
        }
        self.from = self.from.saturating_add(Nanos::ns(period.as_ns() * periods));
        let throughout = self.throughout;
        for _ in 0..periods.min(PERIODS_MOST) {
            let delivered = self.pool.min(slice);
            self.pool = self.pool.saturating_sub(delivered);
            journal.note(now, Event::Period { entity, due: slice, delivered, throughout });
            let judged = if throughout { self.kept.record(delivered < slice) } else { None };
            if let Some(Judgement { kept, missed, of }) = judged {
                journal.note(now, Event::Kept { entity, kept, missed, of });
            }
        }
        if !throughout {
            // The kernel may begin a new period at a wake-up. The CPU time since the last whole period is not known.
            self.restart(now);
        }
    }
}

/// Returns the time that the account of a reservation lends.
fn lent(reservation: Reservation, overrun: Nanos) -> Nanos {
    reservation.slice + overrun + overrun
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records a read every 10 ms, and returns the missed periods.
    fn missed(account: &mut Account, ran: impl IntoIterator<Item = u64>, throughout: bool) -> usize {
        let (mut journal, entity) = (Journal::new(), EntityId::new(0, 0));
        for ran in ran {
            let now = account.next();
            account.record(entity, Nanos::ms(ran), throughout, now, &mut journal);
        }
        let mut events = Vec::new();
        journal.exchange(&mut events);
        let is_missed =
            |event: &Event| matches!(event, Event::Period { due, delivered, throughout: true, .. } if delivered < due);
        events.iter().filter(|(_, event)| is_missed(event)).count()
    }

    fn account() -> Account {
        Account::open(Reservation::new(Nanos::ms(2), Nanos::ms(10)), Nanos::ZERO, Instant::ZERO)
    }

    #[test]
    fn a_slice_that_comes_late_by_a_period_is_no_miss() {
        // The kernel's periods begin in the middle of those of the account, and an overrun is made up for.
        for ran in [[0, 2, 2, 2, 2, 2], [0, 4, 0, 4, 0, 4], [2, 2, 0, 4, 2, 2]] {
            assert_eq!(missed(&mut account(), ran, true), 0, "{ran:?}");
        }
    }

    #[test]
    fn slices_that_are_not_delivered_are_missed() {
        assert_eq!(missed(&mut account(), [1; 10], true), 8, "half of each, after the lent slice is used up");
        let mut account = account();
        assert_eq!(missed(&mut account, [0; 100], true), 99);
        assert!(!account.is_kept());
        assert_eq!(missed(&mut account, [2; 30], true), 0);
        assert!(account.is_kept());
    }

    #[test]
    fn periods_with_a_sleep_are_not_judged() {
        let mut account = account();
        assert_eq!(missed(&mut account, [0; 100], false), 0);
        assert!(account.is_kept());
    }

    #[test]
    fn a_block_that_is_read_late_takes_no_slice_from_later_periods() {
        // Observed on Linux 6.18 with 250 ticks per second. The account opens behind the thread's first slice, so the keeper
        // reads late. Unit of the CPU times: microseconds.
        let read = [
            (14, 13_390, false),
            (114, 13_368, true),
            (200, 0, true),
            (314, 22_756, true),
            (400, 0, true),
            (500, 13_371, true),
            (600, 9_370, true),
            (700, 13_373, true),
            (800, 13_334, true),
            (900, 9_370, true),
        ];
        let reservation = Reservation::new(Nanos::ms(12), Nanos::ms(100));
        let mut account = Account::open(reservation, Nanos::ms(4), Instant::ZERO);
        let (mut journal, entity) = (Journal::new(), EntityId::new(0, 0));
        for (at, ran, throughout) in read {
            let now = Instant::ZERO + Nanos::ms(at);
            account.record(entity, Nanos::us(ran), throughout, now, &mut journal);
        }
        let mut events = Vec::new();
        journal.exchange(&mut events);
        let judged = |event: &Event| match *event {
            Event::Period { due, delivered, throughout: true, .. } => Some(delivered < due),
            _ => None,
        };
        let judged: Vec<bool> = events.iter().filter_map(|(_, event)| judged(event)).collect();
        assert_eq!(judged, [false; 7]);
    }
}
