//! Lengths of time in a scenario, always the same or random.

use input::form::{mistyped, single, time};
use input::problem::{Wrong, quoted, right_instead};
use sched::time::SPAN_MAX;
use sched::{Nanos, Refused};
use sim::program::Length;
use toml::de::DeValue;

/// What a length of time looks like that may be random.
const LENGTH: &str =
    "\"2ms\", { uniform = [\"1ms\", \"3ms\"] }, { exponential = \"2ms\" } or { at-least = [\"1ms\", \"2ms\"] }";

/// A length of time, always the same or random.
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
                return Err(Wrong::new(message, "the wrong way round", help).part(drawn.at));
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

/// A length of time that is not always zero.
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

/// Up to 32 times as long as the mean is drawn.
fn check_mean(key: &'static str, mean: Nanos) -> Result<(), Wrong> {
    let most = Nanos::ns(SPAN_MAX.as_ns() / 32);
    if mean > most { Err(Wrong::from(&Refused::TooLong { what: key, most })) } else { Ok(()) }
}
