//! `tactus sim`: scenarios and task sets under one policy or several.

pub(crate) mod plan;
mod ports;
pub(crate) mod serve;

use crate::args::{Output, Sim};
use crate::failure::Failure;
use crate::ftrace::FtraceFiles;
use crate::output::Draft;
use crate::recording::{self, Recording, Watching, Writing};
use crate::{output, seeds, sweep};
use anyhow::{Context, anyhow};
use measure::jobs::JobLog;
use plan::{Plan, broken};
use report::{Report, Runs, Totals, Widths};
use run::{Choice, Observers, Tally};
use std::io::Write;

/// Maximum number of entities in a drawing.
const ROWS_MOST: usize = 20;

/// The result of one run.
struct Outcome {
    report: Report,
    recording: Recording,
    /// The written traces.
    files: Vec<Draft>,
    /// Broken laws, as text; `None` without an audit.
    audit: Option<Vec<String>>,
}

pub(crate) fn run(args: &Sim) -> Result<(), Failure> {
    if args.serving.serve {
        return serve::run(args);
    }
    if !args.vary.is_empty() {
        return sweep::run(args);
    }
    let plan = plan::plan(args)?;
    if let Some(seeds) = args.seeds {
        return seeds::run(&plan, seeds, args);
    }
    if args.tasks.is_some() && !needs_events(args) {
        return tally(&plan, args);
    }
    let mut picture = args.output.svg.as_deref().map(Draft::create).transpose()?;
    let mut outcomes = Vec::with_capacity(plan.choices.len());
    for choice in &plan.choices {
        outcomes.push(simulate(&plan, choice, args)?);
    }
    if let Some(picture) = &mut picture {
        let recordings: Vec<&Recording> = outcomes.iter().map(|outcome| &outcome.recording).collect();
        let svg = recording::svg(&plan.scenario.name, &recordings, plan.window, ROWS_MOST);
        picture.file().write_all(svg.as_bytes()).context("cannot write the picture")?;
    }
    let text = if args.output.json { json(&outcomes)? } else { text(&plan, args, &outcomes) };
    let broken: Vec<String> = outcomes.iter().flat_map(broken_laws).collect();
    for draft in outcomes.into_iter().flat_map(|outcome| outcome.files).chain(picture) {
        draft.keep()?;
    }
    output::print(&text)?;
    if broken.is_empty() { Ok(()) } else { Err(anyhow!("{}", broken.join("\n")).into()) }
}

/// Returns whether the output for a task set needs more than totals.
fn needs_events(args: &Sim) -> bool {
    let Output { json, svg, trace, .. } = &args.output;
    *json || svg.is_some() || trace.is_some() || args.ftrace.is_some() || args.jobs || args.audit || args.xenmon
}

/// Runs a task set only for its totals. The machine counts the totals, so no meters are needed; meters would double the
/// run time.
fn tally(plan: &Plan, args: &Sim) -> Result<(), Failure> {
    let in_order = output::end_in_order();
    let mut totals = Vec::with_capacity(plan.choices.len());
    for choice in &plan.choices {
        let tally = plan.run(choice, plan.seed).tally_while(|_| !output::is_interrupted())?;
        let Tally { counts, .. } = tally.ok_or(Failure::Interrupted)?;
        totals.push(Totals { policy: choice.name().to_string(), counts });
    }
    drop(in_order);
    let heading = output::heading(&title(plan));
    output::print(&format!("{heading}\n\n{}\n{}", report::totals(&totals), next(plan, args)))?;
    Ok(())
}

/// Returns the findings of the auditor, each with its policy.
fn broken_laws(outcome: &Outcome) -> Vec<String> {
    let findings = outcome.audit.iter().flatten();
    findings.map(|finding| format!("{} broke {finding}", outcome.report.policy)).collect()
}

fn simulate(plan: &Plan, choice: &Choice, args: &Sim) -> Result<Outcome, Failure> {
    let run = plan.run(choice, plan.seed);
    let header = run.header()?;
    let mut watch = Watching::new(&header, plan.window);
    let mut file = args.output.trace.as_deref().map(|path| Writing::create(path, &header)).transpose()?;
    let mut traces = args.ftrace.as_deref().map(|path| FtraceFiles::create(path, &header)).transpose()?;
    let mut jobs = args.jobs.then(|| run.job_log());
    let mut auditor = args.audit.then(|| run.auditor()).transpose()?;
    let mut monitor = plan.monitor();
    let mut observers = Observers::none();
    observers.extend(monitor.as_mut());
    let is_drawn = !args.output.json && args.tasks.is_none();
    if is_drawn || args.output.svg.is_some() {
        observers.extend(Some(&mut watch));
    }
    observers.extend(file.as_mut());
    observers.extend(traces.as_mut());
    observers.extend(auditor.as_mut());
    observers.extend(jobs.as_mut());
    let in_order = output::end_in_order();
    let played = run.play_while(observers, |_| !output::is_interrupted())?;
    drop(in_order);
    let mut report = played.map(Report::of).ok_or(Failure::Interrupted)?;
    report.xenmon = plan.monitored(monitor.as_ref(), &header);
    report.jobs = jobs.map(JobLog::into_jobs);
    let mut files = traces.map(FtraceFiles::finish).transpose()?.unwrap_or_default();
    files.extend(file.map(Writing::finish).transpose()?);
    let audit = auditor.map(|auditor| broken(&auditor));
    Ok(Outcome { report, recording: watch.finish()?, files, audit })
}

fn json(outcomes: &[Outcome]) -> anyhow::Result<String> {
    let runs: Vec<Report> = outcomes.iter().map(|outcome| outcome.report.clone()).collect();
    output::json(&Runs { simulated: true, runs: &runs })
}

fn text(plan: &Plan, args: &Sim, outcomes: &[Outcome]) -> String {
    let reports: Vec<Report> = outcomes.iter().map(|outcome| outcome.report.clone()).collect();
    let mut text = output::heading(&title(plan)) + "\n\n";
    text += &match args.tasks {
        Some(_) => report::totals(&reports.iter().map(Report::totals).collect::<Vec<_>>()),
        None => pictures(plan, outcomes) + &tables(plan, &reports) + &report::guests(&reports, Widths(plan.width)),
    };
    text += &report::manager(&reports);
    text += &report::stalls(&reports);
    text += &report::xenmon(&reports, Widths(plan.width));
    let several = plan.scenario.hosts > 1;
    let guests = match plan.scenario.guests.is_empty() {
        _ if several => ", and the traces of other machines beside it",
        true => "",
        false => ", and the traces of guests beside it",
    };
    let files = [(&args.output.trace, "the trace"), (&args.ftrace, "ftrace's text"), (&args.output.svg, "the picture")];
    for (file, what) in files {
        if let Some(file) = file {
            let guests = if what == "ftrace's text" { guests } else { "" };
            text += &format!("\nWrote {what} to {}{guests}.\n", file.display());
        }
    }
    if args.audit && outcomes.iter().all(|outcome| broken_laws(outcome).is_empty()) {
        text += "\nThe auditor found no broken law.\n";
    }
    text + "\n" + &next(plan, args)
}

fn pictures(plan: &Plan, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        if outcomes.len() > 1 {
            text += &format!("{}:\n", outcome.report.policy);
        }
        text += &recording::gantt(&outcome.recording, &plan.scenario, plan.window, plan.width, ROWS_MOST);
        text.push('\n');
    }
    text
}

fn tables(plan: &Plan, reports: &[Report]) -> String {
    let widths = Widths(plan.width);
    let groups = report::groups(reports, widths);
    let mut text = report::comparison(reports, widths);
    if !groups.is_empty() {
        text += "\nGroups:\n";
        text += &groups;
    }
    text + &report::gangs(reports) + &report::applications(reports)
}

/// Returns a title such as `three VMs under edf: 1 CPU, 2s simulated, seed 0`.
fn title(plan: &Plan) -> String {
    format!("{}, seed {}", plan.title(), plan.seed)
}

/// Returns suggestions for next commands.
fn next(plan: &Plan, args: &Sim) -> String {
    let mut ideas = Vec::new();
    if args.tasks.is_some() {
        ideas.extend(["--json for every task", "--json --jobs for every job"].map(str::to_string));
    } else if args.policy.len() < 2 {
        let used = plan.choices[0].name();
        let other = if used == "cfs" { "edf" } else { "cfs" };
        ideas.push(format!("--policy {used},{other} to compare"));
    }
    if args.output.svg.is_none() {
        ideas.push("--svg FILE for a picture".to_string());
    }
    if args.output.trace.is_none() {
        ideas.push("--trace FILE.pftrace for Perfetto".to_string());
    }
    if ideas.is_empty() {
        String::new()
    } else {
        output::folded(&format!("Next: {}.", ideas.join(", ")), plan.width.into()).join("\n") + "\n"
    }
}
