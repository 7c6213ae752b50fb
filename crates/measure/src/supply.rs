//! [`Supply`]: the intervals in which a thread was on a CPU, and what they deliver to a promise.

use sched::{Instant, Nanos};

/// The intervals in which a thread was on a CPU, in order of time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Supply {
    intervals: Vec<(Instant, Instant)>,
}

/// The judged periods of a promise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct JudgedPeriods {
    /// Number of whole periods.
    pub periods: u64,
    /// Number of periods in which less than the slice was delivered.
    pub missed: u64,
    /// Maximum CPU time that was missing in a period.
    pub worst: Nanos,
    /// Maximum difference, at the end of a period, between the sum of all slices so far and the delivered CPU time.
    pub debt: Nanos,
}

impl Supply {
    /// Adds the interval from `since` to `until`.
    ///
    /// # Panics
    /// The interval begins before an earlier interval ends.
    pub fn add(&mut self, since: Instant, until: Instant) {
        assert!(self.intervals.last().is_none_or(|&(_, last)| last <= since), "the intervals are in order");
        self.intervals.push((since, until));
    }

    /// Returns the start of the first interval that begins at `from` or later.
    #[must_use]
    pub fn first_from(&self, from: Instant) -> Option<Instant> {
        self.intervals.iter().map(|&(since, _)| since).find(|&since| since >= from)
    }

    /// Returns the CPU time in each whole window of `length` from `from` to `to`.
    pub fn windows(&self, from: Instant, to: Instant, length: Nanos) -> impl Iterator<Item = Nanos> {
        let (mut begin, mut at) = (from, 0);
        std::iter::from_fn(move || {
            let end = begin.saturating_add(length);
            if end > to {
                return None;
            }
            while self.intervals.get(at).is_some_and(|&(_, until)| until <= begin) {
                at += 1;
            }
            let mut delivered = Nanos::ZERO;
            for &(since, until) in self.intervals[at..].iter().take_while(|(since, _)| *since < end) {
                delivered += until.min(end).saturating_since(since.max(begin));
            }
            begin = end;
            Some(delivered)
        })
    }

    /// Judges the whole periods from `from` to `to` of a promise of `slice` in every `period`, the first of which begins
    /// at `from`. An overrun is deducted from the slice of the next period, as schedulers with hard limits deduct it.
    #[must_use]
    pub fn judge(&self, slice: Nanos, period: Nanos, from: Instant, to: Instant) -> JudgedPeriods {
        let (mut judged, mut over) = (JudgedPeriods::default(), Nanos::ZERO);
        let (mut all_due, mut all_delivered) = (Nanos::ZERO, Nanos::ZERO);
        for delivered in self.windows(from, to, period) {
            all_due += slice;
            all_delivered += delivered;
            judged.debt = judged.debt.max(all_due.saturating_sub(all_delivered));
            let due = slice.saturating_sub(over);
            judged.periods += 1;
            judged.missed += u64::from(delivered < due);
            judged.worst = judged.worst.max(due.saturating_sub(delivered));
            over = delivered.saturating_sub(due);
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(intervals: &[(u64, u64)]) -> Supply {
        let mut supply = Supply::default();
        intervals.iter().for_each(|&(since, until)| supply.add(Instant::at_ns(since), Instant::at_ns(until)));
        supply
    }

    #[test]
    fn windows_divide_the_intervals_and_an_incomplete_window_is_left_out() {
        let supply = supply(&[(5, 12), (18, 19), (20, 40)]);
        let windows: Vec<u64> =
            supply.windows(Instant::at_ns(0), Instant::at_ns(39), Nanos::ns(10)).map(Nanos::as_ns).collect();
        assert_eq!(windows, [5, 3, 10]);
        assert_eq!(supply.first_from(Instant::at_ns(6)), Some(Instant::at_ns(18)));
        assert_eq!(supply.first_from(Instant::at_ns(21)), None);
    }

    #[test]
    fn an_overrun_is_deducted_from_the_next_slice_and_a_shortfall_is_a_miss() {
        // Of the 4 due in each period: 6 (2 too much), 2 (enough after the overrun), 1 (3 missing), 4. Of the 16 due in
        // all periods: 13.
        let supply = supply(&[(0, 6), (10, 12), (20, 21), (30, 34)]);
        let judged = supply.judge(Nanos::ns(4), Nanos::ns(10), Instant::at_ns(0), Instant::at_ns(40));
        assert_eq!(judged, JudgedPeriods { periods: 4, missed: 1, worst: Nanos::ns(3), debt: Nanos::ns(3) });
    }
}
