//! [`Margin`]: the distance of a measured interval to the nearest bound of a check.

use crate::claim::Accepted;
use serde::Serialize;

/// The distance of the nearer end of an interval to the bound: positive inside the accepted range, negative outside.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Margin {
    /// Fraction of the bound.
    Fraction(f64),
    /// Difference of the natural logarithms, for ratios.
    Logarithm(f64),
    /// Difference, for a bound of 0.
    Difference(f64),
}

impl Margin {
    /// Returns the distance of the interval from `low` to `high` to the nearest bound of `accepted`. If the whole
    /// interval is outside, the distance is that of the end nearer to the range. `None`: there is no bound.
    #[must_use]
    pub fn of(accepted: &Accepted, low: f64, high: f64) -> Option<Margin> {
        let (floor, ceiling) = (accepted.floor(), accepted.ceiling());
        let distance = |number: f64, bound: f64, sign: f64| {
            if accepted.is_ratio && number > 0.0 && bound > 0.0 {
                Margin::Logarithm(sign * (libm::log(number) - libm::log(bound)))
            } else if bound == 0.0 {
                Margin::Difference(sign * (number - bound))
            } else {
                Margin::Fraction(sign * (number - bound) / bound.abs())
            }
        };
        // Outside, the nearer end decides: it shows how far the whole interval is from the range.
        let (above, below) = if accepted.rejects(low, high) { (high, low) } else { (low, high) };
        let above = floor.is_finite().then(|| distance(above, floor, 1.0));
        let below = ceiling.is_finite().then(|| distance(below, ceiling, -1.0));
        above.into_iter().chain(below).min_by(|one, other| one.size().total_cmp(&other.size()))
    }

    /// Returns the distance without its unit.
    #[must_use]
    pub fn size(self) -> f64 {
        match self {
            Margin::Fraction(size) | Margin::Logarithm(size) | Margin::Difference(size) => size,
        }
    }
}
