//! `tactus sim --seeds`: runs with many seeds in parallel, and medians.

use crate::args::Sim;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::sim::plan::{Plan, broken};
use anyhow::anyhow;
use lab::parallel::in_order;
use report::{Report, SeededRuns, Summary, Widths, medians};
use run::{Choice, Observers};
use std::num::NonZero;

/// The report of a run, and a message for each broken law that the auditor found.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) broken: Vec<String>,
}

pub(crate) fn run(plan: &Plan, seeds: u16, args: &Sim) -> Result<(), Failure> {
    let seeds: Vec<u64> = (0..u64::from(seeds)).map(|nth| plan.seed.wrapping_add(nth)).collect();
    let threads = threads(args);
    let runs = plan.choices.len() * seeds.len();
    let length = plan.scenario.length;
    let progress = Progress::with_time_left(format!("{runs} runs"), length.saturating_mul(runs as u64));
    let in_order_end = output::end_in_order();
    let outcomes = in_order(runs, threads, |nth| {
        let (choice, seed) = (&plan.choices[nth / seeds.len()], seeds[nth % seeds.len()]);
        one(plan, choice, seed, args.audit, &progress)
    })?;
    drop(in_order_end);
    progress.finish(&format!("simulated {runs} runs of {length}"));
    let broken: Vec<String> = outcomes.iter().flat_map(|outcome| outcome.broken.iter().cloned()).collect();
    let reports: Vec<Report> = outcomes.into_iter().map(|outcome| outcome.report).collect();
    let summaries: Vec<Summary> = reports.chunks(seeds.len()).map(Summary::new).collect();
    let text = if args.output.json {
        output::json(&SeededRuns { simulated: true, runs: &reports, medians: &summaries })?
    } else {
        text(plan, &seeds, &summaries, args.audit && broken.is_empty())
    };
    output::print(&text)?;
    if broken.is_empty() { Ok(()) } else { Err(anyhow!("{}", broken.join("\n")).into()) }
}

/// Returns the number of concurrent runs: the requested number, or the number of CPUs.
pub(crate) fn threads(args: &Sim) -> usize {
    args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), usize::from)
}

/// Runs `plan` under `choice` with `seed`.
pub(crate) fn one(
    plan: &Plan,
    choice: &Choice,
    seed: u64,
    audit: bool,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let run = plan.run(choice, seed);
    let mut auditor = audit.then(|| run.auditor()).transpose()?;
    let mut monitor = plan.monitor();
    let mut observers = Observers::none();
    observers.extend(monitor.as_mut());
    observers.extend(auditor.as_mut());
    let mut report = progress.play(&run, observers)?;
    if monitor.is_some() {
        report.xenmon = plan.monitored(monitor.as_ref(), &run.header()?);
    }
    let findings = auditor.as_ref().map(broken).unwrap_or_default();
    let broken = findings.iter().map(|finding| format!("{} broke {finding} (seed {seed})", choice.name()));
    Ok(Outcome { report, broken: broken.collect() })
}

fn text(plan: &Plan, seeds: &[u64], summaries: &[Summary], lawful: bool) -> String {
    let named = match seeds {
        [seed] => format!("seed {seed}"),
        [first, .., last] => format!("seeds {first} to {last}"),
        [] => unreachable!("there is at least one"),
    };
    let mut text = output::heading(&format!("{}, {named}", plan.title())) + "\n\n";
    text += &medians(summaries, Widths(plan.width));
    if lawful {
        text += "\nThe auditor found no broken law.\n";
    }
    text + "\nNext: --json for every run.\n"
}
