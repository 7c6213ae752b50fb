//! [`Spread`]: the median of a value over many runs, with its confidence interval.
//!
//! The interval lies between two of the values. Its confidence is the probability that the interval contains the median
//! of all possible runs. This probability is exact for any continuous distribution, because each run is above or below
//! that median with equal chance. A bootstrap would need random numbers, and its intervals are too narrow with few
//! runs. With fewer than six runs, no interval reaches 95 %. In this case, the interval extends from the minimum to the
//! maximum, and [`confidence`] returns its confidence.

use serde::Serialize;

/// Maximum number of runs for which an interval can be computed. With over 1,074 runs, the probability that all runs
/// are on one side is below the smallest positive floating-point number.
pub const RUNS_MAX: usize = 1_000;

/// Required confidence of an interval, if the number of runs suffices. Unit: millionths.
const WANTED_PPM: u64 = 950_000;

/// A median and its interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// Median of the values. For an even number of values: the midpoint of the two middle values, rounded down.
    pub median: u64,
    /// Lower end of the interval: one of the values.
    pub low: u64,
    /// Upper end of the interval: one of the values.
    pub high: u64,
}

impl Spread {
    /// Computes the median and interval of `values`, in any order. Number of values: 1 … [`RUNS_MAX`].
    #[must_use]
    pub fn of(values: &[u64]) -> Spread {
        let mut values = values.to_vec();
        values.sort_unstable();
        let (count, (skipped, _)) = (values.len(), interval(values.len()));
        Spread {
            median: values[(count - 1) / 2].midpoint(values[count / 2]),
            low: values[skipped],
            high: values[count - 1 - skipped],
        }
    }
}

/// Returns the probability that the interval over `runs` runs contains the median, in millionths, rounded down. Range
/// of `runs`: 1 … [`RUNS_MAX`].
#[must_use]
pub fn confidence(runs: usize) -> u64 {
    interval(runs).1
}

/// Returns the number of values that lie outside the interval at each end, for `runs` values. Range of `runs`: 1 …
/// [`RUNS_MAX`].
#[must_use]
pub fn skipped(runs: usize) -> usize {
    interval(runs).0
}

/// Returns the number of values to omit at each end of `count` sorted values, and the confidence of the remaining
/// interval, in millionths.
fn interval(count: usize) -> (usize, u64) {
    assert!((1..=RUNS_MAX).contains(&count), "statistics are over 1 to {RUNS_MAX} runs");
    // Halves are exact, and the code uses only the four basic operations, whose results are equal on every machine.
    let mut chance = (0..count).fold(1.0_f64, |chance, _| chance / 2.0);
    let mut outside = 0.0;
    let mut best = None;
    for skipped in 0..count.div_ceil(2) {
        // Adds the probability that exactly `skipped` values are below the median, or exactly `skipped` above it.
        outside += 2.0 * chance;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
        let sure = ((1.0 - outside).max(0.0) * 1e6) as u64;
        if best.is_some() && sure < WANTED_PPM {
            break;
        }
        best = Some((skipped, sure));
        #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
        let (rest, next) = ((count - skipped) as f64, (skipped + 1) as f64);
        chance = chance * rest / next;
    }
    best.expect("nothing left out is always possible")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The intervals are those in tables of the sign test: the k-th and the (n+1−k)-th value, and the confidence.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        for (runs, place, sure) in [
            (1, 1, 0),
            (5, 1, 937_500),
            (6, 1, 968_750),
            (9, 2, 960_937),
            (10, 2, 978_515),
            (15, 4, 964_843),
            (20, 6, 958_610),
            (50, 18, 967_160),
            (100, 40, 964_799),
        ] {
            assert_eq!(interval(runs), (place - 1, sure), "{runs} runs");
        }
        assert!(interval(RUNS_MAX).1 >= WANTED_PPM && interval(RUNS_MAX).0 > 460);
    }

    /// Enumerates all combinations in which n runs can be above or below the median, and counts those with the median
    /// inside the interval.
    #[test]
    fn how_sure_is_what_counting_gives() {
        for runs in 1..=16_u32 {
            let (skipped, sure) = interval(runs as usize);
            let within = (0..1_u64 << runs)
                .filter(|ways| {
                    let above = ways.count_ones() as usize;
                    above > skipped && runs as usize - above > skipped
                })
                .count() as u64;
            let exact = within * 1_000_000 / (1 << runs);
            assert!(exact.abs_diff(sure) <= 1, "{runs}: {sure}, not {exact}");
        }
    }

    #[test]
    fn a_median_lies_in_the_middle_and_within_its_interval() {
        assert_eq!(Spread::of(&[7]), Spread { median: 7, low: 7, high: 7 });
        assert_eq!(Spread::of(&[9, 1, 5, 2]), Spread { median: 3, low: 1, high: 9 });
        assert_eq!(Spread::of(&[9, 1, 5, 2, 8]), Spread { median: 5, low: 1, high: 9 });
        // From nine runs on, the interval excludes a single outlier at each end.
        let values = [100, 10, 11, 12, 13, 14, 15, 16, 0];
        assert_eq!(Spread::of(&values), Spread { median: 13, low: 10, high: 16 });
        assert_eq!(Spread::of(&[u64::MAX, u64::MAX]).median, u64::MAX);
    }
}
