//! Constant and random durations in a scenario: reads them, and computes their minima, means and parts.

use input::form::{mistyped, single, time};
use input::problem::{Wrong, quoted, right_instead};
use sched::time::SPAN_MAX;
use sched::{Nanos, Refused};
use sim::program::Length;
use toml::de::DeValue;

/// Format of a duration that may be random, for help texts.
const LENGTH: &str =
    "\"2ms\", { uniform = [\"1ms\", \"3ms\"] }, { exponential = \"2ms\" } or { at-least = [\"1ms\", \"2ms\"] }";

/// Reads a duration, constant or random.
pub fn length(key: &'static str, value: &DeValue<'_>) -> Result<Length, Wrong> {
    let wrong = || Wrong::new(format!("`{key}` is not one length of time"), "not one length", format!("use {LENGTH}"));
    let table = match value {
        DeValue::Table(table) => table,
        DeValue::String(_) | DeValue::Integer(_) => return time(key, value).map(Length::Fixed),
        _ => return Err(mistyped(key, value, LENGTH)),
    };
    let (name, drawn) = single(table).ok_or_else(wrong)?;
    match (name.value, drawn.value) {
        (kind @ ("uniform" | "at-least"), DeValue::Array(bounds)) => {
            let [least, other] = &bounds[..] else { return Err(wrong().part(drawn.at)) };
            let bound = |bound: &toml::Spanned<DeValue<'_>>| {
                time(key, bound.get_ref()).map_err(|wrong| wrong.part(bound.span().into()))
            };
            let (least, other) = (bound(least)?, bound(other)?);
            let (is_uniform, what) = (kind == "uniform", if kind == "uniform" { "longest" } else { "mean" });
            if least > other {
                let message = format!("the shortest {key} ({least}) is longer than the {what} ({other})");
                let help = format!("use the shorter one first: [\"{other}\", \"{least}\"]");
                return Err(Wrong::new(message, "in descending order", help).part(drawn.at));
            }
            if is_uniform {
                return Ok(Length::Uniform { least, most: other });
            }
            check_mean(key, other).map_err(|wrong| wrong.part(drawn.at))?;
            Ok(Length::AtLeast { least, mean: other })
        }
        ("exponential", DeValue::String(_) | DeValue::Integer(_)) => {
            let mean = time(key, drawn.value).map_err(|wrong| wrong.part(drawn.at))?;
            check_mean(key, mean).map_err(|wrong| wrong.part(drawn.at))?;
            Ok(Length::Exponential { mean })
        }
        ("uniform" | "exponential" | "at-least", _) => Err(wrong().part(drawn.at)),
        (unknown, _) => {
            let message = format!("there is no length {}", quoted(unknown));
            Err(Wrong::new(message, "unknown length", right_instead(unknown, &["uniform", "exponential", "at-least"]))
                .part(name.at))
        }
    }
}

/// Reads a duration that is not always zero.
pub fn length_above_zero(key: &'static str, value: &DeValue<'_>) -> Result<Length, Wrong> {
    let length = length(key, value)?;
    let (Length::Fixed(most)
    | Length::Uniform { most, .. }
    | Length::Exponential { mean: most }
    | Length::AtLeast { mean: most, .. }) = length;
    if most.is_zero() {
        return Err(Wrong::new(format!("the {key} is zero"), "zero", "use a length of time from 1 ns up"));
    }
    Ok(length)
}

/// Checks that the maximum random value, 32 times the mean, is in range.
fn check_mean(key: &'static str, mean: Nanos) -> Result<(), Wrong> {
    let most = Nanos::ns(SPAN_MAX.as_ns() / 32);
    if mean > most { Err(Wrong::from(&Refused::TooLong { what: key, most })) } else { Ok(()) }
}

/// Returns the minimum of `length`.
#[must_use]
pub fn least(length: Length) -> Nanos {
    match length {
        Length::Fixed(time) => time,
        Length::Uniform { least, .. } | Length::AtLeast { least, .. } => least,
        Length::Exponential { .. } => Nanos::ZERO,
    }
}

/// Returns `length` if it is constant.
pub(crate) fn fixed(length: Length) -> Option<Nanos> {
    if let Length::Fixed(time) = length { Some(time) } else { None }
}

/// Returns the mean of `length`.
#[must_use]
pub fn mean(length: Length) -> Nanos {
    match length {
        Length::Fixed(time) | Length::Exponential { mean: time } | Length::AtLeast { mean: time, .. } => time,
        Length::Uniform { least, most } => Nanos::ns(least.as_ns() + (most.as_ns() - least.as_ns()) / 2),
    }
}

/// Returns whether `length` is always zero.
#[must_use]
pub fn is_nothing(length: Length) -> bool {
    match length {
        Length::Fixed(time)
        | Length::Uniform { most: time, .. }
        | Length::Exponential { mean: time }
        | Length::AtLeast { mean: time, .. } => time.is_zero(),
    }
}

/// Divides `length` into `parts` parts. The durations of the parts differ by at most a nanosecond, and their sum is
/// `length`. For a random length, the same holds for the bounds and the mean.
pub(crate) fn parts(length: Length, parts: u32) -> impl Iterator<Item = Length> {
    let part = move |time: Nanos, number: u32| {
        let (whole, rest) = (time.as_ns() / u64::from(parts), time.as_ns() % u64::from(parts));
        Nanos::ns(whole + u64::from(u64::from(number) < rest))
    };
    (0..parts).map(move |number| match length {
        Length::Fixed(time) => Length::Fixed(part(time, number)),
        Length::Uniform { least, most } => {
            let least = part(least, number);
            Length::Uniform { least, most: part(most, number).max(least) }
        }
        Length::Exponential { mean } => Length::Exponential { mean: part(mean, number) },
        Length::AtLeast { least, mean } => {
            let least = part(least, number);
            Length::AtLeast { least, mean: part(mean, number).max(least) }
        }
    })
}

/// Returns a zero delay.
pub(crate) fn at_once() -> Length {
    Length::Fixed(Nanos::ZERO)
}
