//! [`Durations`]: the distribution of durations, such as waiting times, wake-up latencies and response times.

use hdrhistogram::Histogram;
use sched::Nanos;

/// Maximum number of distinct durations that are stored exactly. Simulated durations often have few distinct values,
/// and most entities of a large host have few durations. A histogram takes 20 kB, too much for each of these entities.
const EXACT: usize = 256;

/// A distribution of durations. Percentiles are exact for up to 256 distinct durations, and accurate to 1 % for more.
/// Count, total and maximum are exact.
#[derive(Clone, PartialEq, Debug)]
pub struct Durations {
    /// Durations in nanoseconds, in order, each with its number of occurrences.
    exact: Vec<(u64, u64)>,
    rest: Option<Box<Histogram<u64>>>,
    count: u64,
    total: Nanos,
    longest: Nanos,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { exact: Vec::new(), rest: None, count: 0, total: Nanos::ZERO, longest: Nanos::ZERO }
    }
}

impl Durations {
    /// Records one duration.
    #[inline]
    pub fn record(&mut self, length: Nanos) {
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
        self.keep(length.as_ns(), 1);
    }

    /// Records this duration `often` times.
    pub fn record_often(&mut self, length: Nanos, often: u64) {
        if often > 0 {
            self.count += often;
            self.total += length.saturating_mul(often);
            self.longest = self.longest.max(length);
            self.keep(length.as_ns(), often);
        }
    }

    #[inline]
    fn keep(&mut self, ns: u64, count: u64) {
        match &mut self.rest {
            Some(histogram) => put(histogram, ns, count),
            None => self.keep_exactly(ns, count),
        }
    }

    fn keep_exactly(&mut self, ns: u64, count: u64) {
        // Zero is the most frequent duration.
        if let Some((_, often)) = self.exact.first_mut().filter(|(least, _)| *least == ns) {
            *often += count;
            return;
        }
        match self.exact.binary_search_by_key(&ns, |&(length, _)| length) {
            Ok(at) => self.exact[at].1 += count,
            Err(at) if self.exact.len() < EXACT => self.exact.insert(at, (ns, count)),
            Err(_) => {
                self.exact.push((ns, count));
                self.coarsen();
            }
        }
    }

    /// Adds `others`, which must be in ascending order, to the durations that are stored exactly.
    fn merge_exact(&mut self, others: &[(u64, u64)]) {
        self.exact.extend_from_slice(others);
        // A stable sort merges two sorted lists in linear time.
        self.exact.sort_by_key(|&(ns, _)| ns);
        self.exact.dedup_by(|next, kept| {
            let is_equal = next.0 == kept.0;
            kept.1 += if is_equal { next.1 } else { 0 };
            is_equal
        });
        if self.exact.len() > EXACT {
            self.coarsen();
        }
    }

    /// Moves the durations that are stored exactly into a histogram. These durations need not be in order.
    fn coarsen(&mut self) {
        let mut histogram = Histogram::new(2).expect("two digits are a precision");
        for (ns, count) in std::mem::take(&mut self.exact) {
            put(&mut histogram, ns, count);
        }
        self.rest = Some(Box::new(histogram));
    }

    /// Adds all durations of `other`.
    pub fn add(&mut self, other: &Durations) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
        match (&mut self.rest, &other.rest) {
            (None, None) => self.merge_exact(&other.exact),
            (Some(mine), None) => other.exact.iter().for_each(|&(ns, count)| put(mine, ns, count)),
            (Some(mine), Some(theirs)) => mine.add(&**theirs).expect("it grows as it must"),
            (mine @ None, Some(theirs)) => {
                *mine = Some(theirs.clone());
                for (ns, count) in std::mem::take(&mut self.exact) {
                    self.keep(ns, count);
                }
            }
        }
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the durations.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.total
    }

    /// Returns the longest duration. Zero if there are no durations.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        self.longest
    }

    /// Returns a percentile: the shortest recorded duration that at least `percent` percent of all durations do not
    /// exceed. Zero if there are no durations. Range of `percent`: 0 to 100.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Nanos {
        assert!(percent <= 100, "a percentile is at most 100");
        if let Some(histogram) = &self.rest {
            #[expect(clippy::cast_precision_loss, reason = "at most 100")]
            let value = histogram.value_at_percentile(percent as f64);
            return Nanos::ns(value).min(self.longest);
        }
        let rank = (u128::from(percent) * u128::from(self.count)).div_ceil(100).max(1);
        let mut passed = 0;
        let found = self.exact.iter().find(|&&(_, count)| {
            passed += u128::from(count);
            passed >= rank
        });
        found.map_or(Nanos::ZERO, |&(ns, _)| Nanos::ns(ns))
    }
}

fn put(histogram: &mut Histogram<u64>, ns: u64, count: u64) {
    histogram.record_n(ns, count).expect("it grows as it must");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lengths_are_exact_and_many_are_within_one_percent() {
        let mut few = Durations::default();
        for ms in [4, 1, 3, 2] {
            few.record(Nanos::ms(ms));
        }
        assert_eq!((few.percentile(50), few.percentile(99)), (Nanos::ms(2), Nanos::ms(4)));
        let mut many = Durations::default();
        for us in (1..=10_000).rev() {
            many.record(Nanos::us(us));
        }
        for percent in [50, 99] {
            let (found, right) = (many.percentile(percent).as_ns(), percent * 100_000);
            assert!(found.abs_diff(right) <= right / 100, "{percent}: {found}, not {right}");
        }
        assert_eq!((many.longest(), many.percentile(100), many.count()), (Nanos::ms(10), Nanos::ms(10), 10_000));
    }

    #[test]
    fn sums_do_not_depend_on_what_was_kept_exactly() {
        let fill = |range: std::ops::Range<u64>| {
            let mut waits = Durations::default();
            range.for_each(|ms| waits.record(Nanos::ms(ms)));
            waits
        };
        let whole = fill(0..600);
        for cut in [0, 10, 300, 590] {
            let (mut sum, rest) = (fill(0..cut), fill(cut..600));
            sum.add(&rest);
            let seen = |waits: &Durations| (waits.count(), waits.total(), waits.percentile(50), waits.percentile(99));
            assert_eq!(seen(&sum), seen(&whole), "{cut}");
        }
        let mut few = fill(0..3);
        few.add(&fill(3..5));
        assert_eq!((few.count(), few.percentile(50)), (5, Nanos::ms(2)));
        few.add(&fill(1..4));
        assert_eq!(
            [0, 25, 26, 50, 51, 75, 76, 100].map(|it| few.percentile(it).as_ns() / 1_000_000),
            [0, 1, 1, 2, 2, 3, 3, 4]
        );
    }
}
