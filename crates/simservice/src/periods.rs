//! [`Periods`]: the measurements of a reservation.

use api::Measured;
use daemon::dispatch::KeptRecord;
use measure::{EndedPeriods, PeriodSink};
use sched::{Nanos, Reservation};

/// The measurements of a reservation since it was made, and whether it is kept, by the rule of the core.
#[derive(Debug)]
pub(crate) struct Periods {
    pub(crate) measured: Measured,
    kept: KeptRecord,
}

impl Periods {
    pub(crate) fn new(reservation: Option<Reservation>) -> Periods {
        let period = reservation.map_or(Nanos::s(1), |reservation| reservation.period);
        Periods { measured: Measured::default(), kept: KeptRecord::new(period) }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_kept()
    }
}

impl PeriodSink for Periods {
    /// Counts ended periods. CPU time beyond the slice is no part of the promise, as on a real host.
    fn ended(&mut self, EndedPeriods { due, delivered, throughout, count }: EndedPeriods) {
        for _ in 0..count {
            self.measured.count(due.as_ns(), delivered.min(due).as_ns(), throughout);
            if throughout {
                self.kept.record(delivered < due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_not_kept_once_more_than_a_quarter_of_the_latest_periods_are_short() {
        let reservation = Reservation::new(Nanos::ms(2), Nanos::ms(10));
        let mut periods = Periods::new(Some(reservation));
        let mut end = |delivered: Nanos, throughout: bool, count: u64| {
            periods.ended(EndedPeriods { due: Nanos::ms(2), delivered, throughout, count });
            periods.is_kept()
        };
        assert!(end(Nanos::ZERO, false, 1_000), "a period with a sleep is not judged");
        assert!(end(Nanos::ms(3), true, 100));
        assert!(end(Nanos::ms(1), true, 25));
        assert!(!end(Nanos::ms(1), true, 10));
        assert!(end(Nanos::ms(2), true, 25), "a quarter of the window in a row recovers");
        let measured = periods.measured;
        assert_eq!((measured.periods, measured.judged, measured.missed), (1_160, 160, 35));
        assert_eq!(measured.delivered_ns, 2_000_000 * 125 + 1_000_000 * 35);
    }
}
