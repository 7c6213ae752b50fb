//! [`judge`]: the verdict of each claim, from the measurements.

use crate::claim::{Accepted, Check, Claim};
use crate::compute;
use crate::experiment::{Point, shown};
use crate::paper::Paper;
use crate::problem::Problem;
use crate::results::Results;
use crate::world::World;
use measure::statistics;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;
use std::sync::Arc;

/// Verdict of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All checks of the claim hold.
    Reproduced,
    /// Some checks of the claim hold.
    Partly,
    /// No check of the claim holds.
    Not,
}

/// The verdict on a claim, with the results of its checks.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict<'p> {
    /// Id of the claim.
    pub id: &'p str,
    /// The claim.
    pub claim: &'p str,
    /// Status of the claim.
    pub status: Status,
    /// Explanation of the result; see [`Claim::why`].
    pub why: Option<&'p str>,
    /// Checks of the claim, in order. A check with `each` has an entry for every variant.
    pub checks: Vec<Judged>,
}

/// A check with its measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Subject of the check.
    pub what: String,
    /// Unit of the number.
    pub unit: String,
    /// Value that the paper prints.
    pub paper: Option<f64>,
    /// Accepted range of the number.
    #[serde(skip)]
    pub accepted: Accepted,
    /// Median over the seeds.
    pub median: f64,
    /// Low end of the interval.
    pub low: f64,
    /// High end of the interval.
    pub high: f64,
    /// Whether the whole interval is within the accepted range.
    pub holds: bool,
    /// Whether a free parameter was set with the check, so that the check is no evidence.
    pub anchor: bool,
    /// Whether this is one of several variants of which some may miss.
    pub may_miss: bool,
    /// Whether the check misses in its wrong world, as it must; `None`: the check has no wrong world.
    pub rejects_wrong: Option<bool>,
    /// Whether the wrong world is idle: it replaces none of the requested points, so it equals the measured world.
    #[serde(skip)]
    pub wrong_is_idle: bool,
    /// Number of seeds.
    pub seeds: usize,
}

impl Status {
    /// Returns the status as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Reproduced => "reproduced",
            Status::Partly => "partly",
            Status::Not => "not",
        }
    }
}

/// Evaluates the claims of `paper` that `asked` selects, using `results`.
///
/// # Errors
/// The evaluation of an expression fails, or a point that the wrong world needs does not exist.
pub fn judge<'p>(
    paper: &'p Paper,
    results: &Results,
    asked: impl Fn(&str) -> bool,
) -> Result<Vec<Verdict<'p>>, Problem> {
    let results = Arc::new(results.clone());
    paper.claims.iter().filter(|claim| asked(&claim.id)).map(|claim| verdict(paper, claim, &results)).collect()
}

fn verdict<'p>(paper: &'p Paper, claim: &'p Claim, results: &Arc<Results>) -> Result<Verdict<'p>, Problem> {
    let mut checks = Vec::new();
    let (mut held, mut of) = (0, 0);
    for check in &claim.check {
        let each = if check.each.is_empty() { vec![Point::new()] } else { check.each.clone() };
        let judged: Result<Vec<Judged>, Problem> =
            each.iter().map(|variables| judged(paper, claim, check, variables, results)).collect();
        let mut judged = judged?;
        if !check.anchor {
            let missed = judged.iter().filter(|it| !it.holds).count();
            let (rejects, is_idle) = rejection(&judged, check.may_miss);
            for it in &mut judged {
                it.rejects_wrong = it.rejects_wrong.map(|_| rejects);
                it.wrong_is_idle = is_idle;
            }
            of += judged.len();
            held += if missed <= check.may_miss { judged.len() } else { judged.len() - missed };
        }
        checks.extend(judged);
    }
    let status = if held == of {
        Status::Reproduced
    } else if held > 0 {
        Status::Partly
    } else {
        Status::Not
    };
    Ok(Verdict { id: &claim.id, claim: &claim.claim, status, why: claim.why.as_deref(), checks })
}

/// Returns whether a check with the variants `judged` rejects its wrong world, and whether the wrong world is idle for
/// all variants. All variants form one check. The check rejects the wrong world if more than `may_miss` variants miss
/// there. At least one of these variants must hold in the measured world, unless all variants miss in the measured
/// world.
fn rejection(judged: &[Judged], may_miss: usize) -> (bool, bool) {
    let rejecting = || judged.iter().filter(|it| it.rejects_wrong == Some(true));
    let is_idle = judged.iter().all(|it| it.rejects_wrong.is_some() && it.wrong_is_idle);
    let tells = judged.iter().all(|it| !it.holds) || rejecting().any(|it| it.holds);
    (!is_idle && tells && rejecting().count() > may_miss, is_idle)
}

fn judged(
    paper: &Paper,
    claim: &Claim,
    check: &Check,
    variables: &Point,
    results: &Arc<Results>,
) -> Result<Judged, Problem> {
    let unjudged = |why: String, what: &str| {
        let what = format!("claim {}, \"{}\" ({}){what}: {why}", claim.id, check.what, shown(variables));
        Problem::wrong(
            &paper.directory.join("claims.toml"),
            what,
            "an expression over at() and all() (docs/experiments.md)",
        )
    };
    let printed = variables.get("paper").and_then(serde_json::Value::as_f64).or(check.paper);
    let accepted = check.accepted(printed);
    let seeds = seeds_of(check, results).map_err(|why| unjudged(why, ""))?;
    let of = |world: &World| measured(check, variables, results, seeds, world);
    let numbers = of(&World::default()).map_err(|why| unjudged(why, ""))?;
    let (median, low, high) = interval(&numbers);
    let (mut rejects_wrong, mut wrong_is_idle) = (None, false);
    if let Some(wrong) = &check.wrong {
        let world = World::of(wrong);
        let numbers = of(&world).map_err(|why| unjudged(why, ", in its wrong world"))?;
        let (_, low, high) = interval(&numbers);
        rejects_wrong = Some(!(accepted.holds(low) && accepted.holds(high)));
        wrong_is_idle = world.is_idle();
    }
    let what = variables.iter().fold(check.what.clone(), |what, (name, value)| {
        what.replace(&format!("{{{name}}}"), &value.as_str().map_or_else(|| value.to_string(), str::to_string))
    });
    Ok(Judged {
        what,
        unit: check.unit.clone(),
        paper: printed,
        accepted,
        median,
        low,
        high,
        holds: accepted.holds(low) && accepted.holds(high),
        anchor: check.anchor,
        may_miss: check.may_miss > 0,
        rejects_wrong,
        wrong_is_idle,
        seeds,
    })
}

/// Returns the number of seeds with which all experiments in the expression of `check` were run.
fn seeds_of(check: &Check, results: &Results) -> Result<usize, String> {
    let named = results.experiments.iter().filter(|(name, _)| {
        check.measure.contains(&format!("\"{name}\"")) || check.measure.contains(&format!("'{name}'"))
    });
    let seeds = named.flat_map(|(_, rows)| rows).map(|row| row.seeds.len()).min();
    seeds.ok_or_else(|| "it names no experiment with results".to_string())
}

/// Returns the number that the check measures with each seed.
fn measured(
    check: &Check,
    variables: &Point,
    results: &Arc<Results>,
    seeds: usize,
    world: &World,
) -> Result<Vec<f64>, String> {
    let of = |seed| {
        let environment = compute::over(results, seed, world);
        let value =
            environment.compile_expression(&check.measure).and_then(|it| it.eval(Value::from(Serde(variables))));
        let value = value.map_err(|why| format!("{why}"))?;
        // A number that is not finite is no evidence: infinity, for example, is above every lower bound.
        let number = compute::number(&value).filter(|number| number.is_finite());
        number.ok_or_else(|| format!("it makes {value}, and no number, with seed {}", seed + 1))
    };
    (0..seeds).map(of).collect()
}

/// Returns the median of `numbers`, and the interval that contains the median of all seeds with a confidence of at
/// least 95 %. With fewer than six numbers, the interval is from the minimum to the maximum; with five numbers, the
/// confidence is 93.75 %.
pub(crate) fn interval(numbers: &[f64]) -> (f64, f64, f64) {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f64::total_cmp);
    let (count, skipped) = (numbers.len(), statistics::skipped(numbers.len()));
    (f64::midpoint(numbers[(count - 1) / 2], numbers[count / 2]), numbers[skipped], numbers[count - 1 - skipped])
}
