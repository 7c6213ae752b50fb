//! [`Promised`]: what a thread with a reservation has received, by the kernel's own events.

use measure::{Doing, EndedPeriods, PeriodSink, PeriodWatch};
use sched::{Instant, Reservation};
use serde::Serialize;

/// The periods of a reservation that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Received {
    /// Number of periods in which the thread was runnable throughout.
    pub judged: u64,
    /// Number of those in which it received less than its slice.
    pub missed: u64,
    /// CPU time that was due and delivered in all periods. Unit: ns.
    pub due_ns: u64,
    /// At most what was due.
    pub delivered_ns: u64,
}

impl PeriodSink for Received {
    fn ended(&mut self, EndedPeriods { due, delivered, throughout, count }: EndedPeriods) {
        self.due_ns += due.as_ns() * count;
        self.delivered_ns += delivered.min(due).as_ns() * count;
        if throughout {
            self.judged += count;
            self.missed += if delivered < due { count } else { 0 };
        }
    }
}

/// A thread with a reservation.
#[derive(Debug)]
pub(crate) struct Promised {
    watch: PeriodWatch,
    doing: Doing,
    upto: Instant,
    pub(crate) received: Received,
}

impl Promised {
    /// Begins with the first wake-up of the thread.
    pub(crate) fn new(reservation: Reservation, now: Instant) -> Promised {
        let watch = PeriodWatch::new(reservation, now);
        Promised { watch, doing: Doing::Waiting, upto: now, received: Received::default() }
    }

    /// Notes what the thread does from `at` on.
    pub(crate) fn note(&mut self, at: Instant, doing: Doing) {
        let at = at.max(self.upto);
        self.watch.advance(self.doing, at, &mut self.received);
        (self.upto, self.doing) = (at, doing);
    }

    /// Returns what the thread has received up to `now`.
    pub(crate) fn received(&mut self, now: Instant) -> Received {
        self.note(now, self.doing);
        self.received
    }
}
