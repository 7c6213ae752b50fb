//! [`Axis`]: the ticks of a time axis and their labels.

use sched::{Instant, Nanos};

/// A time unit of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    length: u64,
    ascii: &'static str,
    pretty: &'static str,
}

const UNITS: [Unit; 4] = [
    Unit { length: 1_000_000_000, ascii: "s", pretty: "s" },
    Unit { length: 1_000_000, ascii: "ms", pretty: "ms" },
    Unit { length: 1_000, ascii: "us", pretty: "µs" },
    Unit { length: 1, ascii: "ns", pretty: "ns" },
];

/// Maximum length of a label that is relative to zero. Unit: bytes.
const LABEL_MOST: usize = 8;

/// Evenly spaced ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    from: Instant,
    to: Instant,
    /// Origin of the labels: zero, or `from` if labels relative to zero would exceed [`LABEL_MOST`].
    origin: Instant,
    step: Nanos,
    unit: Unit,
}

impl Axis {
    /// Returns the finest axis over `from..=to` for which `fits` returns true, or the coarsest axis if none fits. The
    /// step of the axis is 1, 2 or 5 times a power of ten, in nanoseconds.
    pub(crate) fn choose(from: Instant, to: Instant, fits: impl Fn(&Axis) -> bool) -> Axis {
        let length = to.saturating_since(from);
        let coarsest = Axis::with_step(from, to, Nanos::ns(10_u64.pow(19)));
        let exponents = 0..=18_u32;
        let steps = exponents.flat_map(|exponent| [1, 2, 5].map(|digit| Nanos::ns(digit * 10_u64.pow(exponent))));
        // No picture can show more than a thousand ticks.
        let steps = steps.skip_while(|step| length.as_ns() / step.as_ns() > 1000);
        steps.map(|step| Axis::with_step(from, to, step)).find(|axis| fits(axis)).unwrap_or(coarsest)
    }

    fn with_step(from: Instant, to: Instant, step: Nanos) -> Axis {
        let is_fit = |unit: &&Unit| unit.length <= step.as_ns().saturating_mul(2);
        let unit = *UNITS.iter().find(is_fit).expect("a nanosecond is at most any step");
        let axis = Axis { from, to, origin: Instant::ZERO, step, unit };
        let last = Instant::at_ns(to.as_ns() / step.as_ns() * step.as_ns());
        if axis.label(last).len() <= LABEL_MOST { axis } else { Axis { origin: from, ..axis } }
    }

    pub(crate) fn unit(&self) -> &'static str {
        self.unit.pretty
    }

    /// Returns the origin of the labels, if the origin is not zero.
    pub(crate) fn offset(&self) -> Option<Instant> {
        (self.origin != Instant::ZERO).then_some(self.origin)
    }

    /// Returns the ticks in order.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = Instant> + '_ {
        let before = self.from.saturating_since(self.origin).round_up(self.step);
        let first = self.origin.as_ns().checked_add(before.as_ns()).map(Instant::at_ns);
        let next = |at: &Instant| at.as_ns().checked_add(self.step.as_ns()).map(Instant::at_ns);
        std::iter::successors(first, next).take_while(|&at| at <= self.to)
    }

    /// Returns the label of a tick without the unit: `0`, `1.5`, `+200`.
    pub(crate) fn number(&self, at: Instant) -> String {
        let offset = at.saturating_since(self.origin).as_ns();
        let sign = if self.origin == Instant::ZERO { "" } else { "+" };
        let (whole, rest) = (offset / self.unit.length, offset % self.unit.length);
        if rest == 0 {
            return format!("{sign}{whole}");
        }
        let digits = format!("{rest:0width$}", width = self.unit.length.ilog10() as usize);
        format!("{sign}{whole}.{}", digits.trim_end_matches('0'))
    }

    /// Returns the label of a tick, with a unit unless the tick is the origin: `0`, `1.5s`, `+200us`.
    pub(crate) fn label(&self, at: Instant) -> String {
        let number = self.number(at);
        if at == self.origin { number } else { number + self.unit.ascii }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: u64, to: u64, most: usize) -> String {
        let axis = Axis::choose(Instant::at_ns(from), Instant::at_ns(to), |axis| axis.ticks().count() <= most);
        axis.ticks().map(|at| axis.label(at)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_in_one_unit() {
        assert_eq!(labels(0, 200_000_000, 5), "0 50ms 100ms 150ms 200ms");
        assert_eq!(labels(0, 200_000_000, 4), "0 100ms 200ms");
        assert_eq!(labels(0, 2_000_000_000, 5), "0 0.5s 1s 1.5s 2s");
        assert_eq!(labels(1, 123_456_789, 3), "50ms 100ms");
        assert_eq!(labels(300, 1_000, 10), "300ns 400ns 500ns 600ns 700ns 800ns 900ns 1000ns");
        assert_eq!(labels(0, 86_400_000_000_000, 10), "0 10000s 20000s 30000s 40000s 50000s 60000s 70000s 80000s");
    }

    #[test]
    fn long_labels_count_from_the_left_edge() {
        assert_eq!(labels(3_600_000_000_123, 3_600_000_002_123, 5), "+0 +0.5us +1us +1.5us +2us");
        assert_eq!(labels(u64::MAX - 10, u64::MAX, 3), "+0 +5ns +10ns");
    }

    #[test]
    fn any_stretch_has_an_axis() {
        for (from, to) in [(0, 0), (0, 1), (5, 4), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            for most in [0, 1, 7] {
                assert!(!labels(from, to, most).is_empty() || from > 0, "{from}..{to} with {most}");
            }
        }
    }
}
