//! [`Object`]: an object whose properties are read by name. Unreadable properties are reported, and reading continues.

use super::json::{Entries, Json};
use input::problem::{Findings, Problem, Wrong, quoted};
use input::source::{Placed, Span};
use sched::Nanos;
use sched::time::SPAN_MAX;
use std::collections::BTreeMap;

/// An object of a file.
#[derive(Debug)]
pub(super) struct Object<'f, 'a> {
    pub(super) entries: &'f Entries<'a>,
    pub(super) at: Span,
}

impl<'f, 'a> Object<'f, 'a> {
    /// Creates an object from the `value` of `key`. `None`: the value is not an object.
    pub(super) fn of(key: &str, value: &'f Placed<Json<'a>>, findings: &mut Findings) -> Option<Object<'f, 'a>> {
        match &value.value {
            Json::Object(entries) => Some(Object { entries, at: value.at }),
            other => {
                findings.add(mistyped(key, other, "an object, { … }").at(value.at));
                None
            }
        }
    }

    /// Reports repeated keys for which `is_property` returns true.
    pub(super) fn once(&self, is_property: impl Fn(&str) -> bool, findings: &mut Findings) {
        let mut met: BTreeMap<&str, Span> = BTreeMap::new();
        for (key, _) in self.entries.iter().filter(|(key, _)| is_property(&key.value)) {
            let first = *met.entry(&key.value).or_insert(key.at);
            if first != key.at {
                let problem = Problem::new(format!("{} was given before", quoted(&key.value)));
                let problem = problem.at(key.at, "again").at(first, "first here");
                findings.add(problem.help("give it once; only events may be repeated"));
            }
        }
    }

    /// Returns the value of the first `key`.
    pub(super) fn get(&self, key: &str) -> Option<&'f Placed<Json<'a>>> {
        self.entries.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }

    /// Reads the value of `key` with `form`. `None`: the key is absent, or its value is wrong.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        form: impl FnOnce(&'static str, &'f Json<'a>) -> Result<T, Wrong>,
        findings: &mut Findings,
    ) -> Option<Placed<T>> {
        let value = self.get(key)?;
        match form(key, &value.value) {
            Ok(read) => Some(Placed { value: read, at: value.at }),
            Err(wrong) => {
                findings.add(wrong.at(value.at));
                None
            }
        }
    }
}

/// Returns the error for a value of a type that `key` does not accept.
pub(super) fn mistyped(key: &str, value: &Json<'_>, right: &str) -> Wrong {
    let message = match value {
        Json::Absent => format!("{} has no value", quoted(key)),
        _ => format!("{} is {}", quoted(key), value.kind()),
    };
    Wrong::new(message, value.kind(), format!("use {right}"))
}

/// Reads a whole number from `least` to `most`.
pub(super) fn integer(key: &str, value: &Json<'_>, (least, most): (i64, i64), right: &str) -> Result<i64, Wrong> {
    let Json::Number(digits) = value else { return Err(mistyped(key, value, right)) };
    if digits.contains(['.', 'e', 'E']) {
        return Err(mistyped(key, value, right));
    }
    let number = digits.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Wrong::new(format!("{} is out of range", quoted(key)), "out of range", format!("use {right}")))
}

/// Reads a time in microseconds.
pub(super) fn micros(key: &str, value: &Json<'_>) -> Result<Nanos, Wrong> {
    let most = i64::try_from(SPAN_MAX.as_ns() / 1000).unwrap_or(i64::MAX);
    let number = integer(key, value, (0, most), "a whole number of microseconds, from 0 up to 36 years")?;
    Ok(Nanos::us(number.unsigned_abs()))
}

/// Reads a number of repetitions. `None`: the number is −1, which means without end.
pub(super) fn rounds(key: &'static str, value: &Json<'_>) -> Result<Option<u64>, Wrong> {
    let number = integer(key, value, (-1, i64::MAX), "a whole number from 0 up, or -1: without end")?;
    Ok(u64::try_from(number).ok())
}

/// Reads a string.
pub(super) fn text<'f>(key: &str, value: &'f Json<'_>, right: &str) -> Result<&'f str, Wrong> {
    match value {
        Json::Text(text) => Ok(text),
        other => Err(mistyped(key, other, right)),
    }
}

/// Reads `true` or `false`.
pub(super) fn switch(key: &'static str, value: &Json<'_>) -> Result<bool, Wrong> {
    match value {
        Json::Switch(on) => Ok(*on),
        other => Err(mistyped(key, other, "true or false, without quotes")),
    }
}
