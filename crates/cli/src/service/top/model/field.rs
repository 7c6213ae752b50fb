//! [`Field`]: a value of the form, as text and as a part of a desired state.

use api::{CAP_MOST, Desired, Limit, WEIGHT_MOST};
use input::duration;
use input::problem::Problems;
use sched::Nanos;
use std::ops::RangeInclusive;

/// Steps within a factor of ten, in tenths: about equal factors, and numbers that are easy to read.
const STEPS: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
/// Range of the steps of a slice and of a period. Unit: ns. Typed values may exceed it; the service checks them.
const SLICES: RangeInclusive<u64> = 10_000..=10_000_000_000;
const PERIODS: RangeInclusive<u64> = 100_000..=10_000_000_000;
/// Maximum number of CPUs of a promise.
const CPUS_MOST: u64 = 256;
/// First values of a step from an empty field: those of an ordinary group, and of a promise without much cost.
const FIRST_SLICE: Nanos = Nanos::ms(1);
const FIRST_PERIOD: Nanos = Nanos::ms(10);
const FIRST_SHARE: u64 = 100;

/// A value of the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Slice,
    Period,
    Cpus,
    Gang,
    Limit,
    Weight,
    Cap,
}

/// The direction of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Down,
    Up,
}

impl Field {
    pub(crate) const ALL: [Field; 7] =
        [Field::Slice, Field::Period, Field::Cpus, Field::Gang, Field::Limit, Field::Weight, Field::Cap];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Field::Slice => "slice",
            Field::Period => "period",
            Field::Cpus => "CPUs",
            Field::Gang => "gang",
            Field::Limit => "limit",
            Field::Weight => "weight",
            Field::Cap => "cap (%)",
        }
    }

    /// Returns the value of a desired state; empty: there is none.
    pub(crate) fn text(self, desired: &Desired) -> String {
        let promise = desired.promise.as_ref();
        let number = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
        match self {
            Field::Slice => promise.map_or(String::new(), |promise| Nanos::ns(promise.slice_ns).to_string()),
            Field::Period => promise.map_or(String::new(), |promise| Nanos::ns(promise.period_ns).to_string()),
            Field::Cpus => promise.map_or(1, |promise| promise.cpus).to_string(),
            Field::Gang => if promise.is_some_and(|promise| promise.gang) { "yes" } else { "no" }.to_string(),
            Field::Limit => match promise.map(|promise| promise.limit) {
                Some(Limit::Hard) => "hard".to_string(),
                _ => "soft".to_string(),
            },
            Field::Weight => number(desired.weight),
            Field::Cap => number(desired.cap_percent),
        }
    }

    /// Whether the value is one of two words, which every step exchanges.
    pub(crate) fn is_word(self) -> bool {
        matches!(self, Field::Gang | Field::Limit)
    }

    /// Returns whether `letter` can be a part of the typed value.
    pub(crate) fn accepts(self, letter: char) -> bool {
        match self {
            Field::Slice | Field::Period => letter.is_ascii_digit() || ". numshi".contains(letter),
            Field::Cpus | Field::Weight | Field::Cap => letter.is_ascii_digit(),
            Field::Gang | Field::Limit => false,
        }
    }

    /// Returns the value one step from `text`, on a logarithmic scale. A value that cannot be read stays.
    pub(crate) fn stepped(self, text: &str, step: Step) -> String {
        match self {
            Field::Slice => stepped_time(text, step, FIRST_SLICE, SLICES),
            Field::Period => stepped_time(text, step, FIRST_PERIOD, PERIODS),
            Field::Cpus => {
                let Ok(cpus) = text.parse::<u64>() else { return "1".to_string() };
                match step {
                    Step::Up => (cpus + 1).min(CPUS_MOST),
                    Step::Down => cpus.saturating_sub(1).max(1),
                }
                .to_string()
            }
            Field::Gang => if text == "yes" { "no" } else { "yes" }.to_string(),
            Field::Limit => if text == "hard" { "soft" } else { "hard" }.to_string(),
            Field::Weight => stepped_number(text, step, 1..=u64::from(WEIGHT_MOST)),
            Field::Cap => stepped_number(text, step, 1..=u64::from(CAP_MOST)),
        }
    }
}

/// Reads a duration in ns; `None`: the field is empty.
pub(crate) fn time(what: &'static str, text: &str) -> Result<Option<u64>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let read = duration::parse(what, text.trim());
    read.map(|time| Some(time.as_ns())).map_err(|wrong| Problems::from(wrong.anywhere(None)).to_string())
}

/// Reads a whole number; `None`: the field is empty.
pub(crate) fn number(what: &str, text: &str, most: u32) -> Result<Option<u32>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let number = text.trim().parse().ok().filter(|number| (1..=most).contains(number));
    number.map(Some).ok_or_else(|| format!("the {what} is out of range; use 1 to {most}"))
}

fn stepped_time(text: &str, step: Step, first: Nanos, range: RangeInclusive<u64>) -> String {
    match time("time", text) {
        Ok(None) => first.to_string(),
        Ok(Some(ns)) => Nanos::ns(next(ns, step).clamp(*range.start(), *range.end())).to_string(),
        Err(_) => text.to_string(),
    }
}

fn stepped_number(text: &str, step: Step, range: RangeInclusive<u64>) -> String {
    if text.is_empty() {
        return FIRST_SHARE.to_string();
    }
    text.parse().map_or(text.to_string(), |number| next(number, step).clamp(*range.start(), *range.end()).to_string())
}

/// Returns the next step above or below `value`.
fn next(value: u64, step: Step) -> u64 {
    // Eleven decades have all steps up to 100 s.
    let steps = (0..11).flat_map(|decade| STEPS.map(|tenths| tenths * 10_u64.pow(decade) / 10));
    match step {
        Step::Up => steps.into_iter().find(|it| *it > value).unwrap_or(value),
        Step::Down => steps.take_while(|it| *it < value).last().unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_to_the_next_value_of_a_logarithmic_scale() {
        let up = |field: Field, text: &str| field.stepped(text, Step::Up);
        let down = |field: Field, text: &str| field.stepped(text, Step::Down);
        for (field, below, above) in [
            (Field::Slice, "2ms", "2.5ms"),
            (Field::Slice, "8ms", "10ms"),
            (Field::Period, "100us", "120us"),
            (Field::Weight, "100", "120"),
            (Field::Weight, "1", "2"),
            (Field::Cap, "80", "100"),
            (Field::Cpus, "1", "2"),
        ] {
            assert_eq!((up(field, below).as_str(), down(field, above).as_str()), (above, below), "{field:?}");
        }
        // Values between two steps, and the ends of the scale.
        assert_eq!((up(Field::Slice, "2.1ms"), down(Field::Slice, "2.1ms")), ("2.5ms".into(), "2ms".into()));
        assert_eq!((down(Field::Slice, "10us"), down(Field::Period, "100us")), ("10us".into(), "100us".into()));
        assert_eq!((down(Field::Cpus, "1"), up(Field::Cpus, "256")), ("1".into(), "256".into()));
        assert_eq!((up(Field::Weight, "10000"), down(Field::Weight, "1")), ("10000".into(), "1".into()));
        // An empty field, a field that cannot be read, and the words.
        assert_eq!(
            (up(Field::Slice, ""), up(Field::Period, ""), up(Field::Cap, "")),
            ("1ms".into(), "10ms".into(), "100".into())
        );
        assert_eq!(up(Field::Slice, "2m s"), "2m s");
        assert_eq!((up(Field::Gang, "no"), down(Field::Limit, "hard")), ("yes".into(), "soft".into()));
    }

    #[test]
    fn typed_values_have_units_and_ranges() {
        assert_eq!(time("slice", "1.5 ms"), Ok(Some(1_500_000)));
        assert_eq!((time("slice", " "), number("cap", "", 10)), (Ok(None), Ok(None)));
        assert!(time("slice", "5").unwrap_err().contains("use a unit with it"));
        assert_eq!(number("cap", "11", 10), Err("the cap is out of range; use 1 to 10".to_string()));
    }
}
