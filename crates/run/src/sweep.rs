//! [`Sweep`]: every combination of the values of several axes, as in experiments and `tactus sim --vary`.

use indexmap::IndexMap;
use input::problem::{Wrong, quoted};
use input::range::{RANGE_FORM, Range};
use serde::Deserialize;

/// A value of an axis: a number, a string or a Boolean.
pub type Value = serde_json::Value;

/// One combination: a map from axis to value, in the order of the axes.
pub type Point = IndexMap<String, Value>;

/// Maximum number of points of a sweep.
pub const POINTS_MAX: usize = 10_000;

/// The axes of a sweep with their values, in order.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Sweep {
    /// Values of each axis.
    pub axes: IndexMap<String, Vec<Value>>,
}

impl Sweep {
    /// Adds an axis in the format `AXIS=VALUE,VALUE,…`, such as `policy=credit,poris`. A value may be a range, as in
    /// `vm.batch.count=1..8` and `vm.web.slice=1ms,5ms..20ms/5ms`.
    ///
    /// # Errors
    /// `text` has no `=`, no axis, an empty value or an invalid range. The sweep already has this axis, or would exceed
    /// [`POINTS_MAX`] points.
    pub fn vary(&mut self, text: &str) -> Result<(), Wrong> {
        const FORM: &str = "write AXIS=VALUE,VALUE,... such as policy=credit,poris or vm.NAME.count=1..8";
        let wrong = |what: &str| Wrong::new(format!("{} {what}", quoted(text)), "not an axis", FORM);
        let (axis, values) = text.split_once('=').ok_or_else(|| wrong("is no axis with values"))?;
        let axis = axis.trim();
        if axis.is_empty() {
            return Err(wrong("names no axis"));
        }
        if self.axes.contains_key(axis) {
            return Err(Wrong::new(
                format!("the axis {} is given twice", quoted(axis)),
                "again",
                "give each axis once",
            ));
        }
        let mut all = Vec::new();
        for value in listed(values) {
            match Range::parse(value) {
                Some(range) => all.extend(range?.values().map(|value| typed(&value))),
                None if value.is_empty() => return Err(wrong("has an empty value")),
                None => all.push(typed(value)),
            }
        }
        self.axes.insert(axis.to_string(), all);
        let points = self.axes.values().try_fold(1_usize, |points, values| points.checked_mul(values.len()));
        if points.is_none_or(|points| points > POINTS_MAX) {
            let message = format!("the axes have more than {POINTS_MAX} points together");
            return Err(Wrong::new(message, "too many", format!("give fewer values; a range is {RANGE_FORM}")));
        }
        Ok(())
    }

    /// Returns every point: first all combinations of the axes added to the first of `bases`, then those added to the
    /// next base. The value of the last axis changes fastest. Without axes, returns the bases. Without bases, returns
    /// the combinations alone.
    #[must_use]
    pub fn points(&self, bases: &[Point]) -> Vec<Point> {
        let mut points = if bases.is_empty() { vec![Point::new()] } else { bases.to_vec() };
        for (axis, values) in &self.axes {
            let with = |point: &Point| {
                let point = point.clone();
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(axis.clone(), value.clone());
                    point
                })
            };
            points = points.iter().flat_map(with).collect();
        }
        points
    }
}

/// Splits a list into its values. Commas outside brackets, braces and quotes separate the values.
fn listed(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted, mut start) = (0_usize, false, 0);
    let mut values = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !is_quoted => {
                values.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    values.push(text[start..].trim());
    values
}

/// Parses `text` as a number, a Boolean or a quoted string. Any other text becomes a string unchanged.
fn typed(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::String(_))) => value,
        _ => Value::from(text),
    }
}

/// Returns a value as text, without the quotes of a string.
#[must_use]
pub fn value_shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Returns a point as readable text: `policy=bvt, weight=2`.
#[must_use]
pub fn point_shown(point: &Point) -> String {
    let all: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={}", value_shown(value))).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(axes: &[&str]) -> Sweep {
        let mut sweep = Sweep::default();
        axes.iter().for_each(|axis| sweep.vary(axis).expect("the axis is right"));
        sweep
    }

    #[test]
    fn every_value_of_an_axis_meets_every_value_of_the_others() {
        let points = sweep(&["vm.a.count=1..3/2", "policy=credit,poris"]).points(&[]);
        let shown: Vec<String> = points.iter().map(point_shown).collect();
        assert_eq!(
            shown,
            [
                "vm.a.count=1, policy=credit",
                "vm.a.count=1, policy=poris",
                "vm.a.count=3, policy=credit",
                "vm.a.count=3, policy=poris"
            ]
        );
        let base = Point::from_iter([("seed".to_string(), Value::from(7))]);
        assert_eq!(Sweep::default().points(std::slice::from_ref(&base)), [base]);
    }

    #[test]
    fn values_are_numbers_switches_lists_or_texts() {
        let values = sweep(&["x=1,2.5,true,3ms..4ms,credit,[1,2],\"a,b\""]).axes["x"].clone();
        let texts = ["3ms", "4ms", "credit", "[1,2]", "a,b"].map(Value::from);
        assert_eq!(values[..3], [Value::from(1), Value::from(2.5), Value::from(true)]);
        assert_eq!(values[3..], texts);
    }

    #[test]
    fn what_is_no_axis_is_refused() {
        for axis in ["policy", "=1", "x=", "x=1,,2", "x=4..1", "x=0..10000"] {
            assert!(Sweep::default().vary(axis).is_err(), "{axis}");
        }
        let mut twice = sweep(&["x=1"]);
        assert!(twice.vary("x=2").is_err());
        let mut many = sweep(&["x=1..100", "y=1..100"]);
        assert!(many.vary("z=1,2").is_err());
    }
}
