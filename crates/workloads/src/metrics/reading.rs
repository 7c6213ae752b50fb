//! [`Reading`]: the values of a metric.

use sched::Nanos;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The values of a metric: numbers with names, in order of relevance for readers.
///
/// A name ends in its unit: `_ns`, `_ppm` (millionths), `_milli` (thousandths). Other numbers are counts or rates, and
/// `grade` and `sound_grade` are [`Grade`](super::Grade)s.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// Values for the whole run.
    pub values: Named<u64>,
    /// Values over time: one for each second since the arrival of the application or the end of the warm-up, whichever
    /// is later. A film has a value for the last incomplete second, but a played-back load does not.
    pub series: Named<Vec<u64>>,
    /// Classes of a value in ascending order, each with its number of samples. Empty classes are omitted.
    pub histograms: Named<Vec<(u64, u64)>>,
}

impl Reading {
    /// Returns the number with this `name`.
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

    /// Appends all values of another reading.
    pub(super) fn extend(&mut self, other: Reading) {
        self.values.0.extend(other.values.0);
        self.series.0.extend(other.series.0);
        self.histograms.0.extend(other.histograms.0);
    }
}

/// Values with names, in order. In JSON: an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<T>(pub Vec<(&'static str, T)>);

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    /// Returns whether the list is empty.
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

/// Returns `part * unit / whole`, rounded down. Returns 0 if `whole` is zero, and `u64::MAX` if the result exceeds the
/// range of `u64`.
pub(super) fn ratio(part: u64, unit: u64, whole: u64) -> u64 {
    let parts = (u128::from(part) * u128::from(unit)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// Returns the rate of `count` in `time`, in thousandths per second.
pub(super) fn per_second(count: u64, time: Nanos) -> u64 {
    // The rate is rounded to the nearest thousandth, because a frame time is a whole number of nanoseconds: 24 frames
    // of 41,666,667 ns count as 24 per second.
    let half = ratio(count, 2_000_000_000_000, time.as_ns());
    half.div_ceil(2)
}
