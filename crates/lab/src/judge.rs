//! [`judge`]: the verdict of each claim, from the measurements.

use crate::claim::{Accepted, Check, Claim, Variant};
use crate::claims_file::filled;
use crate::compute;
use crate::experiment::{Point, shown};
use crate::limits::{Limits, limits};
use crate::margin::Margin;
use crate::paper::Paper;
use crate::problem::Problem;
use crate::results::Results;
use crate::rival::{Read, Rival, World};
use crate::status::Status;
use measure::statistics;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The verdict on a claim, with the results of its checks.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict<'p> {
    /// Id of the claim.
    pub id: &'p str,
    /// The claim.
    pub claim: &'p str,
    /// Status of the claim.
    pub status: Status,
    /// Status by the checks alone, without the limits of the evidence.
    #[serde(skip)]
    pub of_checks: Status,
    /// Explanation of the result; see [`Claim::why`].
    pub why: Option<&'p str>,
    /// What was set from anchors, and what limits the evidence.
    pub limits: Limits,
    /// Checks of the claim, in order. A check with `each` has an entry for every variant.
    pub checks: Vec<Judged>,
}

/// A variant of a check with its measurement.
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
    /// Distance of the interval to the nearest bound. `None`: an anchor without a bound.
    pub margin: Option<Margin>,
    /// Name of the parameter that was set with the check, so that the check is no evidence.
    pub anchor: Option<String>,
    /// Whether this is one of several variants of which some may miss.
    pub may_miss: bool,
    /// The same check in the world of its rival. `None`: an anchor.
    pub rival: Option<Rivalled>,
    /// Number of seeds.
    pub seeds: usize,
    /// Experiments whose points the expression read.
    #[serde(skip)]
    pub experiments: BTreeSet<String>,
}

/// The result of a check in the world of its rival.
#[derive(Clone, Debug, Serialize)]
pub struct Rivalled {
    /// Name of the rival.
    pub name: String,
    /// Low end of the interval.
    pub low: f64,
    /// High end of the interval.
    pub high: f64,
    /// Whether the whole interval is outside the accepted range.
    pub is_outside: bool,
    /// Distance of the interval from the range: negative if the whole interval is outside.
    pub margin: Option<Margin>,
    /// Whether the check rejects the rival: the intervals of enough variants are outside.
    pub is_rejected: bool,
    /// Defect of the rival: it changes nothing, or it compares a point with itself.
    pub defect: Option<&'static str>,
}

/// Part of the variants that must reject the rival, in percent.
const REJECTING_PERCENT: usize = 80;

/// Counts the verdicts by status: `12 predicted, 3 calibrated, 2 partly, 1 not`.
#[must_use]
pub fn counts<'v, 'p: 'v>(verdicts: impl Iterator<Item = &'v Verdict<'p>> + Clone) -> String {
    let count = |status: Status| verdicts.clone().filter(|verdict| verdict.status == status).count();
    Status::ALL.map(|status| format!("{} {}", count(status), status.word())).join(", ")
}

impl Judged {
    /// Returns whether the check is evidence for the claim: it holds, and it rejects its rival.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.holds && self.rival.as_ref().is_some_and(|rival| rival.is_rejected)
    }
}

/// Evaluates the claims of `paper` that `asked` selects, using `results`.
///
/// # Errors
/// The evaluation of an expression fails, or a point that a rival needs does not exist.
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
        let judged: Result<Vec<Judged>, Problem> =
            check.each.iter().map(|variant| judged(paper, claim, check, variant, results)).collect();
        let mut judged = judged?;
        if check.anchor.is_none() {
            let rejects = rejects(&judged);
            judged.iter_mut().filter_map(|it| it.rival.as_mut()).for_each(|rival| rival.is_rejected = rejects);
            let count = judged.iter().filter(|it| it.is_evidence()).count();
            let may_miss = check.may_miss.as_ref().map_or(0, |most| most.value);
            of += judged.len();
            held += if rejects && judged.len() - count <= may_miss { judged.len() } else { count };
        }
        checks.extend(judged);
    }
    let judged = checks.iter().filter(|check| check.anchor.is_none());
    let limits = limits(paper, claim, &judged.flat_map(|check| &check.experiments).collect());
    let of_checks = match held {
        0 => Status::Not,
        _ if held < of => Status::Partly,
        _ if !limits.anchored.is_empty() => Status::Calibrated,
        _ => Status::Predicted,
    };
    let is_limited = !limits.reasons.is_empty() && of_checks != Status::Not;
    let status = if is_limited { Status::Partly } else { of_checks };
    Ok(Verdict { id: &claim.id, claim: &claim.claim, status, of_checks, why: claim.why.as_deref(), limits, checks })
}

/// Returns whether a check with these variants rejects its rival: the rival has no defect, and its intervals are
/// outside the accepted range in at least 80 % of the variants.
fn rejects(judged: &[Judged]) -> bool {
    let rivals = || judged.iter().filter_map(|it| it.rival.as_ref());
    let outside = rivals().filter(|rival| rival.is_outside).count();
    rivals().all(|rival| rival.defect.is_none()) && 100 * outside >= REJECTING_PERCENT * judged.len()
}

fn judged(
    paper: &Paper,
    claim: &Claim,
    check: &Check,
    variant: &Variant,
    results: &Arc<Results>,
) -> Result<Judged, Problem> {
    let accepted = check.accepted(variant.paper);
    let measured = measured(check, variant, results, None);
    let measured = measured.map_err(|why| unjudged(paper, claim, check, variant, None, why))?;
    let (median, low, high) = interval(&measured.numbers);
    let rival = |rival: &Rival| {
        let of_rival = self::measured(check, variant, results, Some(rival));
        let of_rival = of_rival.map_err(|why| unjudged(paper, claim, check, variant, Some(rival), why))?;
        Ok(rivalled(rival, &accepted, &of_rival))
    };
    let rival = check.rival.as_ref().map(rival).transpose()?;
    Ok(Judged {
        what: filled(&check.what, &variant.variables),
        unit: check.unit.clone(),
        paper: variant.paper,
        accepted,
        median,
        low,
        high,
        holds: accepted.holds(low) && accepted.holds(high),
        margin: Margin::of(&accepted, low, high),
        anchor: check.anchor.clone(),
        may_miss: check.may_miss.is_some(),
        rival,
        seeds: measured.numbers.len(),
        experiments: measured.read.points().map(|(name, _)| name.to_string()).collect(),
    })
}

/// Returns the problem that a check cannot be evaluated for the reason `why`.
fn unjudged(
    paper: &Paper,
    claim: &Claim,
    check: &Check,
    variant: &Variant,
    rival: Option<&Rival>,
    why: String,
) -> Problem {
    let rival = rival.map_or(String::new(), |rival| format!(", rival {}", rival.name));
    let what = format!("claim {}, \"{}\" ({}){rival}: {why}", claim.id, check.what, shown(&variant.variables));
    let right = "an expression over at() and all() (docs/experiments.md)";
    Problem::wrong(&paper.directory.join("claims.toml"), what, right)
}

fn rivalled(rival: &Rival, accepted: &Accepted, measured: &Measured) -> Rivalled {
    let (_, low, high) = interval(&measured.numbers);
    let defect = if measured.read.is_idle() {
        Some("it changes no point of the check")
    } else if measured.read.compares_a_point_with_itself() {
        Some("it compares a point with itself")
    } else {
        None
    };
    let is_outside = accepted.rejects(low, high);
    let margin = Margin::of(accepted, low, high);
    Rivalled { name: rival.name.clone(), low, high, is_outside, margin, is_rejected: false, defect }
}

/// The numbers of a check in one world.
struct Measured {
    /// The number with each seed.
    numbers: Vec<f64>,
    /// The points that the expression read.
    read: Read,
}

/// Returns the numbers that the check measures in the world of `rival`, or in the measured world.
fn measured(
    check: &Check,
    variant: &Variant,
    results: &Arc<Results>,
    rival: Option<&Rival>,
) -> Result<Measured, String> {
    let world = rival.map_or_else(World::default, World::of);
    let first = evaluate(check, variant, results, 0, &world)?;
    let seeds = seeds(results, &world.read())?;
    let others = (1..seeds).map(|seed| evaluate(check, variant, results, seed, &world));
    let numbers: Result<Vec<f64>, String> = std::iter::once(Ok(first)).chain(others).collect();
    Ok(Measured { numbers: numbers?, read: world.read() })
}

/// Returns the number of seeds with which all points in `read` were run, and those whose results replace them. A point whose measurements do not depend on
/// the seed has results for every seed.
fn seeds(results: &Results, read: &Read) -> Result<usize, String> {
    let rows = read.points().chain(read.sources()).map(|(experiment, nth)| &results.experiments[experiment][nth]);
    let (by_chance, others): (Vec<_>, Vec<_>) = rows.partition(|row| row.is_by_chance());
    let least = by_chance.iter().map(|row| row.seeds.len()).min();
    let most = others.iter().map(|row| row.seeds.len()).max();
    least.or(most).ok_or_else(|| "it reads no point of an experiment".to_string())
}

/// Returns the number that the check measures with the seed number `seed`, counted from 0.
fn evaluate(
    check: &Check,
    variant: &Variant,
    results: &Arc<Results>,
    seed: usize,
    world: &World,
) -> Result<f64, String> {
    let environment = compute::over(results, seed, world);
    let mut variables: Point = check.with.iter().map(|(name, given)| (name.clone(), given.value.clone())).collect();
    variables.extend(variant.variables.clone());
    let value = environment.compile_expression(&check.measure).and_then(|it| it.eval(Value::from(Serde(&variables))));
    let value = value.map_err(|why| format!("{why}"))?;
    // A number that is not finite is no evidence: infinity, for example, is above every lower bound.
    let number = compute::number(&value).filter(|number| number.is_finite());
    number.ok_or_else(|| format!("it makes {value}, and no number, with seed {}", seed + 1))
}

/// Returns the points that the checks of `paper` read, as pairs of experiment and number of the point. Only the claims
/// that `asked` selects count. The points that rivals read are included.
///
/// # Errors
/// The errors of [`judge`].
pub fn points_read(
    paper: &Paper,
    results: &Results,
    asked: impl Fn(&str) -> bool,
) -> Result<BTreeSet<(String, usize)>, Problem> {
    let results = Arc::new(results.clone());
    let mut points = BTreeSet::new();
    for claim in paper.claims.iter().filter(|claim| asked(&claim.id)) {
        for check in &claim.check {
            for (variant, rival) in check.each.iter().flat_map(|it| [(it, None), (it, check.rival.as_ref())]) {
                let world = rival.map_or_else(World::default, World::of);
                evaluate(check, variant, &results, 0, &world)
                    .map_err(|why| unjudged(paper, claim, check, variant, rival, why))?;
                let read = world.read();
                points.extend(read.points().chain(read.sources()).map(|(name, nth)| (name.to_string(), nth)));
            }
        }
    }
    Ok(points)
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
