//! [`Claim`]: a statement of a paper, expressed as checks of measured numbers.

use crate::compute;
use crate::experiment::Point;
use crate::problem::Problem;
use crate::world::Wrong;
use serde::Deserialize;
use std::path::Path;

/// A claim of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Id of the claim in the list of claims: `C1`.
    pub id: String,
    /// The claim, in our words.
    pub claim: String,
    /// Explanation of the result, with the evidence of the experiments. A claim must have an explanation unless it is
    /// fully reproduced.
    #[serde(default)]
    pub why: Option<String>,
    /// Checks of the claim.
    pub check: Vec<Check>,
}

/// A condition on the measurements.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Subject of the check. If a variable of `each` occurs in braces, it is replaced by its value.
    pub what: String,
    /// Expression that computes one number from the measurements with one seed.
    pub measure: String,
    /// Value that the paper prints.
    #[serde(default)]
    pub paper: Option<f64>,
    /// Accepted deviation from the printed value: `30%`, `factor 2`, or `gain 50%` for a ratio whose logarithm may
    /// deviate by this percentage.
    #[serde(default)]
    pub within: Option<Within>,
    /// Lower bound of the number, exclusive.
    #[serde(default)]
    pub above: Option<f64>,
    /// Upper bound of the number, exclusive.
    #[serde(default)]
    pub below: Option<f64>,
    /// Variants of the check. A variant has the values of the expression's variables, and the printed value as `paper`.
    #[serde(default)]
    pub each: Vec<Point>,
    /// Number of variants that may be outside the accepted range.
    #[serde(default)]
    pub may_miss: usize,
    /// Whether a free parameter was set with this check. Such an anchor is displayed, but is no evidence for the claim.
    #[serde(default)]
    pub anchor: bool,
    /// Unit of the number.
    #[serde(default)]
    pub unit: String,
    /// A world in which the claim is false: the results of some points replace the results of other points.
    #[serde(default)]
    pub wrong: Option<Wrong>,
}

/// Accepted deviation of a number.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub enum Within {
    /// Percentage of the printed number.
    Percent(f64),
    /// Factor above or below the printed number.
    Factor(f64),
    /// Percentage of the logarithm of a printed ratio.
    Gain(f64),
}

impl Within {
    /// Returns whether this deviation is defined for the printed number `printed`.
    fn is_about(self, printed: f64) -> bool {
        match self {
            Within::Percent(_) | Within::Factor(_) => printed != 0.0,
            Within::Gain(_) => printed > 0.0 && (printed - 1.0).abs() > f64::EPSILON,
        }
    }
}

impl TryFrom<String> for Within {
    type Error = String;

    fn try_from(text: String) -> Result<Within, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let percent = |text: &str| number(text.trim().strip_suffix('%')?);
        let parsed = if let Some(factor) = text.strip_prefix("factor ") {
            number(factor).filter(|factor| *factor > 1.0).map(Within::Factor)
        } else if let Some(gain) = text.strip_prefix("gain ") {
            percent(gain).map(Within::Gain)
        } else {
            percent(&text).map(Within::Percent)
        };
        parsed.ok_or_else(|| format!("`{text}` is no tolerance: use \"30%\", \"factor 2\" or \"gain 50%\""))
    }
}

/// Accepted range of a number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Accepted {
    /// Minimum, inclusive.
    pub low: f64,
    /// Maximum, inclusive.
    pub high: f64,
    /// Lower bound, exclusive.
    pub above: f64,
    /// Upper bound, exclusive.
    pub below: f64,
}

impl Accepted {
    /// Returns whether `number` lies in the range.
    #[must_use]
    pub fn holds(&self, number: f64) -> bool {
        self.low <= number && number <= self.high && self.above < number && number < self.below
    }
}

impl Check {
    /// Returns the accepted range of the check's number. `paper` is the value that the paper prints, if any.
    #[must_use]
    pub fn accepted(&self, paper: Option<f64>) -> Accepted {
        let around = paper.zip(self.within).map(|(paper, within)| {
            let (one, other) = match within {
                Within::Percent(percent) => (paper * (1.0 - percent / 100.0), paper * (1.0 + percent / 100.0)),
                Within::Factor(factor) => (paper / factor, paper * factor),
                Within::Gain(percent) => {
                    let power = |share: f64| libm::pow(paper, share);
                    (power(1.0 - percent / 100.0), power(1.0 + percent / 100.0))
                }
            };
            (one.min(other), one.max(other))
        });
        let (low, high) = around.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let above = self.above.unwrap_or(f64::NEG_INFINITY);
        Accepted { low, high, above, below: self.below.unwrap_or(f64::INFINITY) }
    }
}

/// Checks that the claims are valid.
pub(crate) fn check(path: &Path, claims: &[Claim]) -> Result<(), Problem> {
    for (nth, claim) in claims.iter().enumerate() {
        let wrong = |what: &str, right: &str| Err(Problem::wrong(path, format!("claim {}: {what}", claim.id), right));
        if claims[..nth].iter().any(|other| other.id == claim.id) {
            return wrong("it occurs twice", "an id of its own");
        }
        if claim.check.iter().all(|check| check.anchor) {
            return wrong("no check tests it", "at least one check that is no anchor");
        }
        for check in &claim.check {
            let about = |what: &str| format!("\"{}\" {what}", check.what);
            let paper = check.paper.is_some()
                || check.each.iter().all(|each| each.contains_key("paper")) && !check.each.is_empty();
            if check.within.is_some() && !paper {
                return wrong(&about("has a tolerance and no number of the paper"), "`paper = …`, for each");
            }
            let printed =
                check.each.iter().filter_map(|each| each.get("paper")).map(|it| it.as_f64().unwrap_or(f64::NAN));
            let fits = |printed: f64| check.within.is_none_or(|within| within.is_about(printed));
            if let Some(printed) = printed.chain(check.paper).find(|printed| printed.is_nan() || !fits(*printed)) {
                let what = format!("cannot be compared with {printed} as the paper's number");
                let right = "a number that is not 0; for a gain above 0, and not 1";
                return wrong(&about(&what), right);
            }
            if let Err(why) = compute::compiles(&check.measure) {
                return wrong(&about(&format!("measures nothing: {why}")), "an expression over at() and all()");
            }
            if check.within.is_none() && check.above.is_none() && check.below.is_none() && !check.anchor {
                return wrong(&about("accepts everything"), "`within`, `above` or `below`");
            }
            if check.wrong.is_none() && !check.anchor {
                return wrong(&about("has no wrong world"), "`wrong = { of = { … }, is = { … } }`");
            }
            if check.may_miss > 0 && check.may_miss >= check.each.len() {
                return wrong(&about("may miss all"), "`may_miss` below the number in `each`");
            }
        }
    }
    Ok(())
}
