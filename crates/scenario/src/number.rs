//! Numbers with a fraction, kept as whole thousandths: no rounding that differs from machine to machine.

use super::form::mistyped;
use input::problem::{Wrong, quoted, right_instead};
use std::ops::RangeInclusive;
use toml::de::DeValue;
use workloads::{LoadPlayback, PROGRAMS, Program};

/// Thousandths of a number written with at most three decimals; nothing of anything else.
pub(super) fn milli(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 3 || text.ends_with('.') {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let parts: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(parts)
}

/// A whole number or one with at most three decimals, in thousandths.
pub(super) fn thousandths(key: &'static str, value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
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

/// A list of loads, in thousandths.
pub(super) fn loads(value: &DeValue<'_>) -> Result<Vec<u64>, Wrong> {
    const RIGHT: &str = "a list of loads, such as [0.5, 1.5], or the name of a file with one in each line";
    let DeValue::Array(values) = value else { return Err(mistyped("loads", value, RIGHT)) };
    if values.is_empty() {
        return Err(Wrong::new("there is no load in `loads`", "none", format!("use {RIGHT}")));
    }
    let load = |value: &toml::Spanned<DeValue<'_>>| {
        thousandths("loads", value.get_ref(), 0..=LoadPlayback::LOAD_MILLI_MAX)
            .map_err(|wrong| wrong.part(value.span().into()))
    };
    values.iter().map(load).collect()
}

/// A program of the PARSEC suite.
pub(super) fn parsec_program(value: &DeValue<'_>) -> Result<Program, Wrong> {
    let Some(typed) = value.as_str() else {
        return Err(mistyped("program", value, "the name of a program of the PARSEC suite, in quotes"));
    };
    PROGRAMS.iter().find(|program| program.name == typed).copied().ok_or_else(|| {
        let names = PROGRAMS.map(|program| program.name);
        let message = format!("PARSEC has no program {}", quoted(typed));
        Wrong::new(message, "unknown program", right_instead(typed, &names))
    })
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
