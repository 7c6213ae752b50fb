//! [`Plan`]: the runs of `tactus sim`.

use super::ports;
use crate::args::Sim;
use crate::failure::{Failure, usage};
use crate::record::Form;
use crate::window::Window;
use crate::{ftrace, output};
use input::knobs::KnobSetting;
use input::problem::Problems;
use measure::XenMon;
use report::{RunDescription, XenMonReport, short};
use run::{Choice, Placement, Run};
use scenario::{Scenario, taskset};
use sched::Nanos;
use sim::auditor::{Finding, WorldAuditor};
use std::sync::Arc;
use trace::{MachineId, WorldHeader};

/// The runs, with their options.
pub(crate) struct Plan {
    pub(crate) scenario: Arc<Scenario>,
    /// For each policy, its name and a scenario in which each task is pinned to the CPU that the policy assigns to it.
    /// Empty unless partitioning was requested.
    pub(crate) partitioned: Vec<(String, Arc<Scenario>)>,
    pub(crate) choices: Vec<Choice>,
    /// Policy of all guests, in place of their own.
    pub(crate) guests: Option<Choice>,
    pub(crate) seed: u64,
    /// Window of the drawing.
    pub(crate) window: Window,
    pub(crate) width: u16,
    /// Whether domains are monitored.
    pub(crate) xenmon: bool,
}

impl Plan {
    /// Returns one run, under one of the plan's choices.
    pub(crate) fn run(&self, choice: &Choice, seed: u64) -> Run {
        let placed = self.partitioned.iter().find(|(name, _)| name == choice.name());
        let scenario = placed.map_or(&self.scenario, |(_, scenario)| scenario);
        Run { seed, guests: self.guests.clone(), ..Run::new(Arc::clone(scenario), choice.clone()) }
    }

    /// Returns the monitor of the domains, if monitoring was requested.
    pub(crate) fn monitor(&self) -> Option<XenMon> {
        self.xenmon.then(|| XenMon::new(self.scenario.measured_from()))
    }

    /// Returns the results of `monitor` for a run.
    pub(crate) fn monitored(&self, monitor: Option<&XenMon>, header: &WorldHeader) -> Option<XenMonReport> {
        Some(XenMonReport::new(monitor?, header, self.scenario.warm_up, self.scenario.length))
    }

    /// Returns a title such as `three VMs under edf: 1 CPU, 2s simulated`.
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

pub(super) fn plan(args: &Sim) -> Result<Plan, Failure> {
    args.output.trace.as_deref().map(Form::of).transpose()?;
    args.ftrace.as_deref().map(ftrace::check).transpose()?;
    let traced = [("--trace", &args.output.trace), ("--ftrace", &args.ftrace)];
    if let Some((option, _)) = traced.iter().find(|(_, file)| file.is_some() && args.policy.len() > 1) {
        let right = format!("use one --policy with {option}, or several without");
        return Err(usage("a trace is of one run, but there are several policies".to_string(), &right));
    }
    match (&args.tasks, &args.scenario) {
        (Some(path), _) => {
            ports::reject(&args.policy, "a port ends slices, and the jobs of a task set run to their end")?;
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

/// Returns the plan for `scenario` with the options of the command line.
pub(crate) fn plan_of(args: &Sim, mut scenario: Scenario) -> Result<Plan, Failure> {
    if let Some(length) = &args.length {
        scenario.length = input::duration::length(length)?;
    }
    scenario.warm_up = warm_up(args, &scenario)?;
    let choices = ports::choose(&scenario, &args.policy, &settings(&args.knob)?)?;
    plan_under(args, scenario, choices)
}

fn settings(knobs: &[String]) -> Result<Vec<KnobSetting>, Problems> {
    knobs.iter().map(|text| text.parse()).collect()
}

fn plan_under(args: &Sim, scenario: Scenario, choices: Vec<Choice>) -> Result<Plan, Failure> {
    let guest_policy: Vec<String> = args.guest_policy.iter().cloned().collect();
    ports::reject(&guest_policy, "a port schedules a host, not a guest, whose CPUs come and go")?;
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

/// Returns the warm-up, from the option or from the scenario.
fn warm_up(args: &Sim, scenario: &Scenario) -> Result<Nanos, Failure> {
    let asked = args.warm_up.as_deref().map(input::duration::moment).transpose()?;
    let (warm_up, length) = (asked.unwrap_or(scenario.warm_up), scenario.length);
    if warm_up >= length && !warm_up.is_zero() {
        let reason = format!("a warm-up of {warm_up} excludes the whole run of {length}");
        return Err(usage(reason, &format!("use --warm-up below {length}, or a longer run with --for")));
    }
    Ok(warm_up)
}

/// Returns the findings of an auditor as text.
pub(crate) fn broken(auditor: &WorldAuditor) -> Vec<String> {
    let in_words = |(machine, finding): (Option<MachineId>, Finding)| match machine {
        Some(machine) if machine != MachineId(0) => format!("{finding} (machine {machine})"),
        _ => finding.to_string(),
    };
    auditor.findings().into_iter().map(in_words).collect()
}
