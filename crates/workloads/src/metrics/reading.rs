//! [`Reading`]: what a metric says.

use sched::Nanos;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// What a metric says: numbers with names, in the order in which people want to see them.
///
/// A name ends in its unit: `_ns`, `_ppm` (millionths), `_milli` (thousandths); others are counts, and `grade` is a [`Grade`](super::Grade).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// The numbers.
    pub values: Named<u64>,
    /// The same over time: a number for each second since the application came, the last one begun included.
    pub series: Named<Vec<u64>>,
    /// How often each class of a value occurred, in ascending order; empty classes are left out.
    pub histograms: Named<Vec<(u64, u64)>>,
}

impl Reading {
    /// The number called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    pub(super) fn add(&mut self, name: &'static str, value: u64) {
        self.values.0.push((name, value));
    }

    pub(super) fn time(&mut self, name: &'static str, time: Nanos) {
        self.add(name, time.as_ns());
    }

    /// All of another reading behind this one.
    pub(super) fn extend(&mut self, other: Reading) {
        self.values.0.extend(other.values.0);
        self.series.0.extend(other.series.0);
        self.histograms.0.extend(other.histograms.0);
    }
}

/// Things with names, in order. JSON: an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<T>(pub Vec<(&'static str, T)>);

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// `part` of `whole` in parts of `unit`, rounded down; 0 of nothing. Larger than all numbers: the largest.
pub(super) fn ratio(part: u64, unit: u64, whole: u64) -> u64 {
    let parts = (u128::from(part) * u128::from(unit)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// How many per second, in thousandths, `count` in `time` are.
pub(super) fn per_second(count: u64, time: Nanos) -> u64 {
    // Rounded: a frame time is a whole number of nanoseconds, and 24 of 41,666,667 ns are 24 in a second.
    let half = ratio(count, 2_000_000_000_000, time.as_ns());
    half.div_ceil(2)
}
