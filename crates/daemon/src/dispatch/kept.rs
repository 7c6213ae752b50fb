//! [`KeptRecord`]: whether a promise is kept, judged by its latest periods.
//!
//! A period is judged if the client was runnable throughout, and missed if the client then received less than was due.
//! A promise stops being kept when more than a quarter of the judged periods of a window are missed. This bound is a
//! weakly hard constraint: at least m of any k consecutive deadlines are met (Hamdaoui and Ramanathan 1995, "A dynamic
//! priority assignment technique for streams with (m, k)-firm deadlines"). Single misses have causes that no
//! dispatcher prevents, such as the steal time of a hypervisor.

use sched::Nanos;
use serde::{Deserialize, Serialize};

/// Time that a full window covers, unless its number of periods is out of range.
const WINDOW: Nanos = Nanos::s(1);
/// Range of the number of periods in a full window.
const PERIODS: (u64, u64) = (20, 10_000);
/// A promise is not kept if more than one of this number of periods is missed. The promise is judged once this part of
/// the window is filled, and is kept again after as many judged periods in a row without a miss. A newly started
/// program misses periods of a few milliseconds until it has inherited its priority, which is less than this part.
const PART: usize = 4;

/// A change of the judgement about a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Whether the promise is kept from now on.
    pub kept: bool,
    /// Number of missed periods among the last `of` judged periods.
    pub missed: u64,
    /// Number of these judged periods.
    pub of: u64,
}

/// The judged periods of the window, as a ring. Recording a period allocates no memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptRecord {
    missed: Box<[bool]>,
    /// Index of the next period in the ring.
    at: usize,
    /// Number of recorded periods, at most the length of the ring.
    judged: usize,
    misses: usize,
    /// Number of consecutive periods without a miss.
    in_a_row: usize,
    is_kept: bool,
}

impl KeptRecord {
    /// Returns the record of a new promise with this period, which counts as kept.
    #[must_use]
    pub fn new(period: Nanos) -> KeptRecord {
        let periods = (WINDOW.as_ns() / period.as_ns().max(1)).clamp(PERIODS.0, PERIODS.1);
        let missed = vec![false; usize::try_from(periods).expect("it is at most 10,000")].into_boxed_slice();
        KeptRecord { missed, at: 0, judged: 0, misses: 0, in_a_row: 0, is_kept: true }
    }

    /// Returns whether the promise counts as kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Records a judged period. Returns the judgement if it changes with this period.
    pub fn record(&mut self, is_missed: bool) -> Option<Judgement> {
        let window = self.missed.len();
        if self.judged == window {
            self.misses -= usize::from(self.missed[self.at]);
        } else {
            self.judged += 1;
        }
        self.missed[self.at] = is_missed;
        self.misses += usize::from(is_missed);
        self.at = (self.at + 1) % window;
        self.in_a_row = if is_missed { 0 } else { self.in_a_row.saturating_add(1) };
        let kept = if self.is_kept {
            self.judged < window / PART || self.misses * PART <= self.judged
        } else {
            self.in_a_row >= window / PART
        };
        if kept == self.is_kept {
            return None;
        }
        self.is_kept = kept;
        let judgement = Judgement { kept, missed: self.misses as u64, of: self.judged as u64 };
        if kept {
            // Misses before the recovery do not count again.
            self.missed.fill(false);
            (self.judged, self.misses) = (0, 0);
        }
        Some(judgement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records periods, and returns the judgements with the number of the period.
    fn judged(record: &mut KeptRecord, missed: impl IntoIterator<Item = bool>) -> Vec<(usize, bool, u64, u64)> {
        let all = missed.into_iter().enumerate();
        let changed = all.filter_map(|(nth, missed)| Some((nth, record.record(missed)?)));
        changed.map(|(nth, it)| (nth, it.kept, it.missed, it.of)).collect()
    }

    #[test]
    fn the_window_covers_a_second_and_at_least_twenty_periods() {
        for (period, window) in
            [(Nanos::ms(10), 100), (Nanos::us(100), 10_000), (Nanos::s(600), 20), (Nanos::ms(50), 20)]
        {
            assert_eq!(KeptRecord::new(period).missed.len(), window, "{period}");
        }
    }

    #[test]
    fn more_than_a_quarter_of_the_window_is_too_much() {
        let mut record = KeptRecord::new(Nanos::ms(10));
        assert_eq!(judged(&mut record, (0..1_000).map(|nth| nth % 4 == 3)), []);
        // The oldest periods of the window leave it with their misses, every fourth.
        assert_eq!(judged(&mut record, [true, true]), [(0, false, 26, 100)]);
        let mut record = KeptRecord::new(Nanos::ms(10));
        assert_eq!(judged(&mut record, [false; 200]), []);
        assert_eq!(judged(&mut record, [true; 100]), [(25, false, 26, 100)]);
    }

    #[test]
    fn a_promise_is_judged_once_a_quarter_of_the_window_has_passed() {
        let mut record = KeptRecord::new(Nanos::ms(10));
        assert_eq!(judged(&mut record, [true; 30]), [(24, false, 25, 25)]);
        let mut record = KeptRecord::new(Nanos::ms(10));
        let start = [true; 6].into_iter().chain([false; 200]);
        assert_eq!(judged(&mut record, start), [], "6 of 25 periods is less than a quarter");
        let mut record = KeptRecord::new(Nanos::ms(10));
        let start = [true; 7].into_iter().chain([false; 17]);
        assert_eq!(judged(&mut record, start), []);
        assert_eq!(judged(&mut record, [false]), [(0, false, 7, 25)]);
    }

    #[test]
    fn a_promise_is_kept_again_after_a_quarter_of_the_window_without_a_miss() {
        let mut record = KeptRecord::new(Nanos::ms(10));
        assert_eq!(judged(&mut record, [true; 50]).len(), 1);
        assert_eq!(judged(&mut record, [false; 24]), []);
        assert_eq!(judged(&mut record, [true]), [], "the count starts again");
        assert_eq!(judged(&mut record, [false; 30]), [(24, true, 51, 100)]);
        // The promise was judged like a new promise since then, in five periods so far.
        assert_eq!(judged(&mut record, [true; 30]), [(19, false, 20, 25)]);
    }
}
