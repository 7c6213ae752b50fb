//! Formats of single values: the accepted values, and the errors for all other values.

use crate::duration;
use crate::problem::{Wrong, nearest, quoted};
use crate::source::Placed;
use sched::Nanos;
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};

/// Maximum bandwidth: a terabyte per second. Unit: bytes per second.
const BANDWIDTH_MAX: u64 = 1_000_000_000_000;

/// Returns the type of `value` with an article, for the sentence "`slice` is …".
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the error of a value whose type `key` does not accept.
pub fn mistyped(key: &str, value: &DeValue<'_>, right: impl std::fmt::Display) -> Wrong {
    Wrong::new(format!("`{key}` is {}", kind(value)), kind(value), format!("use {right}"))
}

/// Reads the string `value` of `key`. `right` describes the accepted strings.
pub fn text<'a>(key: &str, value: &'a DeValue<'_>, right: &str) -> Result<&'a str, Wrong> {
    value.as_str().ok_or_else(|| mistyped(key, value, right))
}

/// Reads a whole number, of any radix, that fits into a signed 64-bit integer.
pub fn integer(key: &str, value: &DeValue<'_>, right: impl std::fmt::Display) -> Result<i64, Wrong> {
    let DeValue::Integer(digits) = value else { return Err(mistyped(key, value, right)) };
    i64::from_str_radix(digits.as_str(), digits.radix()).map_err(|_| out_of_range(key, right))
}

/// Returns the error of a value of `key` that is out of range. `right` describes the range.
pub fn out_of_range(key: &str, right: impl std::fmt::Display) -> Wrong {
    Wrong::new(format!("`{key}` is out of range"), "out of range", format!("use {right}"))
}

/// Reads a whole number in `range`. `note` is appended to the description of the range.
pub fn integer_in<T>(key: &str, value: &DeValue<'_>, range: RangeInclusive<T>, note: &str) -> Result<T, Wrong>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    let right = format!("a whole number from {} to {}{note}", range.start(), range.end());
    let number = integer(key, value, &right)?;
    T::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| out_of_range(key, right))
}

/// Reads one of the words in `words`.
pub fn word<T: Copy>(key: &str, value: &DeValue<'_>, words: &[(&str, T)], right: &str) -> Result<T, Wrong> {
    let typed = text(key, value, right)?;
    match words.iter().find(|&&(name, _)| name == typed) {
        Some(&(_, meaning)) => Ok(meaning),
        None => {
            let help = match nearest(typed, words.iter().map(|&(name, _)| name)) {
                Some(near) => format!("did you mean \"{near}\"? use {right}"),
                None => format!("use {right}"),
            };
            Err(Wrong::new(format!("there is no {key} {}", quoted(typed)), format!("unknown {key}"), help))
        }
    }
}

/// Reads the name of a policy, or of an object that is defined elsewhere.
pub fn reference(key: &str, value: &DeValue<'_>) -> Result<String, Wrong> {
    text(key, value, "a name in quotes").map(str::to_string)
}

/// Reads a duration.
pub fn time(key: &'static str, value: &DeValue<'_>) -> Result<Nanos, Wrong> {
    match value {
        DeValue::String(text) => duration::parse(key, text),
        DeValue::Integer(number) => Err(Wrong::new(
            format!("the {key} has no unit"),
            "a bare number",
            format!("use a unit with it, in quotes, such as \"{number}ms\""),
        )),
        _ => Err(mistyped(key, value, duration::FORM)),
    }
}

/// Reads a duration above zero.
pub fn time_above_zero(key: &'static str, value: &DeValue<'_>) -> Result<Nanos, Wrong> {
    let time = time(key, value)?;
    if time.is_zero() {
        return Err(Wrong::new(format!("the {key} is zero"), "zero", "use a length of time from 1 ns up"));
    }
    Ok(time)
}

/// Reads `true` or `false`.
pub fn switch(key: &str, value: &DeValue<'_>) -> Result<bool, Wrong> {
    match value {
        DeValue::Boolean(on) => Ok(*on),
        _ => Err(mistyped(key, value, "true or false, without quotes")),
    }
}

/// Reads a count in `range`.
pub fn count(key: &'static str, value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    integer_in(key, value, range, "")
}

/// Returns the only entry of a table. `None`: the table has no entry or several entries.
pub fn single<'a, 'i>(table: &'a DeTable<'i>) -> Option<(Placed<&'a str>, Placed<&'a DeValue<'i>>)> {
    let mut entries = table.iter();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else { return None };
    let name = Placed { value: name.get_ref().as_ref(), at: name.span().into() };
    Some((name, Placed { value: value.get_ref(), at: value.span().into() }))
}

/// Returns the thousandths of a number with at most three decimals. `None`: `text` is not a number in this format.
pub fn milli(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 3 || text.ends_with('.') {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let parts: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(parts)
}

/// Reads a number with at most three decimals, in thousandths.
pub fn thousandths(key: &'static str, value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let shown = |milli: u64| format!("{}.{:03}", milli / 1000, milli % 1000);
    let tidy = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_string();
    let (least, most) = (tidy(shown(*range.start())), tidy(shown(*range.end())));
    let right = format!("a number from {least} to {most}, with at most three decimals");
    let text = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return Err(mistyped(key, value, right)),
    };
    milli(text)
        .filter(|milli| range.contains(milli))
        .ok_or_else(|| Wrong::new(format!("`{key}` is out of range"), "out of range", format!("use {right}")))
}

/// Reads a list of names of VMs.
pub fn vms(key: &'static str, value: &DeValue<'_>) -> Result<Vec<String>, Wrong> {
    let right = format!("a list of VMs, such as {key} = [\"vm2\", \"vm3\"]");
    let DeValue::Array(values) = value else { return Err(mistyped(key, value, right)) };
    if values.is_empty() {
        return Err(Wrong::new(format!("`{key}` names no VM"), "none", format!("use {right}")));
    }
    let name = |value: &toml::Spanned<DeValue<'_>>| {
        reference(key, value.get_ref()).map_err(|wrong| wrong.part(value.span().into()))
    };
    values.iter().map(name).collect()
}

/// Reads the bandwidth of a line in bytes per second: `"1Gbit"`, `"12.5MB"`.
pub fn bandwidth(key: &str, value: &DeValue<'_>) -> Result<u64, Wrong> {
    const RIGHT: &str =
        "a number and a unit per second, in quotes, such as \"1Gbit\" or \"50MB\"; units: kbit, Mbit, Gbit, kB, MB, GB";
    let Some(typed) = value.as_str() else { return Err(mistyped(key, value, RIGHT)) };
    let wrong =
        |reason: &str| Wrong::new(format!("{} {reason}", quoted(typed)), "not a bandwidth", format!("use {RIGHT}"));
    let end = typed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(typed.len());
    let (number, unit) = (milli(&typed[..end]), typed[end..].trim());
    // The number is in thousandths, so the scale is a thousandth of the unit's factor (thousand, million or billion).
    // Bits are divided by 8, which gives bytes.
    let (scale, bits) = match unit {
        "kbit" => (1, 8),
        "Mbit" => (1_000, 8),
        "Gbit" => (1_000_000, 8),
        "kB" => (1, 1),
        "MB" => (1_000, 1),
        "GB" => (1_000_000, 1),
        _ => return Err(wrong("is not a bandwidth")),
    };
    let bytes = number.and_then(|milli| milli.checked_mul(scale)).ok_or_else(|| wrong("is not a bandwidth"))? / bits;
    match bytes {
        0 => Err(wrong("lets nothing pass")),
        bytes if bytes > BANDWIDTH_MAX => Err(wrong("is more than any line carries")),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::milli;

    #[test]
    fn thousandths_are_exact_and_nothing_else_is_taken_for_them() {
        for (text, right) in [("0", 0), ("24", 24_000), ("29.411", 29_411), ("1.5", 1_500), ("0.001", 1)] {
            assert_eq!(milli(text), Some(right), "{text}");
        }
        for text in ["", ".", "1.", ".5", "-1", "1.2345", "1e3", "nan", "+1", "99999999999999999999", "1_0"] {
            assert_eq!(milli(text), None, "{text}");
        }
    }
}
