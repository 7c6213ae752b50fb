//! [`Range`]: evenly spaced values as users write them: `1..8`, `3ms..7ms`, `400us..460us/10us`.

use crate::problem::{Wrong, quoted};
use std::fmt;

/// Maximum number of values of a range.
pub const RANGE_VALUES_MAX: u64 = 1 << 16;

/// Format of a range, for help texts.
pub const RANGE_FORM: &str = "FIRST..LAST or FIRST..LAST/STEP, such as 1..8, 3ms..7ms or 400us..460us/10us";

/// Units of time, finest first, each in nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Whole numbers, or durations in whole numbers of one unit, in equal steps from `first`. No value exceeds `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    first: u64,
    last: u64,
    /// Distance between two values. Above zero.
    step: u64,
    unit: &'static str,
}

/// A number and an index of [`UNITS`]; `None`: the number has no unit.
type Quantity = (u64, Option<usize>);

fn quantity(text: &str) -> Option<Quantity> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number = number.parse().ok()?;
    match unit.trim() {
        "" => Some((number, None)),
        unit => UNITS.iter().position(|&(name, _)| name == unit).map(|unit| (number, Some(unit))),
    }
}

impl Range {
    /// Parses a range. `None`: `text` is not a range, but for example a name.
    ///
    /// # Errors
    /// Only some of the numbers have a unit, a number is too large in the finest unit, the last value is below the
    /// first, the step is zero, or the range has more than [`RANGE_VALUES_MAX`] values.
    pub fn parse(text: &str) -> Option<Result<Range, Wrong>> {
        let (first, rest) = text.split_once("..")?;
        let (last, step) = rest.split_once('/').map_or((rest, None), |(last, step)| (last, Some(step)));
        let step = step.map_or(Some(None), |step| quantity(step).map(Some))?;
        Some(Range::of(text, quantity(first)?, quantity(last)?, step))
    }

    fn of(text: &str, first: Quantity, last: Quantity, step: Option<Quantity>) -> Result<Range, Wrong> {
        let wrong = |what: &str, label: &str| {
            Wrong::new(format!("the range {} {what}", quoted(text)), label, format!("write {RANGE_FORM}"))
        };
        let given: Vec<Option<usize>> = [Some(first), Some(last), step].into_iter().flatten().map(|it| it.1).collect();
        // Durations are counted in the finest unit in `text`.
        let finest = given.iter().copied().min().flatten();
        if given.iter().any(|unit| unit.is_some() != finest.is_some()) {
            return Err(wrong("has a unit at some of its numbers only", "units differ"));
        }
        let scaled = |(number, unit): Quantity| match (unit, finest) {
            (Some(unit), Some(finest)) => number.checked_mul(UNITS[unit].1 / UNITS[finest].1),
            _ => Some(number),
        };
        // The default step is one unit of the first number.
        let step = step.unwrap_or((1, first.1));
        let (Some(first), Some(last), Some(step)) = (scaled(first), scaled(last), scaled(step)) else {
            return Err(wrong("is out of range", "out of range"));
        };
        match () {
            () if step == 0 => Err(wrong("has a step of zero", "no step")),
            () if last < first => Err(wrong("ends before it begins", "ends before it begins")),
            () if (last - first) / step >= RANGE_VALUES_MAX => {
                Err(wrong(&format!("has more than {RANGE_VALUES_MAX} values"), "too many values"))
            }
            () => Ok(Range { first, last, step, unit: finest.map_or("", |unit| UNITS[unit].0) }),
        }
    }

    /// Returns the values in order, as strings such as `3ms` and `4ms`. Returns at least one value.
    pub fn values(self) -> impl Iterator<Item = String> {
        (0..=(self.last - self.first) / self.step)
            .map(move |nth| format!("{}{}", self.first + nth * self.step, self.unit))
    }

    /// Returns whether the values are whole numbers without a unit.
    #[must_use]
    pub fn is_of_numbers(self) -> bool {
        self.unit.is_empty()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { first, last, step, unit } = self;
        write!(f, "{first}{unit}..{last}{unit}/{step}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Range::parse(text).expect("it is a range").expect("it is right").values().collect()
    }

    #[test]
    fn a_range_counts_in_its_first_unit_and_ends_with_its_last_value() {
        assert_eq!(values("1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("0..7/3"), ["0", "3", "6"]);
        assert_eq!(values("3ms..5ms"), ["3ms", "4ms", "5ms"]);
        assert_eq!(values("400us .. 420us / 10us"), ["400us", "410us", "420us"]);
        assert_eq!(values("500us..1ms/250us"), ["500us", "750us", "1000us"]);
        assert_eq!(values("1s..2s/500ms"), ["1000ms", "1500ms", "2000ms"]);
        assert_eq!(values("9..9"), ["9"]);
    }

    #[test]
    fn a_text_that_only_resembles_a_range_is_none() {
        for text in ["web", "a..b", "1..", "..4", "1...4", "1..4x", "-1..4", "1.5..2", "1..4/x", "../file.json"] {
            assert!(Range::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_wrong_range_is_refused() {
        for text in ["4..1", "1..4/0", "1ms..4", "1..4ms", "1..4/1ms", "0..65536", "1h..18446744073709551615h/1ns"] {
            assert!(Range::parse(text).expect("it is a range").is_err(), "{text}");
        }
        assert_eq!(values("0..65535").len(), 65_536);
    }
}
