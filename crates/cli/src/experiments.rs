//! `tactus lab`: the figures and tables of papers, run, evaluated and drawn.

mod host;
mod live;

use crate::args::{Lab, LabList, LabRun, LabWhat};
use crate::claims::named;
use crate::failure::{Failure, usage};
use crate::output::{self, keep};
use crate::pictures;
use crate::progress::Progress;
use anyhow::anyhow;
use lab::experiment::Extent;
use lab::judge::{Status, Verdict, judge};
use lab::results::RECORDED;
use lab::store::{self, Store};
use lab::suite::{Stage, Watch};
use lab::{Paper, Problem, Results, Suite, result};
use sched::Nanos;
use serde::Serialize;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

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

impl Bar {
    /// Completes the bar.
    fn finish(self, has_played: bool) {
        if let Some(bar) = self.0.into_inner() {
            bar.finish(if has_played { "all runs are finished" } else { "not all runs are finished" });
        }
    }
}

/// Shows the progress of the suite.
#[derive(Default)]
struct Bar(OnceLock<Progress>);

impl Watch for Bar {
    fn begins(&self, length: Nanos, cells: usize, known: usize) {
        let before = if known > 0 { format!(" ({known} known)") } else { String::new() };
        let _ = self.0.set(Progress::with_time_left(format!("{cells} runs{before}"), length));
    }

    fn simulated(&self, length: Nanos) {
        if let Some(bar) = self.0.get() {
            bar.more(length);
        }
    }

    fn is_interrupted(&self) -> bool {
        output::is_interrupted()
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Judged<'p> {
    paper: &'p str,
    verdicts: Vec<Verdict<'p>>,
    measured: &'p Results,
}

fn extent(full: bool, smoke: bool) -> Extent {
    match (full, smoke) {
        (true, _) => Extent::Full,
        (_, true) => Extent::Smoke,
        _ => Extent::Usual,
    }
}

fn play(args: &LabRun) -> Result<ExitCode, Failure> {
    let mut papers = Paper::all(&args.papers)?;
    if args.smoke {
        papers = recorded(papers)?;
    }
    let claims = named(&args.claims)?;
    if args.record && !claims.is_empty() {
        let reason = format!("recording {} alone would lose the records of the other claims", claims.join(", "));
        return Err(usage(reason, "use `tactus lab run all --record`"));
    }
    let extent = extent(args.full, args.smoke);
    let suite = Suite { papers: &papers, claims: &claims, extent, seeds: args.seeds.map(u32::from) };
    suite.check()?;
    let store = Mutex::new(Store::open(&args.results, store::SOURCES)?);
    let threads =
        args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let bar = Bar::default();
    let in_order = output::end_in_order();
    let played = suite.play(&store, Stage::Simulator(threads), &bar);
    drop(in_order);
    bar.finish(played.is_ok());
    let results = match played {
        Err(Problem::Interrupted) => {
            output::complain("interrupted: finished runs are kept, and the same command resumes");
            return Ok(ExitCode::from(130));
        }
        other => other?,
    };
    match extent {
        Extent::Smoke => compare(&papers, &results),
        _ => report(&suite, &results, args),
    }
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
        output::print(&format!("{rows} points of the smoke set match the record.\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed(anyhow!(
        "{}\nthe measured values differ from the recorded results; `cargo xtask lab` records all results again",
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
        judged.push(Judged { paper: &paper.key, verdicts, measured });
    }
    if args.record {
        for (paper, of) in
            suite.papers.iter().filter_map(|paper| Some((paper, judged.iter().find(|of| of.paper == paper.key)?)))
        {
            record(paper, of.measured, &of.verdicts)?;
        }
    }
    if args.json {
        output::print(&output::json(&judged)?)?;
    } else {
        let verdicts = || judged.iter().flat_map(|paper| &paper.verdicts);
        let count = |status| verdicts().filter(|it| it.status == status).count();
        let counts = [Status::Reproduced, Status::Partly, Status::Not].map(count);
        text +=
            &format!("{} reproduced, {} partly, {} not.\nNext: tactus lab report.\n", counts[0], counts[1], counts[2]);
        output::print(&text)?;
    }
    reject_toothless(&judged)
}

/// Fails if a check also holds in its wrong world.
fn reject_toothless(judged: &[Judged<'_>]) -> Result<ExitCode, Failure> {
    let toothless: Vec<String> = judged.iter().flat_map(|paper| &paper.verdicts).flat_map(toothless).collect();
    if toothless.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed(anyhow!("checks that also hold in their wrong world:\n{}", toothless.join("\n"))))
}

/// Returns the checks of `verdict` that also hold in their wrong world, or whose wrong world replaces no point.
fn toothless(verdict: &Verdict<'_>) -> Vec<String> {
    let accepts =
        |check: &&lab::judge::Judged| check.wrong_is_idle || check.holds && check.rejects_wrong == Some(false);
    let accepting = verdict.checks.iter().filter(accepts).map(|check| {
        let idle = if check.wrong_is_idle { " (`wrong` replaces no point of the check)" } else { "" };
        format!("{}: {}{idle}", verdict.id, check.what)
    });
    accepting.collect()
}

fn table(paper: &Paper, verdicts: &[Verdict<'_>]) -> String {
    let mut text = output::heading(&paper.key) + "\n\n";
    for verdict in verdicts {
        let claim = output::folded(verdict.claim, 90).join("\n                ");
        text += &format!("{:<4} {:<10} {claim}\n", verdict.id, verdict.status.word());
        for check in &verdict.checks {
            text += &format!("       {}\n", result::line(check));
        }
    }
    text + "\n"
}

/// Writes measured.json and RESULT.md of `paper`. After an interruption, each of the two files is complete, with either
/// the old or the new content.
fn record(paper: &Paper, measured: &Results, verdicts: &[Verdict<'_>]) -> Result<(), Failure> {
    keep(&paper.directory.join(RECORDED), measured.to_text().as_bytes())?;
    write_result(paper, measured, verdicts)
}

/// Writes RESULT.md of `paper`.
fn write_result(paper: &Paper, measured: &Results, verdicts: &[Verdict<'_>]) -> Result<(), Failure> {
    let text = result::text(paper, measured, verdicts)?;
    Ok(keep(&paper.directory.join("RESULT.md"), text.as_bytes())?)
}
