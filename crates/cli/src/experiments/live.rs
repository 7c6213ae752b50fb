//! `tactus lab run --live`: experiments with real processes on this host.

use super::bar::watched;
use super::host::ThisHost;
use super::judged::{Judged, extent, reject_toothless, table, write_result};
use crate::claims::named;
use crate::failure::{Failure, usage};
use crate::lab_args::LabRun;
use crate::output::{self, keep};
use anyhow::Context;
use lab::experiment::shown;
use lab::judge::judge;
use lab::results::RECORDED;
use lab::store::{self, Store};
use lab::suite::Stage;
use lab::{Paper, Results, Suite};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

pub(super) fn play(args: &LabRun) -> Result<ExitCode, Failure> {
    let papers = Paper::all(&args.papers)?;
    let parts: Vec<Paper> = papers.iter().filter_map(|paper| paper.live.as_deref().cloned()).collect();
    let claims = named(&args.claims)?;
    let suite = Suite {
        papers: &parts,
        claims: &claims,
        extent: extent(args.full, args.smoke),
        seeds: args.seeds.map(u32::from),
        first_seed: None,
    };
    suite.check()?;
    let results = match &args.measured {
        Some(file) => elsewhere(&suite, file)?,
        None => {
            let host = ThisHost::new(args.note.as_deref())?;
            let store = Mutex::new(Store::open(&args.results, store::SOURCES)?);
            watched(|bar| suite.play(&store, Stage::Host(&host), bar))?
        }
    };
    match args.smoke {
        true => beside_record(&suite, &results),
        false => report(&papers, &suite, results, args),
    }
}

/// The values of a paper in the output of `--live --json`.
#[derive(Deserialize)]
struct Measured {
    paper: String,
    measured: Results,
}

/// Reads what `--live --json` has printed on another machine. Returns the values of the experiments of `suite`.
fn elsewhere(suite: &Suite<'_>, file: &Path) -> Result<Vec<Results>, Failure> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let invalid = |why: String| {
        usage(
            format!("{}: {why}", file.display()),
            "use the output of `tactus lab run CLAIM --live --json` of this version",
        )
    };
    let mut all: Vec<Measured> = serde_json::from_str(&text).map_err(|why| invalid(why.to_string()))?;
    let mut results = Vec::new();
    for paper in suite.papers {
        let of = all.iter_mut().find(|of| of.paper == paper.key).map(|of| std::mem::take(&mut of.measured));
        let of = of.unwrap_or_default();
        for experiment in suite.experiments(paper) {
            let points = experiment.points(suite.extent);
            let rows = of.experiments.get(&experiment.name);
            if !rows.is_some_and(|rows| rows.iter().map(|row| &row.point).eq(&points)) {
                return Err(invalid(format!("it lacks the points of {}", experiment.name)));
            }
        }
        results.push(of);
    }
    Ok(results)
}

/// Prints the measurements of the smoke set beside the recorded measurements. Two live runs never agree exactly.
fn beside_record(suite: &Suite<'_>, results: &[Results]) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for (paper, results) in suite.papers.iter().zip(results) {
        let recorded = paper.recorded()?.unwrap_or_default();
        for (name, rows) in &results.experiments {
            for row in rows {
                text += &format!("{} {name} at {}\n", paper.key, shown(&row.point));
                let before =
                    recorded.experiments.get(name).and_then(|rows| rows.iter().find(|it| it.point == row.point));
                for (metric, value) in &row.seeds[0] {
                    let before: Vec<String> = before
                        .iter()
                        .flat_map(|row| &row.seeds)
                        .filter_map(|seed| Some(seed.get(metric)?.to_string()))
                        .collect();
                    text += &format!(
                        "  {metric}: {value} (recorded: {})\n",
                        if before.is_empty() { "nothing".to_string() } else { before.join(", ") }
                    );
                }
            }
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn report(papers: &[Paper], suite: &Suite<'_>, results: Vec<Results>, args: &LabRun) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let mut judged = Vec::new();
    let played = suite.papers.iter().zip(&results).filter(|(part, _)| suite.experiments(part).next().is_some());
    for (part, measured) in played {
        let verdicts = judge(part, measured, |id| suite.asks(id))?;
        text += &table(part, &verdicts);
        judged.push(Judged { paper: &part.key, verdicts, measured });
    }
    if args.record {
        for paper in papers {
            let of = paper.live.as_deref().and_then(|part| judged.iter().find(|of| of.paper == part.key));
            if let Some(of) = of {
                keep_record(paper, of.measured)?;
            }
        }
    }
    output::print(&if args.json { output::json(&judged)? } else { text })?;
    reject_toothless(&judged)
}

/// Replaces the recorded measurements of the experiments in `measured`, and writes RESULT.md of `paper` again.
fn keep_record(paper: &Paper, measured: &Results) -> Result<(), Failure> {
    let part = paper.live.as_deref().expect("it was run");
    let mut all =
        part.recorded()?.unwrap_or_else(|| Results { machine: measured.machine.clone(), ..Results::default() });
    if all.machine != measured.machine && all.experiments.keys().any(|name| !measured.experiments.contains_key(name)) {
        let other = all.machine.unwrap_or_default();
        let reason = format!("{}: the record is from another machine: {other}", part.key);
        return Err(usage(reason, "record all claims: `tactus lab run all --live --record`"));
    }
    (all.version, all.machine) = (measured.version.clone(), measured.machine.clone());
    all.experiments.extend(measured.experiments.clone());
    let names: Vec<&String> = part.experiments.iter().map(|experiment| &experiment.name).collect();
    all.experiments.retain(|name, _| names.contains(&name));
    all.experiments.sort_keys();
    keep(&part.directory.join(RECORDED), all.to_text().as_bytes())?;
    let simulated = paper.recorded()?.unwrap_or_default();
    let verdicts = match simulated.experiments.is_empty() {
        true => Vec::new(),
        false => judge(paper, &simulated, |_| true)?,
    };
    write_result(paper, &simulated, &verdicts)
}
