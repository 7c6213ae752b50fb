//! Time: [`Nanos`] is a duration, [`Instant`] a point on the driver's clock, [`Virtual`] a point on a policy's own
//! weighted clock. All three types count whole nanoseconds. No code of this module reads a clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Longest span that a user may request: 2^60 ns, about 36 years.
///
/// Sums of a few such spans still fit in 64 bits, so arithmetic on accepted input cannot overflow.
pub const SPAN_MAX: Nanos = Nanos(1 << 60);

/// A duration. Unit: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nanos(u64);

impl Nanos {
    /// The duration of zero.
    pub const ZERO: Nanos = Nanos(0);

    /// Returns a duration of `n` nanoseconds.
    #[must_use]
    pub const fn ns(n: u64) -> Nanos {
        Nanos(n)
    }

    /// Returns a duration of `n` microseconds.
    #[must_use]
    pub const fn us(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// Returns a duration of `n` milliseconds.
    #[must_use]
    pub const fn ms(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// Returns a duration of `n` seconds.
    #[must_use]
    pub const fn s(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// Returns the duration in whole nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns whether the duration is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns `self − other`, or zero if the difference would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// Returns `self + other`, or the largest duration if the sum would overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Returns `self · n`, or the largest duration if the product would overflow.
    #[must_use]
    pub const fn saturating_mul(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }

    /// Returns `⌊self · num / den⌋` without intermediate overflow. Panics when `den` is zero or the result does not
    /// fit.
    #[must_use]
    pub fn scale(self, num: u64, den: u64) -> Nanos {
        assert!(den > 0, "a ratio needs a denominator");
        match self.0.checked_mul(num) {
            Some(product) => Nanos(product / den),
            None => {
                let wide = u128::from(self.0) * u128::from(num) / u128::from(den);
                Nanos(u64::try_from(wide).expect("a scaled time fits in 64 bits"))
            }
        }
    }

    /// Returns `⌈self / step⌉ · step`: the next multiple of `step` at or after `self`; `self` when `step` is zero.
    #[must_use]
    pub const fn round_up(self, step: Nanos) -> Nanos {
        if step.0 == 0 {
            return self;
        }
        Nanos(self.0.div_ceil(step.0) * step.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl core::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(all: I) -> Nanos {
        all.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Writes the shortest exact notation: `20ms`, `2.5us`, `1s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.pad("0s"),
            n if n >= 1_000_000_000 => (1_000_000_000, "s"),
            n if n >= 1_000_000 => (1_000_000, "ms"),
            n if n >= 1_000 => (1_000, "us"),
            _ => (1, "ns"),
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        if rest == 0 {
            return f.pad(&alloc::format!("{whole}{name}"));
        }
        let digits = alloc::format!("{:0width$}", rest, width = unit.ilog10() as usize);
        f.pad(&alloc::format!("{whole}.{}{name}", digits.trim_end_matches('0')))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A point in time on the driver's clock. Unit: nanoseconds since the driver's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

impl Instant {
    /// The instant of the driver's start.
    pub const ZERO: Instant = Instant(0);
    /// An instant later than all events: the end of an unlimited slice, or the time of an alarm that is not set.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Returns the instant `n` nanoseconds after the start.
    #[must_use]
    pub const fn at_ns(n: u64) -> Instant {
        Instant(n)
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to `self`. Panics when `earlier` is later: time never decreases.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.checked_sub(earlier.0).expect("time never goes back"))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns `self + by`, or [`Instant::NEVER`] if the sum would overflow.
    #[must_use]
    pub const fn saturating_add(self, by: Nanos) -> Instant {
        Instant(self.0.saturating_add(by.0))
    }

    /// Returns the next multiple of `step` at or after `self`; `self` when `step` is zero or `self` is
    /// [`Instant::NEVER`].
    #[must_use]
    pub const fn round_up(self, step: Nanos) -> Instant {
        if self.0 == u64::MAX {
            return self;
        }
        Instant(Nanos(self.0).round_up(step).0)
    }

    /// Returns the first of the instants `phase`, `phase + step`, `phase + 2 · step` and so on that is later than
    /// `self`. Panics when `step` is zero.
    #[must_use]
    pub fn next_tick(self, step: Nanos, phase: Nanos) -> Instant {
        assert!(step.0 > 0, "a tick needs a period");
        if self.0 < phase.0 {
            return Instant(phase.0);
        }
        Instant(phase.0 + ((self.0 - phase.0) / step.0 + 1) * step.0)
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, by: Nanos) -> Instant {
        Instant(self.0 + by.0)
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, by: Nanos) {
        self.0 += by.0;
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::NEVER { f.pad("never") } else { fmt::Display::fmt(&Nanos(self.0), f) }
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A point on a weighted clock, as in CFS's vruntime. Unit: nanoseconds of CPU time at normal weight.
///
/// Virtual times wrap. The sign of the difference of two points gives their order, as in `kernel/sched/fair.c`. The
/// order is therefore valid only for points less than 2^63 ns apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Virtual(u64);

impl Virtual {
    /// The start of the clock.
    pub const ZERO: Virtual = Virtual(0);

    /// Returns the point `n` virtual nanoseconds after the start.
    #[must_use]
    pub const fn at_ns(n: u64) -> Virtual {
        Virtual(n)
    }

    /// Returns the point `by` after `self`.
    #[must_use]
    pub const fn plus(self, by: Nanos) -> Virtual {
        Virtual(self.0.wrapping_add(by.0))
    }

    /// Returns the point `by` before `self`.
    #[must_use]
    pub const fn minus(self, by: Nanos) -> Virtual {
        Virtual(self.0.wrapping_sub(by.0))
    }

    /// Returns `self` moved by a signed distance.
    #[must_use]
    pub const fn moved(self, by: i64) -> Virtual {
        Virtual(self.0.wrapping_add_signed(by))
    }

    /// Returns `self − other`, signed.
    #[must_use]
    pub const fn ahead_of(self, other: Virtual) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Returns the signed distance from the start of the clock.
    #[must_use]
    pub const fn as_ns(self) -> i64 {
        self.0.cast_signed()
    }
}

impl PartialOrd for Virtual {
    fn partial_cmp(&self, other: &Virtual) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Virtual {
    fn cmp(&self, other: &Virtual) -> core::cmp::Ordering {
        self.ahead_of(*other).cmp(&0)
    }
}

impl fmt::Debug for Virtual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn lengths_print_in_the_shortest_exact_form() {
        for (ns, text) in
            [(0, "0s"), (1, "1ns"), (2_500, "2.5us"), (20_000_000, "20ms"), (1_000_000_001, "1.000000001s")]
        {
            assert_eq!(Nanos::ns(ns).to_string(), text);
        }
    }

    #[test]
    fn scaling_is_exact_beyond_64_bits() {
        assert_eq!(Nanos::s(1 << 30).scale(1024, 1024), Nanos::s(1 << 30));
        assert_eq!(Nanos::ms(3).scale(1024, 335), Nanos::ns(9_170_149));
    }

    #[test]
    fn ticks_keep_their_phase() {
        let (step, phase) = (Nanos::ms(10), Nanos::ms(3));
        assert_eq!(Instant::ZERO.next_tick(step, phase), Instant::at_ns(3_000_000));
        assert_eq!(Instant::at_ns(3_000_000).next_tick(step, phase), Instant::at_ns(13_000_000));
    }

    #[test]
    fn the_virtual_clock_wraps() {
        let late = Virtual::ZERO.minus(Nanos::ns(5));
        assert!(late < Virtual::ZERO);
        assert_eq!(Virtual::ZERO.ahead_of(late), 5);
    }
}
