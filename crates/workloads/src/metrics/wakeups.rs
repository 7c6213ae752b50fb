//! The delays from the expiration of timers until the waiting threads run: the output of cyclictest.

use super::gauge::{Fact, Gauge};
use super::reading::{Named, Reading, ratio};
use sched::{Instant, Nanos};
use std::collections::BTreeMap;
use trace::Durations;

/// A sample for each reported delay, of all threads together. The histogram has a class for each whole microsecond and
/// ends at 5 ms, as with `-h 5000`. Delays of 5 ms or longer are counted separately, and are included in the mean and
/// the maximum.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    late: Durations,
    /// Sum of the squared delays. Unit: square nanoseconds.
    squares: u128,
    /// Number of samples, by whole microseconds.
    classes: BTreeMap<u64, u64>,
    overflow: u64,
    left_out: u64,
}

/// End of the histogram.
const END: Nanos = Nanos::ms(5);

impl Gauge for Wakeups {
    fn note(&mut self, _: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Late(late) => {
                self.late.record(late);
                self.squares += u128::from(late.as_ns()).pow(2);
                if late < END {
                    *self.classes.entry(late.as_ns() / 1_000).or_default() += 1;
                } else {
                    self.overflow += 1;
                }
            }
            Fact::LeftOut(beats) => self.left_out += beats,
            _ => {}
        }
    }

    fn begin(&mut self, _: Instant) {
        *self = Wakeups::default();
    }

    fn read(&mut self, _: Instant) -> Reading {
        let (count, total) = (u128::from(self.late.count()), u128::from(self.late.total().as_ns()));
        // The difference is not negative: the square of a sum is at most the sum of the squares times their number.
        let around = self.squares - (total * total).checked_div(count).unwrap_or(0);
        let deviation = around.checked_div(count.saturating_sub(1)).unwrap_or(0).isqrt();
        let mut reading = Reading::default();
        reading.add("samples", self.late.count());
        reading.add("late_mean_ns", ratio(self.late.total().as_ns(), 1, self.late.count()));
        reading.add("late_deviation_ns", u64::try_from(deviation).unwrap_or(u64::MAX));
        reading.time("late_p50_ns", self.late.percentile(50));
        reading.time("late_p99_ns", self.late.percentile(99));
        reading.time("late_max_ns", self.late.longest());
        reading.add("overflow", self.overflow);
        reading.add("left_out", self.left_out);
        let classes = std::mem::take(&mut self.classes);
        reading.histograms = Named(vec![("late_us", classes.into_iter().collect())]);
        reading
    }
}
