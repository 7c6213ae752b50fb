//! [`Histogram`]: numbers of durations by length.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Upper bounds of the classes of a [`Histogram`], inclusive. The last class has no bound. Unit: ns.
pub const BOUNDS_NS: [u64; 9] =
    [10_000, 40_000, 160_000, 640_000, 2_560_000, 10_240_000, 40_960_000, 163_840_000, 655_360_000];

/// Numbers of durations of up to 10, 40, 160, 640 us, 2.56, 10.24, 40.96, 163.84, 655.36 ms, and of longer ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[schema(value_type = Vec<u64>)]
pub struct Histogram(pub [u64; BOUNDS_NS.len() + 1]);

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, ns: u64) {
        self.0[BOUNDS_NS.partition_point(|bound| *bound < ns)] += 1;
    }

    /// Returns the counts since `before`, an earlier state of this histogram.
    #[must_use]
    pub fn since(&self, before: &Histogram) -> Histogram {
        Histogram(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])))
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_class_with_the_next_bound() {
        let mut histogram = Histogram::default();
        for ns in [0, 10_000, 10_001, 655_360_000, 655_360_001, u64::MAX] {
            histogram.record(ns);
        }
        assert_eq!(histogram.0, [2, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        let before = histogram;
        histogram.record(50_000);
        assert_eq!(histogram.since(&before).0, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let mut sum = before;
        sum.add(&histogram.since(&before));
        assert_eq!(sum, histogram);
    }
}
