//! [`Spreads`]: medians over several runs, by name, and their display format.

use crate::short::{percent, short};
use measure::statistics::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// Median over the runs of each number of a [`Got`](crate::Got) or [`DomainGot`](crate::DomainGot), by the name of its
/// field.
pub(crate) type Spreads = BTreeMap<String, Spread>;

/// Returns the numbers in `got`, by the names of their fields.
pub(crate) fn numbers<G: Serialize>(got: &G) -> impl Iterator<Item = (String, u64)> + use<G> {
    let serde_json::Value::Object(numbers) = serde_json::to_value(got).expect("numbers can be written") else {
        unreachable!("what an entity got is an object")
    };
    numbers.into_iter().map(|(name, number)| (name, number.as_u64().expect("all of it are whole numbers")))
}

pub(crate) fn spreads<'g, G: Serialize + 'g>(of: impl Iterator<Item = &'g G>) -> Spreads {
    let mut values: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (name, number) in of.flat_map(numbers) {
        values.entry(name).or_default().push(number);
    }
    values.into_iter().map(|(name, values)| (name, Spread::of(&values))).collect()
}

/// Display format of a column's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Percent,
    Time,
    Count,
    Thousandths,
}

pub(crate) fn cell(spread: Spread, form: Form) -> String {
    let shown = |number: u64| match form {
        Form::Percent => percent(number),
        Form::Time => short(number),
        Form::Count => number.to_string(),
        Form::Thousandths => format!("{}.{:03}", number / 1000, number % 1000),
    };
    let [median, low, high] = [spread.median, spread.low, spread.high].map(shown);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}
