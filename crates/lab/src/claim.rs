//! [`Claim`]: a statement of a paper, expressed as checks of measured numbers.

use crate::evidence::Given;
use crate::experiment::Point;
use crate::rival::Rival;
use indexmap::IndexMap;

/// A claim of a paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Id of the claim in the list of claims: `C1`.
    pub id: String,
    /// The claim, in our words.
    pub claim: String,
    /// Explanation of the result, with the evidence of the experiments. A claim must have an explanation unless all its
    /// checks hold.
    pub why: Option<String>,
    /// Checks of the claim.
    pub check: Vec<Check>,
}

/// A condition on the measurements.
#[derive(Clone, Debug)]
pub struct Check {
    /// Subject of the check. If a variable of `each` occurs in braces, it is replaced by its value.
    pub what: String,
    /// Expression that computes one number from the measurements with one seed.
    pub measure: String,
    /// Values that the expression uses as variables, such as thresholds.
    pub with: IndexMap<String, Given>,
    /// Accepted deviation from the printed value.
    pub within: Option<Bound<Within>>,
    /// Lower bound of the number, exclusive.
    pub above: Option<Bound<f64>>,
    /// Upper bound of the number, exclusive.
    pub below: Option<Bound<f64>>,
    /// Variants of the check, at least one.
    pub each: Vec<Variant>,
    /// Number of variants that may be outside the accepted range.
    pub may_miss: Option<Bound<usize>>,
    /// Name of the parameter that was set with this check. Such an anchor is displayed, but is no evidence for the
    /// claim.
    pub anchor: Option<String>,
    /// Unit of the number.
    pub unit: String,
    /// Whether the number is a ratio, so that its distance to a bound is a difference of logarithms.
    pub is_ratio: bool,
    /// A world in which the claim is false. `None`: an anchor.
    pub rival: Option<Rival>,
}

/// A variant of a check.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// Values of the expression's variables.
    pub variables: Point,
    /// Value that the paper prints.
    pub paper: Option<f64>,
}

/// A bound with its evidence.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound<T> {
    /// The bound.
    pub value: T,
    /// The bound as the file contains it, with its evidence.
    pub given: Given,
}

/// Accepted deviation of a number.
#[derive(Clone, Copy, PartialEq, Debug)]
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
    pub(crate) fn is_about(self, printed: f64) -> bool {
        match self {
            Within::Percent(_) | Within::Factor(_) => printed != 0.0,
            Within::Gain(_) => printed > 0.0 && (printed - 1.0).abs() > f64::EPSILON,
        }
    }

    /// Returns the least and the greatest accepted number if the paper prints `printed`.
    fn around(self, printed: f64) -> (f64, f64) {
        let (one, other) = match self {
            Within::Percent(percent) => (printed * (1.0 - percent / 100.0), printed * (1.0 + percent / 100.0)),
            Within::Factor(factor) => (printed / factor, printed * factor),
            Within::Gain(percent) => {
                let power = |share: f64| libm::pow(printed, share);
                (power(1.0 - percent / 100.0), power(1.0 + percent / 100.0))
            }
        };
        (one.min(other), one.max(other))
    }
}

impl TryFrom<&str> for Within {
    type Error = String;

    fn try_from(text: &str) -> Result<Within, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let percent = |text: &str| number(text.trim().strip_suffix('%')?);
        let parsed = if let Some(factor) = text.strip_prefix("factor ") {
            number(factor).filter(|factor| *factor > 1.0).map(Within::Factor)
        } else if let Some(gain) = text.strip_prefix("gain ") {
            percent(gain).map(Within::Gain)
        } else {
            percent(text).map(Within::Percent)
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
    /// Whether distances in the range are differences of logarithms.
    pub is_ratio: bool,
}

impl Accepted {
    /// Returns whether `number` lies in the range.
    #[must_use]
    pub fn holds(&self, number: f64) -> bool {
        self.low <= number && number <= self.high && self.above < number && number < self.below
    }

    /// Returns the greatest lower bound. −∞: none.
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.low.max(self.above)
    }

    /// Returns the least upper bound. ∞: none.
    #[must_use]
    pub fn ceiling(&self) -> f64 {
        self.high.min(self.below)
    }

    /// Returns whether all numbers from `low` to `high` are outside the range, on the same side.
    #[must_use]
    pub fn rejects(&self, low: f64, high: f64) -> bool {
        let is_below = high < self.low || high <= self.above;
        let is_above = low > self.high || low >= self.below;
        is_below || is_above
    }
}

impl Check {
    /// Returns the accepted range of the check's number. `paper` is the value that the paper prints, if any.
    #[must_use]
    pub fn accepted(&self, paper: Option<f64>) -> Accepted {
        let within = self.within.as_ref().map(|within| within.value);
        let around = paper.zip(within).map(|(paper, within)| within.around(paper));
        let (low, high) = around.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let above = self.above.as_ref().map_or(f64::NEG_INFINITY, |bound| bound.value);
        let below = self.below.as_ref().map_or(f64::INFINITY, |bound| bound.value);
        let is_ratio = self.is_ratio || matches!(within, Some(Within::Factor(_) | Within::Gain(_)));
        Accepted { low, high, above, below, is_ratio }
    }

    /// Returns every bound and every value of the expression, by name: `within`, `above`, `below`, `may_miss`, then the
    /// values.
    pub fn given(&self) -> impl Iterator<Item = (&str, &Given)> {
        let within = self.within.as_ref().map(|it| ("within", &it.given));
        let above = self.above.as_ref().map(|it| ("above", &it.given));
        let below = self.below.as_ref().map(|it| ("below", &it.given));
        let may_miss = self.may_miss.as_ref().map(|it| ("may_miss", &it.given));
        let with = self.with.iter().map(|(name, given)| (name.as_str(), given));
        within.into_iter().chain(above).chain(below).chain(may_miss).chain(with)
    }
}
