//! The language of experiments: templates of scenarios, expressions over the report of a run, and expressions over the
//! measurements of many runs.

use crate::results::{Results, Row};
use crate::rival::World;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns an environment for templates and expressions, with functions for statistics. An undefined name is an error.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("ln", |number: f64| libm::log(number));
    environment.add_filter("log10", |number: f64| libm::log10(number));
    environment.add_filter("exp", |number: f64| libm::exp(number));
    environment.add_filter("sqrt", |number: f64| libm::sqrt(number));
    environment.add_filter("mean", |list: Vec<f64>| mean(&list));
    environment.add_filter("deviation", |list: Vec<f64>| deviation(&list));
    environment.add_filter("median", |list: Vec<f64>| quantile(list, 0.5));
    environment.add_filter("quantile", |list: Vec<f64>, q: f64| quantile(list, q));
    environment.add_filter("share_above", |list: Vec<f64>, bound: f64| share(&list, |number| number > bound));
    environment.add_filter("share_below", |list: Vec<f64>, bound: f64| share(&list, |number| number < bound));
    environment.add_filter("relative_to", |list: Vec<f64>, reference: f64| relative(&list, reference));
    environment.add_filter("means_of", |list: Vec<f64>, count: usize| means(&list, count));
    environment.add_filter("rises", |list: Vec<f64>| steps(&list, |from, to| to > from));
    environment.add_filter("falls", |list: Vec<f64>| steps(&list, |from, to| to < from));
    environment.add_filter("greatest_step", |list: Vec<f64>| {
        list.windows(2).map(|two| two[1] - two[0]).fold(f64::NEG_INFINITY, f64::max)
    });
    environment.add_filter("least_step", |list: Vec<f64>| {
        list.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min)
    });
    environment.add_function("draw", draw);
    environment.add_function("slope", |x: Vec<f64>, y: Vec<f64>| line(&x, &y).map(|(slope, _)| slope));
    environment.add_function("straightness", |x: Vec<f64>, y: Vec<f64>| line(&x, &y).map(|(_, squared)| squared));
    environment
}

/// Returns a random number from `low` (inclusive) to `high` (exclusive), determined by `seed` and the name `what`.
/// Equal arguments give equal numbers; different seeds or names give independent numbers.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a number has")]
fn draw(seed: u64, what: &str, low: f64, high: f64) -> f64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(what.as_bytes());
    let mut bits = [0; 8];
    hasher.finalize_xof().fill(&mut bits);
    low + (high - low) * ((u64::from_le_bytes(bits) >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Checks the syntax of `expression`. Names are checked only when the expression is evaluated.
pub(crate) fn compiles(expression: &str) -> Result<(), Error> {
    Environment::new().compile_expression(expression).map(drop)
}

/// Returns the names of the variables that `template` and `expressions` read. A text with invalid syntax has none; its
/// error is reported when it is evaluated.
pub(crate) fn variables<'e>(template: &str, expressions: impl Iterator<Item = &'e String>) -> BTreeSet<String> {
    let environment = environment();
    let mut found: BTreeSet<String> = BTreeSet::new();
    if let Ok(template) = environment.template_from_str(template) {
        found.extend(template.undeclared_variables(false));
    }
    for expression in expressions {
        if let Ok(expression) = environment.compile_expression(expression) {
            found.extend(expression.undeclared_variables(false));
        }
    }
    found
}

fn none_of(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("there is no {what} of an empty list"))
}

#[expect(clippy::cast_precision_loss, reason = "lists are short")]
fn mean(list: &[f64]) -> Result<f64, Error> {
    if list.is_empty() { Err(none_of("mean")) } else { Ok(list.iter().sum::<f64>() / list.len() as f64) }
}

/// Returns the sample standard deviation of `list`.
#[expect(clippy::cast_precision_loss, reason = "lists are short")]
fn deviation(list: &[f64]) -> Result<f64, Error> {
    let mean = mean(list)?;
    let squares: f64 = list.iter().map(|number| (number - mean) * (number - mean)).sum();
    Ok(libm::sqrt(squares / (list.len().max(2) - 1) as f64))
}

/// Returns the quantile of `list` for the given fraction, interpolated between two values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lists are short"
)]
pub(crate) fn quantile(mut list: Vec<f64>, q: f64) -> Result<f64, Error> {
    if list.is_empty() || !(0.0..=1.0).contains(&q) {
        return Err(none_of("such quantile"));
    }
    list.sort_by(f64::total_cmp);
    let place = q * (list.len() - 1) as f64;
    let (below, above) = (list[place as usize], list[libm::ceil(place) as usize]);
    Ok(below + (above - below) * (place - libm::floor(place)))
}

#[expect(clippy::cast_precision_loss, reason = "lists are short")]
fn share(list: &[f64], of: impl Fn(f64) -> bool) -> Result<f64, Error> {
    if list.is_empty() {
        return Err(none_of("share"));
    }
    Ok(list.iter().filter(|number| of(**number)).count() as f64 / list.len() as f64)
}

/// Returns the difference of each value of `list` from `reference`, as a fraction of `reference`. The fractions are
/// rounded to millionths.
fn relative(list: &[f64], reference: f64) -> Result<Vec<f64>, Error> {
    if reference.abs() < f64::MIN_POSITIVE {
        return Err(Error::new(ErrorKind::InvalidOperation, "no number is relative to 0"));
    }
    Ok(list.iter().map(|number| ((number - reference) / reference * 1e6).round() / 1e6).collect())
}

/// Returns the mean of each group of `count` consecutive values. An incomplete last group is omitted.
fn means(list: &[f64], count: usize) -> Result<Vec<f64>, Error> {
    if count == 0 {
        return Err(none_of("mean"));
    }
    list.chunks_exact(count).map(mean).collect()
}

/// Returns the fraction of pairs of consecutive values that satisfy `of`.
fn steps(list: &[f64], of: impl Fn(f64, f64) -> bool) -> Result<f64, Error> {
    let kinds: Vec<f64> = list.windows(2).map(|two| f64::from(u8::from(of(two[0], two[1])))).collect();
    mean(&kinds)
}

/// Returns the slope of the least-squares line, and R².
fn line(x: &[f64], y: &[f64]) -> Result<(f64, f64), Error> {
    if x.len() != y.len() || x.len() < 2 {
        return Err(none_of("line"));
    }
    let (middle, height) = (mean(x)?, mean(y)?);
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| of(x - middle, y - height)).sum::<f64>();
    let (both, along, up) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    if along == 0.0 {
        return Err(none_of("line through one place, so"));
    }
    Ok((both / along, if up == 0.0 { 1.0 } else { both * both / (along * up) }))
}

/// Returns an environment whose expressions can query the measurements with seed number `seed`, counted from 0:
/// `at("table-1", policy="bvt").requests`, `all("fig-2", policy="bvt") | map(attribute="requests")`.
pub(crate) fn over(results: &Arc<Results>, seed: usize, world: &World) -> Environment<'static> {
    let mut environment = environment();
    let asked = Asked { results: Arc::clone(results), seed, world: world.clone() };
    let one = asked.clone();
    environment.add_function("at", move |experiment: &str, kwargs: Kwargs| one.one(experiment, &kwargs));
    environment.add_function("all", move |experiment: &str, kwargs: Kwargs| asked.all(experiment, &kwargs));
    environment
}

#[derive(Clone)]
struct Asked {
    results: Arc<Results>,
    seed: usize,
    world: World,
}

impl Asked {
    fn one(&self, experiment: &str, kwargs: &Kwargs) -> Result<Value, Error> {
        let mut rows = self.rows(experiment, kwargs)?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (_, more) => {
                let asked: Vec<String> = kwargs.args().map(str::to_string).collect();
                let count = if more == 0 { 0 } else { more + 1 };
                let why =
                    format!("{count} points of `{experiment}` match {}; at() needs exactly one", asked.join(", "));
                Err(Error::new(ErrorKind::InvalidOperation, why))
            }
        }
    }

    fn all(&self, experiment: &str, kwargs: &Kwargs) -> Result<Value, Error> {
        let rows = self.rows(experiment, kwargs)?;
        if rows.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("no point of `{experiment}` matches")));
        }
        Ok(Value::from(rows))
    }

    /// Returns the axes and metrics of every point of `experiment` whose axes have the values in `kwargs`.
    fn rows(&self, experiment: &str, kwargs: &Kwargs) -> Result<Vec<Value>, Error> {
        let unknown = || Error::new(ErrorKind::InvalidOperation, format!("there are no results of `{experiment}`"));
        let rows = self.results.experiments.get(experiment).ok_or_else(unknown)?;
        let mut wanted = Vec::new();
        for axis in kwargs.args() {
            if rows.first().is_some_and(|row| !row.point.contains_key(axis)) {
                return Err(Error::new(ErrorKind::InvalidOperation, format!("`{experiment}` has no axis `{axis}`")));
            }
            wanted.push((axis, kwargs.get::<Value>(axis)?));
        }
        let is_wanted = |row: &Row| {
            wanted.iter().all(|(axis, value)| {
                let own = row.point.get(*axis).map(|own| Value::from(Serde(own)));
                own.is_some_and(|own| own == *value)
            })
        };
        let wanted = (0..rows.len()).filter(|&nth| is_wanted(&rows[nth]));
        wanted.map(|nth| self.answer(experiment, rows, nth)).collect()
    }

    fn answer(&self, experiment: &str, rows: &[Row], nth: usize) -> Result<Value, Error> {
        let answer = self.world.answer(experiment, rows, nth, self.seed);
        let mut all = answer.map_err(|why| Error::new(ErrorKind::InvalidOperation, why))?;
        all.extend(rows[nth].point.clone());
        Ok(Value::from(Serde(&all)))
    }
}

/// Converts `value` to a number. A Boolean becomes 0 or 1.
pub(crate) fn number(value: &Value) -> Option<f64> {
    f64::try_from(value.clone()).ok().or_else(|| bool::try_from(value.clone()).ok().map(|it| f64::from(u8::from(it))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(expression: &str) -> f64 {
        let environment = environment();
        let value = environment.compile_expression(expression).and_then(|it| it.eval(()));
        number(&value.expect(expression)).expect("it is a number")
    }

    #[test]
    fn statistics_are_those_of_the_textbook() {
        for (expression, right) in [
            ("[4, 1, 3, 2] | median", 2.5),
            ("[4, 1, 3] | median", 3.0),
            ("[10, 20, 30, 40, 50] | quantile(0.9)", 46.0),
            ("[2, 4, 4, 4, 5, 5, 7, 9] | mean", 5.0),
            ("[2, 4, 4, 4, 5, 5, 7, 9] | deviation", libm::sqrt(32.0 / 7.0)),
            ("[1, 2, 3, 4] | share_above(3)", 0.25),
            ("[1, 2, 3, 4] | share_below(3)", 0.5),
            ("[1, 2, 2, 5] | rises", 2.0 / 3.0),
            ("[5, 2, 2, 1] | falls", 2.0 / 3.0),
            ("[5, 2, 4] | greatest_step", 2.0),
            ("[5, 2, 4] | least_step", -3.0),
            ("[11, 8] | relative_to(10) | min", -0.2),
            ("[1, 3, 5, 7, 9] | means_of(2) | max", 6.0),
            ("[1, 3, 5, 7, 9] | means_of(2) | length", 2.0),
            ("slope([1, 2, 3], [2, 4, 6])", 2.0),
            ("straightness([1, 2, 3], [2, 4, 6])", 1.0),
            ("straightness([1, 2, 3], [1, 3, 1])", 0.0),
            ("8 | ln / (2 | ln)", 3.0),
            ("1 < 2", 1.0),
        ] {
            assert!((of(expression) - right).abs() < 1e-12, "{expression}: {}", of(expression));
        }
    }

    #[test]
    fn draws_are_spread_evenly_and_the_same_for_the_same() {
        assert!((of("draw(1, 'a', 2, 5) - draw(1, 'a', 2, 5)")).abs() < f64::EPSILON);
        assert!((of("draw(1, 'a', 0, 1) - draw(2, 'a', 0, 1)")).abs() > 1e-6);
        assert!((of("draw(1, 'a', 0, 1) - draw(1, 'b', 0, 1)")).abs() > 1e-6);
        let drawn: Vec<f64> = (0..1000).map(|nth| draw(nth, "period", 16.0, 1016.0)).collect();
        assert!(drawn.iter().all(|it| (16.0..1016.0).contains(it)));
        assert!((mean(&drawn).expect("there are some") - 516.0).abs() < 30.0);
    }

    #[test]
    fn what_is_not_defined_is_no_number() {
        let environment = environment();
        for expression in [
            "nothing + 1",
            "[] | mean",
            "[] | median",
            "[1] | relative_to(0)",
            "[1] | means_of(0)",
            "slope([1], [1])",
            "slope([1, 1], [1, 2])",
        ] {
            let value = environment.compile_expression(expression).and_then(|it| it.eval(()));
            assert!(value.is_err(), "{expression}");
        }
    }
}
