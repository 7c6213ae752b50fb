//! [`vary`]: the verdicts on a paper under other plausible values of its parameters.

use crate::cell::Cell;
use crate::evidence::{Given, Kind};
use crate::experiment::{Experiment, Extent, Value, shown};
use crate::judge::{judge, points_read};
use crate::paper::Paper;
use crate::plan::{self, Block};
use crate::problem::Problem;
use crate::results::Results;
use crate::status::Status;
use crate::store::Store;
use crate::suite::{self, Stage, Watch};
use crate::varied::{Flip, Varied};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Relative change of an assumed value. Unit: percent.
const CHANGE_PERCENT: f64 = 25.0;

/// Name of the variation of all assumed costs of the machines of an experiment together.
const COSTS: &str = "assumed costs of the machine";

/// A parameter with another plausible value.
#[derive(Clone, Debug)]
struct Variation {
    /// Key of the parameter in the ledger, or [`COSTS`].
    parameter: String,
    /// Name of the parameter in templates and expressions. The costs of machines have no name.
    name: Option<String>,
    /// The other value, as text.
    value: String,
    /// The experiments of the paper that have the parameter, with the other value.
    experiments: Vec<Experiment>,
}

/// Runs the points that the checks of `paper` read under other values of each parameter, and returns the verdicts that
/// differ. `results` are the results with the usual values and, for all points, the seeds from 1 with which the
/// variations are run. Only the claims that `asked` selects count. A value with
/// which a scenario is invalid, or with which a check has no result, has the reason instead of verdicts.
///
/// # Errors
/// The errors of [`Suite::play`](crate::Suite::play), and of [`judge`] with the usual values.
pub fn vary(
    paper: &Paper,
    results: &Results,
    asked: &dyn Fn(&str) -> bool,
    store: &Mutex<Store>,
    threads: usize,
    watch: &dyn Watch,
) -> Result<Vec<Varied>, Problem> {
    let verdicts = statuses(paper, results, asked)?;
    let read = points_read(paper, results, asked)?;
    let is_read = |experiment: &&Experiment| read.iter().any(|(name, _)| *name == experiment.name);
    let variations = variations(paper, &paper.experiments.iter().filter(is_read).collect::<Vec<_>>());
    let usual_plan = read.iter().map(|point| block(&paper.experiments, results, point).expect("it is of the paper"));
    let texts = Texts::of(&plan::cells(&usual_plan.collect::<Vec<_>>(), Extent::Usual, threads)?);
    let plan = |it| changed(it, results, &read, &texts, threads).map_err(|why| why.brief());
    let plans: Vec<Result<Vec<Cell<'_>>, String>> = variations.iter().map(plan).collect();
    let cells: Vec<Cell<'_>> = plans.iter().flatten().flatten().cloned().collect();
    let failures = Mutex::new(BTreeMap::new());
    suite::play_tolerating(&cells, store, Stage::Simulator(threads), watch, &|nth, why| {
        failures.lock().expect("no thread panics while it holds the lock").insert(cells[nth].inputs(), why.brief());
        Ok(())
    })?;
    let failures = failures.into_inner().expect("no thread panics while it holds the lock");
    let store = store.lock().expect("no thread panics while it holds the lock");
    let judged = |plan: Result<Vec<Cell<'_>>, String>| {
        let varied = replaced(results, &plan?, &store, &failures)?;
        Ok(flips(&verdicts, &statuses(paper, &varied, asked).map_err(|why| why.brief())?))
    };
    let varied = |(it, plan): (&Variation, _)| {
        let (flips, unjudged) = match judged(plan) {
            Ok(flips) => (flips, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let claims = verdicts.keys().cloned().collect();
        Varied { parameter: it.parameter.clone(), value: it.value.clone(), claims, flips, unjudged }
    };
    Ok(variations.iter().zip(plans).map(varied).collect())
}

/// Returns the statuses that differ between `usual` and `varied`.
fn flips(usual: &IndexMap<String, Status>, varied: &IndexMap<String, Status>) -> Vec<Flip> {
    let flip = |(claim, from): (&String, &Status)| {
        let to = *varied.get(claim)?;
        (to != *from).then(|| Flip { claim: claim.clone(), from: *from, to })
    };
    usual.iter().filter_map(flip).collect()
}

fn statuses(
    paper: &Paper,
    results: &Results,
    asked: &dyn Fn(&str) -> bool,
) -> Result<IndexMap<String, Status>, Problem> {
    Ok(judge(paper, results, asked)?.into_iter().map(|verdict| (verdict.id.to_string(), verdict.of_checks)).collect())
}

/// The texts of the scenarios with the usual values, by experiment, point and seed.
struct Texts(BTreeMap<String, String>);

impl Texts {
    fn of(cells: &[Cell<'_>]) -> Texts {
        Texts(cells.iter().map(|cell| (Texts::key(cell), cell.text.clone())).collect())
    }

    fn key(cell: &Cell<'_>) -> String {
        format!("{} {} {}", cell.experiment.name, shown(&cell.point), cell.seed)
    }

    /// Returns whether the scenario of `cell` is the one with the usual values.
    fn have(&self, cell: &Cell<'_>) -> bool {
        self.0.get(&Texts::key(cell)) == Some(&cell.text)
    }
}

/// Returns the point `(name, nth)` of `results` with its seeds, as a point of the experiment `name` in `experiments`.
fn block<'e>(experiments: &'e [Experiment], results: &Results, (name, nth): &(String, usize)) -> Option<Block<'e>> {
    let experiment = experiments.iter().find(|experiment| experiment.name == *name)?;
    let row = &results.experiments[name][*nth];
    let seeds = u32::try_from(row.seeds.len()).expect("a point has few seeds");
    Some(Block { paper: 0, experiment, point: row.point.clone(), first_seed: 1, seeds })
}

/// Returns the runs of the points in `read`, the points that checks read, that `variation` changes. A run does not change
/// if its scenario has the usual text and its metrics do not read the parameter.
fn changed<'v>(
    variation: &'v Variation,
    results: &Results,
    read: &BTreeSet<(String, usize)>,
    usual: &Texts,
    threads: usize,
) -> Result<Vec<Cell<'v>>, Problem> {
    let plan: Vec<Block<'_>> = read.iter().filter_map(|point| block(&variation.experiments, results, point)).collect();
    let mut cells = plan::cells(&plan, Extent::Usual, threads)?;
    let is_read = |cell: &Cell<'_>| variation.name.as_ref().is_some_and(|name| cell.experiment.reads(name));
    cells.retain(|cell| !usual.have(cell) || is_read(cell));
    Ok(cells)
}

/// Returns `results` in which the measurements of the runs `cells` come from `store`.
///
/// # Errors
/// The reason from `failures`, by the inputs of a run, if one of the runs has failed.
fn replaced(
    results: &Results,
    cells: &[Cell<'_>],
    store: &Store,
    failures: &BTreeMap<String, String>,
) -> Result<Results, String> {
    let mut results = results.clone();
    for cell in cells {
        let inputs = cell.inputs();
        let measured = store.get(&inputs).cloned();
        let measured = measured.ok_or_else(|| failures.get(&inputs).expect("the run has ended or failed").clone())?;
        let rows = results.experiments.get_mut(&cell.experiment.name).expect("the experiment has results");
        let row = rows.iter_mut().find(|row| row.point == cell.point).expect("the point has results");
        row.seeds[cell.seed as usize - 1] = measured;
    }
    Ok(results)
}

/// Returns all variations of the parameters of `experiments`, which judged checks read.
fn variations(paper: &Paper, experiments: &[&Experiment]) -> Vec<Variation> {
    let mut all = Vec::new();
    let mut seen = Vec::new();
    for (key, name, given) in experiments.iter().flat_map(|experiment| paper.parameters_of(experiment)) {
        if seen.contains(&key) {
            continue;
        }
        for value in others(given) {
            let has_it = |experiment: &&&Experiment| paper.parameters_of(experiment).any(|(other, ..)| other == key);
            let changed = |experiment: &&Experiment| experiment.with(name, &value);
            let experiments = experiments.iter().filter(has_it).map(changed).collect();
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            all.push(Variation { parameter: key.clone(), name: Some(name.to_string()), value, experiments });
        }
        seen.push(key);
    }
    for percent in [100.0 - CHANGE_PERCENT, 100.0 + CHANGE_PERCENT] {
        let changed = |experiment: &&Experiment| experiment.with_costs(percent);
        let experiments = experiments.iter().map(changed).collect();
        let (parameter, value) = (COSTS.to_string(), format!("{percent} %"));
        all.push(Variation { parameter, name: None, value, experiments });
    }
    all
}

/// Returns the other plausible values of a parameter: the ends of its range; else, for an assumed value, 25 % less and
/// more, the next integers, or the other position of a switch. A length of runs has no other values.
fn others(given: &Given) -> Vec<Value> {
    if let Some([low, high]) = &given.range {
        return [low, high].into_iter().filter(|value| **value != given.value).cloned().collect();
    }
    if given.kind != Kind::Assumed || given.is_of_runs() {
        return Vec::new();
    }
    match &given.value {
        Value::Bool(is_on) => vec![Value::Bool(!is_on)],
        Value::String(text) => scaled_texts(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => next_integers(whole).map(Value::from).collect(),
            (None, Some(number)) => factors().map(|factor| Value::from(number * factor)).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn factors() -> impl Iterator<Item = f64> {
    [1.0 - CHANGE_PERCENT / 100.0, 1.0 + CHANGE_PERCENT / 100.0].into_iter()
}

/// Returns 25 % less and more than `whole`, at least 1 apart. Zero has no other values.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "parameters are small")]
fn next_integers(whole: i64) -> impl Iterator<Item = i64> {
    let step = ((whole as f64 * CHANGE_PERCENT / 100.0).round() as i64).abs().max(1);
    [whole - step, whole + step].into_iter().filter(move |_| whole != 0).filter(move |other| *other > 0 || whole < 0)
}

/// Returns 25 % less and more than a text that is a number with a unit, such as `208us`.
fn scaled_texts(text: &str) -> Vec<Value> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let is_unit = !unit.is_empty() && unit.trim().chars().all(|c| c.is_ascii_alphabetic() || c == '%' || c == '/');
    match number.parse::<f64>() {
        Ok(number) if is_unit && number > 0.0 => {
            // A thousandth of the unit is precise enough, and has a short text.
            let parts = if unit.trim() == "ns" { 1.0 } else { 1_000.0 };
            let scaled = |factor: f64| (number * factor * parts).round() / parts;
            factors().map(|factor| Value::from(format!("{}{unit}", scaled(factor)))).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: Value, kind: Kind, range: Option<[Value; 2]>) -> Given {
        Given { value, kind, origin: "no source".to_string(), reason: "for a test".to_string(), range }
    }

    #[test]
    fn assumed_values_move_by_a_quarter_and_integers_to_the_next() {
        for (value, right) in [
            (Value::from("208us"), vec![Value::from("156us"), Value::from("260us")]),
            (Value::from("7ns"), vec![Value::from("5ns"), Value::from("9ns")]),
            (Value::from(0.4), vec![Value::from(0.4 * 0.75), Value::from(0.4 * 1.25)]),
            (Value::from(2), vec![Value::from(1), Value::from(3)]),
            (Value::from(1), vec![Value::from(2)]),
            (Value::from(100), vec![Value::from(75), Value::from(125)]),
            (Value::from(true), vec![Value::from(false)]),
            (Value::from("v3.17"), vec![]),
            (Value::from("random"), vec![]),
        ] {
            assert_eq!(others(&given(value.clone(), Kind::Assumed, None)), right, "{value}");
        }
    }

    #[test]
    fn values_with_a_range_move_to_its_ends_and_values_of_the_paper_do_not_move() {
        let range = Some([Value::from("1us"), Value::from("3us")]);
        let ends = vec![Value::from("1us"), Value::from("3us")];
        assert_eq!(others(&given(Value::from("2us"), Kind::Source, range.clone())), ends);
        assert_eq!(others(&given(Value::from("1us"), Kind::Anchor, range)), ends[1..]);
        for kind in [Kind::Paper, Kind::Source, Kind::Anchor] {
            assert_eq!(others(&given(Value::from("2us"), kind, None)), [Value::Null; 0]);
        }
        let length = Given { origin: "run".to_string(), ..given(Value::from("4s"), Kind::Assumed, None) };
        assert_eq!(others(&length), [Value::Null; 0], "a length of runs");
    }
}
