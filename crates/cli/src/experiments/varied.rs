//! `tactus lab run --robust`: the verdicts on claims under other plausible values of parameters.

use super::bar::watched;
use super::judged::{threads, write_result};
use crate::claims::named;
use crate::failure::{Failure, usage};
use crate::lab_args::LabRun;
use crate::output::{self, keep};
use lab::experiment::SEEDS;
use lab::judge::judge;
use lab::results::RECORDED;
use lab::robust::vary;
use lab::store::{self, Store};
use lab::suite::Stage;
use lab::varied::{self, ROBUST, Varied};
use lab::{Paper, Results, Suite};
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;

/// The verdicts on claims of a paper, in the output of `--json`.
#[derive(Serialize)]
struct OfPaper {
    paper: String,
    varied: Vec<Varied>,
}

/// Judges the requested claims of the `papers` under other values, one paper after another. The verdicts on a paper are
/// recorded before the runs of the next paper.
pub(super) fn play(papers: Vec<Paper>, args: &LabRun) -> Result<ExitCode, Failure> {
    let claims = named(&args.claims)?;
    let suite = Suite { papers: &papers, claims: &claims, ..Suite::default() };
    suite.check()?;
    let ids = |paper: &Paper| paper.claims.iter().map(|claim| claim.id.clone()).filter(|id| suite.asks(id)).collect();
    let asked: Vec<Vec<String>> = papers.iter().map(ids).collect();
    let mut asked: Vec<(Paper, Vec<String>)> = papers.into_iter().zip(asked).collect();
    asked.retain(|(_, ids)| !ids.is_empty());
    if args.record {
        asked.iter().try_for_each(|(paper, _)| measured(paper).map(drop))?;
    }
    let store = Mutex::new(Store::open(&args.results, store::SOURCES)?);
    let mut all = Vec::new();
    for (paper, ids) in asked {
        let varied = try_other_values(&paper, &ids, &store, threads(args))?;
        if !args.json {
            output::print(&text(&paper, &varied))?;
        }
        let of = OfPaper { paper: paper.key.clone(), varied: varied.clone() };
        if args.record {
            record(paper, &ids, varied)?;
        }
        all.push(of);
    }
    if args.json {
        output::print(&output::json(&all)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the recorded results of `paper`. RESULT.md has the verdicts on them.
fn measured(paper: &Paper) -> Result<Results, Failure> {
    let reason = || format!("{} has no results ({RECORDED}) whose verdicts RESULT.md can show", paper.key);
    paper.recorded()?.ok_or_else(|| usage(reason(), "run `tactus lab run all --record` first"))
}

/// Runs the experiments of the claims `ids` of `paper` with the usual values and with other values.
fn try_other_values(
    paper: &Paper,
    ids: &[String],
    store: &Mutex<Store>,
    threads: usize,
) -> Result<Vec<Varied>, Failure> {
    let papers = std::slice::from_ref(paper);
    let suite = Suite { papers, claims: ids, seeds: Some(SEEDS), ..Suite::default() };
    watched(|bar| {
        let usual = suite.play(store, Stage::Simulator(threads), bar)?.remove(0);
        vary(paper, &usual, &|id| suite.asks(id), store, threads, bar)
    })
}

/// Counts the other values and the verdicts that differ. Lists these verdicts, and the values without verdicts.
fn text(paper: &Paper, varied: &[Varied]) -> String {
    let flips = || varied.iter().flat_map(|it| it.flips.iter().map(move |flip| (it, flip)));
    let claims: BTreeSet<_> = flips().map(|(_, flip)| &flip.claim).collect();
    let mut text = output::heading(&paper.key) + "\n\n";
    text += &format!(
        "other values of parameters: {}; verdicts that differ: {}, of claims: {}\n",
        varied.len(),
        flips().count(),
        claims.len()
    );
    for (Varied { parameter, value, .. }, flip) in flips() {
        let (from, to) = (flip.from.word(), flip.to.word());
        text += &format!("{:<4} {parameter} = {value}: {from} becomes {to}\n", flip.claim);
    }
    for Varied { parameter, value, unjudged, .. } in varied {
        if let Some(why) = unjudged {
            text += &format!("no verdict under {parameter} = {value}: {why}\n");
        }
    }
    text + "\n"
}

/// Writes robust.json of `paper`, in which `varied` replaces the entries of the claims `ids`, and RESULT.md.
fn record(mut paper: Paper, ids: &[String], varied: Vec<Varied>) -> Result<(), Failure> {
    paper.robust = varied::merged(&paper.robust, ids, varied);
    keep(&paper.directory.join(ROBUST), varied::to_text(&paper.robust).as_bytes())?;
    let measured = measured(&paper)?;
    let verdicts = judge(&paper, &measured, |_| true)?;
    write_result(&paper, &measured, &verdicts)
}
