//! `tactus sim --vary`: every combination of values, several runs at a time, in one table.

use crate::args::Sim;
use crate::failure::{Failure, usage};
use crate::output;
use crate::output::Draft;
use crate::progress::Progress;
use crate::seeds::{self, threads};
use crate::sim::plan::{Plan, plan_of};
use anyhow::{Context, anyhow};
use input::problem::Problems;
use lab::disk::Disk;
use lab::parallel::in_order;
use report::{Summary, Swept, SweptPoint, Widths, swept, swept_csv};
use run::sweep::{Point, Sweep, value_shown};
use scenario::{Scenario, vary};
use sched::Nanos;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// A run of a sweep: index of its point, index of its policy at that point, and seed.
type Nth = (usize, usize, u64);

pub(crate) fn run(args: &Sim) -> Result<(), Failure> {
    let mut sweep = Sweep::default();
    for axis in &args.vary {
        sweep.vary(axis).map_err(|wrong| Problems::from(wrong.anywhere(None)))?;
    }
    if !args.policy.is_empty() && sweep.axes.contains_key("policy") {
        return Err(usage("`policy` is an axis, but --policy is also given".to_string(), "leave out one of them"));
    }
    let path = args.scenario.as_deref().expect("a sweep is of a scenario");
    let plans = plans(args, path, sweep.points(&[]))?;
    let mut csv = args.csv.as_deref().map(Draft::create).transpose()?;
    let (points, broken) = played(args, plans)?;
    if let Some(mut draft) = csv.take() {
        draft.file().write_all(swept_csv(&points).as_bytes()).context("cannot write the CSV file")?;
        draft.keep()?;
    }
    let text = match args.output.json {
        true => output::json(&Swept { simulated: true, points: &points })?,
        false => text(args, &points, broken.is_empty()),
    };
    output::print(&text)?;
    if broken.is_empty() { Ok(()) } else { Err(anyhow!("{}", broken.join("\n")).into()) }
}

/// Reads the scenario at `path` at each of `points`. All scenarios are read before any run begins.
fn plans(args: &Sim, path: &Path, points: Vec<Point>) -> Result<Vec<(Point, Plan)>, Failure> {
    let name = path.display().to_string();
    let source = input::text::decode(&name, lab::disk::read(path)?)?;
    let mut plans = Vec::with_capacity(points.len());
    for point in points {
        let mut text = source.text().to_string();
        for (axis, value) in &point {
            let varied = vary::set(&text, axis, &value_shown(value));
            text = varied.map_err(|wrong| Problems::from(wrong.anywhere(None).within(&source)))?;
        }
        // `name` must be the plain path of the scenario, without the point, because the paths in a scenario are
        // relative to it.
        let scenario = Scenario::with_files(&name, text.into_bytes(), Arc::new(Disk))?;
        plans.push((point, plan_of(args, scenario)?));
    }
    Ok(plans)
}

/// Runs every plan. Returns the points, and the broken laws as text.
fn played(args: &Sim, plans: Vec<(Point, Plan)>) -> Result<(Vec<SweptPoint>, Vec<String>), Failure> {
    let seeds = u64::from(args.seeds.unwrap_or(1));
    let mut runs: Vec<Nth> = Vec::new();
    let mut length = Nanos::ZERO;
    for (nth, (_, plan)) in plans.iter().enumerate() {
        let seeded = |choice| (0..seeds).map(move |seed| (nth, choice, plan.seed.wrapping_add(seed)));
        runs.extend((0..plan.choices.len()).flat_map(seeded));
        length = length.saturating_add(plan.scenario.length.saturating_mul(plan.choices.len() as u64 * seeds));
    }
    let progress = Progress::with_time_left(format!("{} runs", runs.len()), length);
    let in_order_end = output::end_in_order();
    let outcomes = in_order(runs.len(), threads(args), |nth| {
        let (point, choice, seed) = runs[nth];
        let plan = &plans[point].1;
        seeds::one(plan, &plan.choices[choice], seed, args.audit, &progress)
    })?;
    drop(in_order_end);
    progress.finish(&format!("simulated {} runs", runs.len()));
    let broken = outcomes.iter().flat_map(|outcome| outcome.broken.iter().cloned()).collect();
    let mut reports = outcomes.into_iter().map(|outcome| outcome.report);
    let point = |(point, plan): (Point, Plan)| {
        let seeded = |_| reports.by_ref().take(seeds as usize).collect::<Vec<_>>();
        let medians = plan.choices.iter().map(seeded).map(|reports| Summary::new(&reports)).collect();
        SweptPoint { point, medians }
    };
    Ok((plans.into_iter().map(point).collect(), broken))
}

fn text(args: &Sim, points: &[SweptPoint], is_lawful: bool) -> String {
    let first = &points[0].medians[0];
    let seeds = first.seeds.len();
    let runs = points.iter().map(|it| it.medians.len()).sum::<usize>() * seeds;
    let title = format!("{}: {} points, {runs} runs", first.scenario, points.len());
    let width = args.output.width.unwrap_or_else(output::width);
    let mut text = output::heading(&title) + "\n\n" + &swept(points, Widths(width));
    if args.audit && is_lawful {
        text += "\nThe auditor found no broken law.\n";
    }
    if let Some(file) = &args.csv {
        text += &format!("\nWrote every number to {}.\n", file.display());
    }
    let mut ideas = Vec::new();
    ideas.extend(args.seeds.is_none().then_some("--seeds 6 for medians with 95 % intervals"));
    ideas.extend(args.csv.is_none().then_some("--csv FILE for every number"));
    if !ideas.is_empty() {
        text += &format!("\nNext: {}.\n", ideas.join(", "));
    }
    text
}
