//! [`Spread`]: the median of something over many runs, and how far it can be trusted.
//!
//! The interval is that between two of the values themselves. How sure it is that the median of all runs there could be lies in it
//! is exact for whatever distribution, and follows from counting alone: each run is above that median or below it like a coin. A
//! bootstrap would need chance of its own, and says too little where runs are few. With fewer than six runs no two values are 95 %
//! apart; then the interval is from the least to the greatest, and [`confidence`] says how sure that is.

use serde::Serialize;

/// The most runs that intervals are known for: beyond, the probability that all fall on one side is below the least number.
pub const RUNS_MAX: usize = 1_000;

/// How sure an interval is to be, where there are enough runs. Unit: millionths.
const WANTED_PPM: u64 = 950_000;

/// A median and its interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// As many values are above as below; between the two in the middle, rounded down, where they are even.
    pub median: u64,
    /// Where the interval begins: one of the values.
    pub low: u64,
    /// Where it ends: one of the values.
    pub high: u64,
}

impl Spread {
    /// Of `values`, in any order. Their number: 1 … [`RUNS_MAX`].
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

/// How sure it is that the intervals over `runs` runs hold the median, in millionths, rounded down. Range of `runs`:
/// 1 … [`RUNS_MAX`].
#[must_use]
pub fn confidence(runs: usize) -> u64 {
    interval(runs).1
}

/// How many values of `runs` lie outside of the interval at either end. Range of `runs`: 1 … [`RUNS_MAX`].
#[must_use]
pub fn skipped(runs: usize) -> usize {
    interval(runs).0
}

/// How many values to leave out at either end of `count`, and how sure the interval of the rest is, in millionths.
fn interval(count: usize) -> (usize, u64) {
    assert!((1..=RUNS_MAX).contains(&count), "statistics are over 1 to {RUNS_MAX} runs");
    // Halves are exact, and only the four operations are used, which are the same on every machine.
    let mut chance = (0..count).fold(1.0_f64, |chance, _| chance / 2.0);
    let mut outside = 0.0;
    let mut best = None;
    for skipped in 0..count.div_ceil(2) {
        // So likely are exactly `skipped` of all on one side.
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

    /// As in tables of the sign test: the k-th and the (n+1−k)-th value, and how sure.
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

    /// Counted out: of all ways in which n runs can be above or below, how many leave the median within.
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
        // From nine runs on a single one that is far off is left out.
        let values = [100, 10, 11, 12, 13, 14, 15, 16, 0];
        assert_eq!(Spread::of(&values), Spread { median: 13, low: 10, high: 16 });
        assert_eq!(Spread::of(&[u64::MAX, u64::MAX]).median, u64::MAX);
    }
}
