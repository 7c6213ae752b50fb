//! [`Receipts`]: what threads with reservations have received, by the kernel's own events.

use crate::interface::{Event, Kind};
use measure::{Doing, EndedPeriods, PeriodSink, PeriodWatch};
use sched::{Instant, Reservation};
use serde::Serialize;
use std::collections::BTreeMap;

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

impl Received {
    /// Adds the periods of another time.
    pub fn add(&mut self, other: &Received) {
        self.judged += other.judged;
        self.missed += other.missed;
        self.due_ns += other.due_ns;
        self.delivered_ns += other.delivered_ns;
    }
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

/// What the threads with reservations have received, by tid.
#[derive(Debug, Default)]
pub struct Receipts(BTreeMap<i32, Promised>);

impl Receipts {
    /// Begins with the first wake-up of a thread, at `now`.
    pub fn begin(&mut self, tid: i32, reservation: Reservation, now: Instant) {
        self.0.entry(tid).or_insert_with(|| Promised::new(reservation, now));
    }

    /// Accounts for the time of the thread of an event, if it has a reservation.
    pub fn note(&mut self, event: &Event) {
        let Some(promised) = self.0.get_mut(&event.tid) else { return };
        match event.kind {
            Kind::Wake { .. } | Kind::Stop => promised.note(event.at, Doing::Waiting),
            Kind::Run { .. } | Kind::Choice { .. } => promised.note(event.at, Doing::Running),
            Kind::Sleep | Kind::Detach => promised.note(event.at, Doing::Blocked),
            Kind::Attach { .. } | Kind::Yield | Kind::Change(_) | Kind::Periods(_) => {}
        }
    }

    /// Returns what each thread has received up to `now`.
    pub fn received(&mut self, now: Instant) -> BTreeMap<i32, Received> {
        self.0.iter_mut().map(|(tid, promised)| (*tid, promised.received(now))).collect()
    }
}

/// A thread with a reservation.
#[derive(Debug)]
struct Promised {
    watch: PeriodWatch,
    doing: Doing,
    upto: Instant,
    received: Received,
}

impl Promised {
    fn new(reservation: Reservation, now: Instant) -> Promised {
        let watch = PeriodWatch::new(reservation, now);
        Promised { watch, doing: Doing::Waiting, upto: now, received: Received::default() }
    }

    /// Notes what the thread does from `at` on.
    fn note(&mut self, at: Instant, doing: Doing) {
        let at = at.max(self.upto);
        self.watch.advance(self.doing, at, &mut self.received);
        (self.upto, self.doing) = (at, doing);
    }

    /// Returns what the thread has received up to `now`.
    fn received(&mut self, now: Instant) -> Received {
        self.note(now, self.doing);
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{CpuId, Nanos};

    #[test]
    fn a_run_begins_with_a_choice_of_the_bridge_and_ends_with_a_sleep() {
        let at = |ms: u64| Instant::ZERO + Nanos::ms(ms);
        let mut receipts = Receipts::default();
        receipts.begin(7, Reservation::new(Nanos::ms(4), Nanos::ms(10)), at(0));
        for (ms, kind) in [(1, Kind::Choice { cpu: CpuId::new(0), batches: 0 }), (4, Kind::Sleep)] {
            receipts.note(&Event { at: at(ms), tid: 7, kind });
        }
        assert_eq!(receipts.received(at(10))[&7].delivered_ns, 3_000_000);
    }
}
