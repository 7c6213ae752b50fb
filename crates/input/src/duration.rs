//! Durations as users write them: `20ms`, `1.5 s`, `1h 30min`.

use crate::problem::{Problems, Wrong, quoted};
use jiff::fmt::friendly::SpanParser;
use sched::time::SPAN_MAX;
use sched::{Nanos, Refused};

/// Format of a duration, for help texts.
pub const FORM: &str = "a number and a unit in quotes, such as \"20ms\", \"1.5s\" or \"10min\" (ns, us, ms, s, min, h)";

/// Parses the length of a run: `20ms`, `1.5s`, `10min`.
///
/// # Errors
/// `text` is not a duration in whole nanoseconds, is zero or negative, or is longer than [`SPAN_MAX`].
pub fn length(text: &str) -> Result<Nanos, Problems> {
    let length = moment(text)?;
    if length.is_zero() {
        let wrong = Wrong::new("the run has no length", "zero", format!("use {FORM}"));
        return Err(wrong.anywhere(None).into());
    }
    Ok(length)
}

/// Parses a time since the start of a run.
///
/// # Errors
/// `text` is not a duration in whole nanoseconds, is negative, or is longer than [`SPAN_MAX`].
pub fn moment(text: &str) -> Result<Nanos, Problems> {
    parse("time", text).map_err(|wrong| wrong.anywhere(None).into())
}

/// Parses a duration. Errors refer to the duration as `what`.
pub fn parse(what: &'static str, text: &str) -> Result<Nanos, Wrong> {
    let Ok(span) = SpanParser::new().parse_duration(text) else {
        if has_too_many_digits(text) {
            return Err((&Refused::TooLong { what, most: SPAN_MAX }).into());
        }
        let help = match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => format!("use a unit with it, such as \"{}ms\"", text.trim()),
            _ => format!("use {FORM}"),
        };
        return Err(Wrong::new(format!("{} is not a length of time", quoted(text)), "not a length of time", help));
    };
    if span.is_negative() {
        let help = "use a length of time from 0s up";
        return Err(Wrong::new(format!("the {what} is negative"), "negative", help));
    }
    if is_finer_than_a_nanosecond(text) {
        let message = format!("the {what} is not a whole number of nanoseconds");
        let help = format!("use {}", nanos(span.as_nanos()).unwrap_or(SPAN_MAX));
        return Err(Wrong::new(message, "finer than a nanosecond", help));
    }
    nanos(span.as_nanos()).ok_or_else(|| (&Refused::TooLong { what, most: SPAN_MAX }).into())
}

/// Returns whether `text` begins with a number of at least 19 digits and a unit. Such a number may exceed the range of
/// the parser.
fn has_too_many_digits(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits >= 19 && text[digits..].trim_start().starts_with(|c: char| c.is_alphabetic())
}

fn nanos(count: i128) -> Option<Nanos> {
    u64::try_from(count).ok().map(Nanos::ns).filter(|&time| time <= SPAN_MAX)
}

/// Returns whether the fraction in `text`, which is a duration, has digits that the parser would drop silently.
fn is_finer_than_a_nanosecond(text: &str) -> bool {
    let Some((_, fraction)) =
        text.split_once(['.', ',']).filter(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return false;
    };
    let unit = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = fraction[..fraction.len() - unit.len()].trim_end_matches('0').len();
    let unit = unit.trim_start();
    // Nine digits, the maximum that the parser reads, are exact in units of a second and longer.
    let exact = match () {
        () if unit.starts_with("ms") || unit.starts_with("mil") => 6,
        () if unit.starts_with(['u', 'µ', 'μ']) || unit.starts_with("mic") => 3,
        () => 9,
    };
    digits > exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_times_in_many_ways() {
        let ns = |text| parse("slice", text).unwrap().as_ns();
        for (text, right) in [
            ("20ms", 20_000_000),
            ("1.5 s", 1_500_000_000),
            ("10min", 600_000_000_000),
            ("100us", 100_000),
            ("100µs", 100_000),
            ("0s", 0),
            ("2.000001ms", 2_000_001),
            ("2.5000000ms", 2_500_000),
            ("2.125 micros", 2_125),
            ("1h 30m", 5_400_000_000_000),
            ("24h", 86_400_000_000_000),
            ("0.000000001h", 3_600),
        ] {
            assert_eq!(ns(text), right, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_or_no_sensible_one_is_refused() {
        for text in [
            "",
            "20",
            "ms",
            "1e3s",
            "-5ms",
            "5ms ago",
            "1d",
            "1 month",
            "PT5M",
            "20ns20ms",
            "1ms!",
            "2.0000001ms",
            "2.0001us",
            "0.5ns",
            "1.0000000001s",
            "320449h",
            "9223372036854775807h",
            "99999999999999999999s",
        ] {
            assert!(parse("slice", text).is_err(), "{text}");
        }
        assert_eq!(parse("slice", "1152921504.606846976s"), Ok(SPAN_MAX));
    }
}
