//! `tactus lab`: the figures and tables of papers, run, evaluated and drawn.

mod bar;
mod evidence;
mod host;
mod judged;
mod kernel_scheduler;
mod live;
mod varied;

use crate::claims::named;
use crate::failure::{Failure, usage};
use crate::lab_args::{Lab, LabList, LabRun, LabWhat};
use crate::output::{self, keep};
use crate::pictures;
use anyhow::anyhow;
use bar::watched;
use judged::{Judged, extent, reject_toothless, table, threads, write_result};
use lab::experiment::Extent;
use lab::judge::{Verdict, counts, judge};
use lab::provenance::{PROVENANCE, Provenance};
use lab::results::RECORDED;
use lab::store::{self, Store};
use lab::suite::Stage;
use lab::{Paper, Problem, Results, Suite};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Mutex;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        if problem.is_input() {
            Failure::Usage(miette::miette!("{problem}"))
        } else {
            Failure::Failed(anyhow!("{problem}"))
        }
    }
}

pub(crate) fn run(args: &Lab) -> Result<ExitCode, Failure> {
    match &args.what {
        LabWhat::List(what) => list(what),
        LabWhat::Run(what) if what.live => live::play(what),
        LabWhat::Run(what) => play(what),
        LabWhat::Judge(what) => evidence::judge_record(what),
        LabWhat::Lock(what) => evidence::lock(what),
        LabWhat::Report(what) => pictures::report(what),
    }
}

/// A claim in the output of `tactus lab list`.
#[derive(Serialize)]
struct Listed<'p> {
    id: &'p str,
    paper: &'p str,
    claim: &'p str,
    experiments: Vec<&'p str>,
    runs: usize,
}

fn list(args: &LabList) -> Result<ExitCode, Failure> {
    let papers = Paper::all(&args.papers)?;
    let mut all = Vec::new();
    for paper in &papers {
        for claim in &paper.claims {
            let experiments: Vec<_> = paper.experiments_of(&claim.id).collect();
            let runs =
                experiments.iter().map(|it| it.points(Extent::Usual).len() * it.seeds(Extent::Usual) as usize).sum();
            let experiments = experiments.iter().map(|it| it.name.as_str()).collect();
            all.push(Listed { id: &claim.id, paper: &paper.key, claim: claim.claim.trim(), experiments, runs });
        }
    }
    if args.json {
        output::print(&output::json(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for paper in &papers {
        text +=
            &(output::heading(&format!("{}: {}", paper.key, paper.source.lines().next().unwrap_or_default())) + "\n\n");
        for it in all.iter().filter(|it| it.paper == paper.key) {
            let lines = output::folded(it.claim, 100).join("\n      ");
            text += &format!("{:<5} {lines}\n      {} runs: {}\n", it.id, it.runs, it.experiments.join(", "));
        }
        text += "\n";
    }
    text += "Next: tactus lab run C1, or all; tactus lab report.\n";
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn play(args: &LabRun) -> Result<ExitCode, Failure> {
    let mut papers = Paper::all(&args.papers)?;
    if args.robust {
        return varied::play(papers, args);
    }
    if args.smoke || args.replay {
        papers = recorded(papers)?;
    }
    let claims = named(&args.claims)?;
    if args.record && !claims.is_empty() {
        let reason = format!("recording {} alone would lose the records of the other claims", claims.join(", "));
        return Err(usage(reason, "use `tactus lab run all --record`"));
    }
    let asked = suite(&papers, &claims, args);
    asked.check()?;
    let store = Mutex::new(Store::open(&args.results, store::SOURCES)?);
    let results = watched(|bar| asked.play(&store, Stage::Simulator(threads(args)), bar))?;
    if args.smoke || args.replay {
        return compare(&papers, &results);
    }
    report(&asked, &results, args)
}

/// Returns the selection of experiments that `args` requests.
fn suite<'p>(papers: &'p [Paper], claims: &'p [String], args: &LabRun) -> Suite<'p> {
    let seeds = if args.replay { Some(lab::experiment::SEEDS) } else { args.seeds.map(u32::from) };
    Suite { papers, claims, extent: extent(args.full, args.smoke), seeds, first_seed: args.first_seed }
}

/// Returns the papers with recorded results. Prints a warning for every other paper.
fn recorded(papers: Vec<Paper>) -> Result<Vec<Paper>, Failure> {
    let (recorded, others): (Vec<Paper>, Vec<Paper>) =
        papers.into_iter().partition(|paper| paper.directory.join(RECORDED).exists());
    for paper in others {
        output::complain(&format!("{}: no results are recorded ({RECORDED}), so nothing is compared", paper.key));
    }
    if recorded.is_empty() {
        let right = "run `tactus lab run all --record` first";
        return Err(usage("there is nothing to compare with".to_string(), right));
    }
    Ok(recorded)
}

/// Compares the smoke set with the recorded results.
fn compare(papers: &[Paper], results: &[Results]) -> Result<ExitCode, Failure> {
    let mut differences = Vec::new();
    let mut rows = 0;
    for (paper, anew) in papers.iter().zip(results) {
        let recorded = paper.recorded()?.unwrap_or_default();
        let found = lab::suite::differences(&recorded, anew);
        rows += anew.experiments.values().map(Vec::len).sum::<usize>();
        differences.extend(found.into_iter().map(|difference| format!("{}: {difference}", paper.key)));
    }
    if differences.is_empty() {
        output::print(&format!("{rows} points match the record.\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed(anyhow!(
        "{}\nthe measured values differ from the recorded results; `cargo xtask lab --record` records all results again",
        differences.join("\n")
    )))
}

fn report(suite: &Suite<'_>, results: &[Results], args: &LabRun) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let mut judged = Vec::new();
    for (paper, measured) in suite.papers.iter().zip(results) {
        if suite.experiments(paper).next().is_none() {
            continue;
        }
        let verdicts = judge(paper, measured, |id| suite.asks(id))?;
        text += &table(paper, &verdicts);
        judged.push((paper, Judged { paper: &paper.key, verdicts, measured }));
    }
    // Nothing is recorded unless the claims of all papers can be judged.
    for (paper, of) in judged.iter().filter(|_| args.record) {
        text += &changed(paper, &of.verdicts);
        record(paper, of.measured, &of.verdicts)?;
    }
    if args.record {
        keep(&args.papers.join(PROVENANCE), Provenance::of_this_program().to_text().as_bytes())?;
    }
    let judged: Vec<Judged<'_>> = judged.into_iter().map(|(_, of)| of).collect();
    if args.json {
        output::print(&output::json(&judged)?)?;
    } else {
        let counts = counts(judged.iter().flat_map(|paper| &paper.verdicts));
        text += &format!("{counts}.\nNext: tactus lab report.\n");
        output::print(&text)?;
    }
    reject_toothless(&judged)
}

/// Describes the differences of `verdicts` from the verdicts on the recorded results under the current bounds.
fn changed(paper: &Paper, verdicts: &[Verdict<'_>]) -> String {
    let unjudged = || "The last record cannot be judged under the current claims.\n\n".to_string();
    let recorded = match paper.recorded() {
        Ok(Some(recorded)) => recorded,
        Ok(None) => return String::new(),
        Err(_) => return unjudged(),
    };
    // The last record may lack points that the claims read now.
    let Ok(before) = judge(paper, &recorded, |_| true) else { return unjudged() };
    let mut text = String::new();
    for verdict in verdicts {
        let last = before.iter().find(|last| last.id == verdict.id).map(|last| last.status);
        if let Some(last) = last.filter(|last| *last != verdict.status) {
            text += &format!("{}: the record was {}, and is now {}\n", verdict.id, last.word(), verdict.status.word());
        }
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// Writes measured.json and RESULT.md of `paper`. After an interruption, each of the files is complete, with either the
/// old or the new content.
fn record(paper: &Paper, measured: &Results, verdicts: &[Verdict<'_>]) -> Result<(), Failure> {
    keep(&paper.directory.join(RECORDED), measured.to_text().as_bytes())?;
    write_result(paper, measured, verdicts)
}
