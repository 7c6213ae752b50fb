//! `tactus sim`: scenarios and task sets under one policy or several.

use crate::args::Sim;
use crate::failure::{Failure, usage};
use crate::ftrace::{self, FtraceFiles};
use crate::output::Draft;
use crate::record::{Form, Window};
use crate::seen::{self, Seen, Watching, Writing};
use crate::{output, seeds, sweep};
use anyhow::{Context, anyhow};
use input::knobs::KnobSetting;
use input::problem::Problems;
use measure::XenMon;
use measure::jobs::JobLog;
use report::{Report, RunDescription, Runs, Widths, XenMonReport, short};
use run::{Choice, Observers, Placement, Run};
use scenario::Scenario;
use scenario::taskset;
use sched::Nanos;
use sim::auditor::{Finding, WorldAuditor};
use std::io::Write;
use std::sync::Arc;
use trace::{MachineId, WorldHeader};

/// Number of entities in a drawing.
const ROWS_MOST: usize = 20;

/// The runs, with their options.
pub(crate) struct Plan {
    pub(crate) scenario: Arc<Scenario>,
    /// The same with each task on the CPU that a policy gives it, by the name of the policy, where that was asked for.
    partitioned: Vec<(String, Arc<Scenario>)>,
    pub(crate) choices: Vec<Choice>,
    /// Of all guests, in place of their own.
    guests: Option<Choice>,
    pub(crate) seed: u64,
    /// The window to draw.
    window: Window,
    pub(crate) width: u16,
    /// Whether domains are monitored.
    xenmon: bool,
}

impl Plan {
    /// One run, under one of its choices.
    pub(crate) fn run(&self, choice: &Choice, seed: u64) -> Run {
        let placed = self.partitioned.iter().find(|(name, _)| name == choice.name());
        let scenario = placed.map_or(&self.scenario, |(_, scenario)| scenario);
        Run { seed, guests: self.guests.clone(), ..Run::new(Arc::clone(scenario), choice.clone()) }
    }

    /// The monitor of its domains, if there is one.
    pub(crate) fn monitor(&self) -> Option<XenMon> {
        self.xenmon.then(|| XenMon::new(self.scenario.measured_from()))
    }

    /// The results of `monitor` for a run.
    pub(crate) fn monitored(&self, monitor: Option<&XenMon>, header: &WorldHeader) -> Option<XenMonReport> {
        Some(XenMonReport::new(monitor?, header, self.scenario.warm_up, self.scenario.length))
    }

    /// `three VMs under edf: 1 CPU, 2s simulated`.
    pub(crate) fn title(&self) -> String {
        let names: Vec<&str> = self.choices.iter().map(Choice::name).collect();
        let (hosts, cpus) = (self.scenario.hosts, self.scenario.host.cpus);
        let several = if hosts > 1 { format!("{hosts} hosts of ") } else { String::new() };
        format!(
            "{} under {}{}: {several}{cpus} CPU{}, {} simulated{}",
            self.scenario.name,
            names.join(", "),
            self.guests.as_ref().map_or(String::new(), |guests| format!(", guests under {}", guests.name())),
            if cpus == 1 { "" } else { "s" },
            short(self.scenario.length.as_ns()),
            match self.scenario.warm_up {
                Nanos::ZERO => String::new(),
                warm_up => format!(" and measured from {} on", short(warm_up.as_ns())),
            },
        )
    }
}

/// The result of one run.
struct Outcome {
    report: Report,
    seen: Seen,
    /// The written traces.
    files: Vec<Draft>,
    /// Broken laws, in words; `None` without an audit.
    audit: Option<Vec<String>>,
}

pub(crate) fn run(args: &Sim) -> Result<(), Failure> {
    if !args.vary.is_empty() {
        return sweep::run(args);
    }
    let plan = plan(args)?;
    if let Some(seeds) = args.seeds {
        return seeds::run(&plan, seeds, args);
    }
    let mut picture = args.output.svg.as_deref().map(Draft::create).transpose()?;
    let mut outcomes = Vec::with_capacity(plan.choices.len());
    for choice in &plan.choices {
        outcomes.push(simulate(&plan, choice, args)?);
    }
    if let Some(picture) = &mut picture {
        let seen: Vec<&Seen> = outcomes.iter().map(|outcome| &outcome.seen).collect();
        let svg = seen::svg(&plan.scenario.name, &seen, plan.window, ROWS_MOST);
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

/// The findings of the auditor, each with its policy.
fn broken_laws(outcome: &Outcome) -> Vec<String> {
    let findings = outcome.audit.iter().flatten();
    findings.map(|finding| format!("{} broke {finding}", outcome.report.policy)).collect()
}

fn plan(args: &Sim) -> Result<Plan, Failure> {
    args.output.trace.as_deref().map(Form::of).transpose()?;
    args.ftrace.as_deref().map(ftrace::check).transpose()?;
    let traced = [("--trace", &args.output.trace), ("--ftrace", &args.ftrace)];
    if let Some((option, _)) = traced.iter().find(|(_, file)| file.is_some() && args.policy.len() > 1) {
        let right = format!("use one --policy with {option}, or several without");
        return Err(usage("a trace is of one run, but there are several policies".to_string(), &right));
    }
    match (&args.tasks, &args.scenario) {
        (Some(path), _) => {
            let settings = settings(&args.knob)?;
            let tasks = lab::disk::tasks(path)?;
            let placement = if args.partitioned { Placement::Partitioned } else { Placement::Free };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (cpus, seconds) = (args.cpus.unwrap_or(1), args.seconds.unwrap_or(1));
            let scenario = taskset::scenario(&name, &tasks, cpus.into(), Nanos::s(seconds));
            let choices = run::choose_for_tasks(&scenario, &args.policy, &settings, placement)?;
            let mut partitioned = Vec::new();
            for choice in choices.iter().filter(|_| args.partitioned) {
                partitioned.push((choice.name().to_string(), run::partition(&scenario, choice)?.into()));
            }
            Ok(Plan { partitioned, ..plan_under(args, scenario, choices)? })
        }
        (None, path) => {
            plan_of(args, lab::disk::scenario(path.as_deref().expect("without tasks there is a scenario"))?)
        }
    }
}

/// The plan for `scenario` with what the command line changes in it.
pub(crate) fn plan_of(args: &Sim, mut scenario: Scenario) -> Result<Plan, Failure> {
    if let Some(length) = &args.length {
        scenario.length = input::duration::length(length)?;
    }
    scenario.warm_up = warm_up(args, &scenario)?;
    let choices = run::choose(&scenario, &args.policy, &settings(&args.knob)?)?;
    plan_under(args, scenario, choices)
}

fn settings(knobs: &[String]) -> Result<Vec<KnobSetting>, Problems> {
    knobs.iter().map(|text| text.parse()).collect()
}

fn plan_under(args: &Sim, scenario: Scenario, choices: Vec<Choice>) -> Result<Plan, Failure> {
    let guest_settings = settings(&args.guest_knob)?;
    let guests = run::choose_for_guests(scenario.guests.len(), args.guest_policy.as_deref(), &guest_settings)?;
    let seed = args.seed.or(scenario.seed).unwrap_or(0);
    let width = args.output.width.unwrap_or_else(output::width);
    let window = Window::asked(&RunDescription::of(&scenario), &args.output, width)?;
    Ok(Plan {
        scenario: scenario.into(),
        partitioned: Vec::new(),
        choices,
        guests,
        seed,
        window,
        width,
        xenmon: args.xenmon,
    })
}

/// The warm-up, from the option or from the scenario.
fn warm_up(args: &Sim, scenario: &Scenario) -> Result<Nanos, Failure> {
    let asked = args.warm_up.as_deref().map(input::duration::moment).transpose()?;
    let (warm_up, length) = (asked.unwrap_or(scenario.warm_up), scenario.length);
    if warm_up >= length && !warm_up.is_zero() {
        let reason = format!("a warm-up of {warm_up} leaves nothing of a run of {length} to report");
        return Err(usage(reason, &format!("use --warm-up below {length}, or a longer run with --for")));
    }
    Ok(warm_up)
}

fn simulate(plan: &Plan, choice: &Choice, args: &Sim) -> Result<Outcome, Failure> {
    let run = plan.run(choice, plan.seed);
    let header = run.header()?;
    let mut watch = Watching::new(&header, plan.window);
    let mut file = args.output.trace.as_deref().map(|path| Writing::create(path, &header)).transpose()?;
    let mut traces = args.ftrace.as_deref().map(|path| FtraceFiles::create(path, &header)).transpose()?;
    let mut jobs = args.jobs.then(|| JobLog::of(plan.scenario.hosts));
    let mut auditor = args.audit.then(|| run.auditor()).transpose()?;
    let mut monitor = plan.monitor();
    let mut observers = Observers::none();
    observers.extend(monitor.as_mut());
    if !args.output.json || args.output.svg.is_some() {
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
    Ok(Outcome { report, seen: watch.finish()?, files, audit })
}

/// The findings of an auditor, in words.
pub(crate) fn broken(auditor: &WorldAuditor) -> Vec<String> {
    let told = |(machine, finding): (Option<MachineId>, Finding)| match machine {
        Some(machine) if machine != MachineId(0) => format!("{finding} (machine {machine})"),
        _ => finding.to_string(),
    };
    auditor.findings().into_iter().map(told).collect()
}

fn json(outcomes: &[Outcome]) -> anyhow::Result<String> {
    let runs: Vec<Report> = outcomes.iter().map(|outcome| outcome.report.clone()).collect();
    output::json(&Runs { simulated: true, runs: &runs })
}

fn text(plan: &Plan, args: &Sim, outcomes: &[Outcome]) -> String {
    let reports: Vec<Report> = outcomes.iter().map(|outcome| outcome.report.clone()).collect();
    let mut text = output::heading(&title(plan)) + "\n\n";
    text += &match args.tasks {
        Some(_) => report::totals(&reports),
        None => pictures(plan, outcomes) + &tables(plan, &reports) + &report::guests(&reports, Widths(plan.width)),
    };
    text += &report::manager(&reports);
    text += &report::stalls(&reports);
    text += &report::xenmon(&reports, Widths(plan.width));
    let several = plan.scenario.hosts > 1;
    let guests = match plan.scenario.guests.is_empty() {
        _ if several => ", and those of other machines beside it",
        true => "",
        false => ", and those of guests beside it",
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
        text += &seen::gantt(&outcome.seen, &plan.scenario, plan.window, plan.width, ROWS_MOST);
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
    text + &report::applications(reports)
}

/// `three VMs under edf: 1 CPU, 2s simulated, seed 0`.
fn title(plan: &Plan) -> String {
    format!("{}, seed {}", plan.title(), plan.seed)
}

/// Suggestions for next commands.
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
        ideas.push("--trace FILE.json for Perfetto".to_string());
    }
    if ideas.is_empty() {
        String::new()
    } else {
        output::folded(&format!("Next: {}.", ideas.join(", ")), plan.width.into()).join("\n") + "\n"
    }
}
