//! Scenarios from XML files of [SimSo](https://projects.laas.fr/simso/) 0.8.5, a simulator of real-time scheduling.
//!
//! The conversion follows SimSo's parser (simso/configuration/parser.py) and its model of a processor
//! (simso/core/Processor.py). `docs/python.md` maps SimSo's model to a scenario. Elements and attributes that would
//! change the result, but have no counterpart here, are refused by name.
//!
//! `element` reads elements and attributes, `tasks` reads the tasks, and `scheduler` maps schedulers to policies.

mod clock;
mod element;
mod scheduler;
mod tasks;
#[cfg(test)]
mod tests;

use crate::Scenario;
use clock::Clock;
use element::{Element, Known};
use input::problem::{Findings, Problem, Problems, quoted};
use input::source::{Source, Span};
use roxmltree::{Document, ParsingOptions};
use sched::id::CPUS_MAX;
use sched::time::SPAN_MAX;
use sched::{Nanos, Topology};
use scheduler::{SCHEDULERS, Scheduler, policy};
use sim::{Costs, Handling};

/// Maximum number of nodes of a file.
const NODES_MAX: u32 = 1 << 20;
/// SimSo's default number of cycles per millisecond. Source: `Parser._parse_cycles_per_ms`.
const CYCLES_PER_MS: u64 = 1_000_000;
/// Maximum overhead. The sum of the overheads of a run then stays in the range of times.
const OVERHEAD_MAX: Nanos = Nanos::s(1);
/// SimSo's default duration. Unit: cycles. Source: `Parser._parse_duration`.
const DURATION: u64 = 50_000;

const SIMULATION: Known = Known {
    name: "simulation",
    attributes: &["duration", "cycles_per_ms", "etm", "use_wcet"],
    without_effect: &["penalty_preemption", "penalty_migration"],
};
const SCHEDULER: Known = Known {
    name: "sched",
    attributes: &["class", "className", "overhead", "overhead_activate", "overhead_terminate"],
    without_effect: &[],
};
const PROCESSORS: Known = Known { name: "processors", attributes: &["migration_overhead"], without_effect: &[] };
const PROCESSOR: Known =
    Known { name: "processor", attributes: &["id", "cl_overhead", "cs_overhead", "speed"], without_effect: &["name"] };

/// Returns whether `text` looks like a file of SimSo, not like TOML.
#[must_use]
pub fn is_simso(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// Reads the scenario in `source`.
///
/// # Errors
/// The errors in the file, each with its span and its remedy. A syntax error is reported alone.
pub fn read(source: &Source) -> Result<Scenario, Problems> {
    let mut findings = Findings::new(source);
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(source.text(), options)
        .map_err(|why| syntax_error(source.text(), &why).within(source))?;
    let title = source.name().rsplit('/').next().unwrap_or_default();
    let scenario = scenario(title, &document, &mut findings);
    findings.finish()?;
    let scenario = scenario.expect("a file without findings is complete");
    Ok(Scenario { source: source.clone(), ..scenario })
}

fn syntax_error(text: &str, why: &roxmltree::Error) -> Problem {
    let place = why.pos();
    let line = usize::try_from(place.row).unwrap_or(1).saturating_sub(1);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = usize::try_from(place.col).unwrap_or(1).saturating_sub(1);
    let at = text[start..].chars().take(column).map(char::len_utf8).sum::<usize>() + start;
    let problem = Problem::new(format!("the file is not XML: {why}")).at(Span { start: at, end: at + 1 }, "here");
    problem.help("use an XML file that SimSo 0.8.5 has written")
}

fn scenario(title: &str, document: &Document<'_>, findings: &mut Findings) -> Option<Scenario> {
    let root = Element::of(document.root_element());
    if root.name() != SIMULATION.name {
        let problem = Problem::new(format!("the file describes {}, not a simulation", quoted(root.name())));
        findings.add(problem.at(root.at(), "not a simulation").help("use an XML file of SimSo 0.8.5"));
        return None;
    }
    root.check(&SIMULATION, findings);
    check_execution_times(&root, findings);
    let clock = clock(&root, findings)?;
    let duration = root.whole("duration", findings).unwrap_or(DURATION);
    let [scheduler, caches, processors, tasks] =
        ["sched", "caches", "processors", "tasks"].map(|name| root.only_child(name, findings));
    root.check_children(&["sched", "caches", "processors", "tasks"], findings);
    if let Some(caches) = caches {
        // Only the execution time model `cache` reads the caches.
        caches.check_children(&["cache"], findings);
    }
    let (scheduler, processors, tasks) = (scheduler?, processors?, tasks?);
    let (scheduler_of, handling) = self::scheduler(&scheduler, clock, findings);
    let (cpus, handling) = self::processors(&processors, scheduler_of, handling, clock, findings)?;
    let applications = tasks::read(&tasks, scheduler_of?, clock, findings)?;
    let length = clock.cycles(duration);
    if length.is_zero() || length > SPAN_MAX {
        let (reason, label) = if length.is_zero() { ("zero", "zero") } else { ("too long", "too long") };
        let problem = Problem::new(format!("the duration is {reason}")).at(root.at_value("duration"), label);
        findings.add(problem.help(format!("use a duration from one cycle to {SPAN_MAX}")));
        return None;
    }
    Some(Scenario {
        policy: scheduler_of.map(|scheduler_of| policy(scheduler_of.order, scheduler.at_value("class"))),
        costs: Costs { handling, ..Costs::NONE },
        applications,
        ..Scenario::bare(title, Topology::new(cpus), length)
    })
}

/// Refuses execution time models other than the worst case.
fn check_execution_times(root: &Element<'_, '_>, findings: &mut Findings) {
    if let Some(etm) = root.text("etm").filter(|etm| etm.value != "wcet") {
        let problem = Problem::new(format!("the execution time model {} is not supported", quoted(etm.value)));
        findings.add(problem.at(etm.at, "not supported").help("use etm=\"wcet\""));
    } else if let (None, Some(uses)) = (root.text("etm"), root.text("use_wcet"))
        && !["true", "yes"].contains(&uses.value)
    {
        let problem = Problem::new("the execution time model `cache` is not supported");
        findings.add(problem.at(uses.at, "selects the model `cache`").help("use etm=\"wcet\""));
    }
}

fn clock(root: &Element<'_, '_>, findings: &mut Findings) -> Option<Clock> {
    let cycles_per_ms = root.whole("cycles_per_ms", findings).unwrap_or(CYCLES_PER_MS);
    if cycles_per_ms > 0 && 1_000_000_u64.is_multiple_of(cycles_per_ms) {
        return Some(Clock { cycles_per_ms });
    }
    let problem = Problem::new(format!("a cycle of 1/{cycles_per_ms} ms is not a whole number of nanoseconds"));
    let problem = problem.at(root.at_value("cycles_per_ms"), "not a divisor of 1000000");
    findings.add(problem.help("use a divisor of 1000000, such as 1000"));
    None
}

fn scheduler(element: &Element<'_, '_>, clock: Clock, findings: &mut Findings) -> (Option<Scheduler>, Handling) {
    element.check(&SCHEDULER, findings);
    element.check_children(&[], findings);
    let handling = Handling {
        decision: overhead(element, "overhead", clock, findings),
        activation: overhead(element, "overhead_activate", clock, findings),
        termination: overhead(element, "overhead_terminate", clock, findings),
        ..Handling::NONE
    };
    let names = || SCHEDULERS.iter().map(|scheduler| scheduler.class).collect::<Vec<_>>().join(", ");
    let help = || format!("use one of {}", names());
    if let Some(file) = element.text("className").filter(|file| !file.value.is_empty()) {
        let problem = Problem::new("a scheduler in a file of its own cannot be converted");
        findings
            .add(problem.at(file.at, "a Python program").help(format!("{}, or write a tactus_sched.Policy", help())));
        return (None, handling);
    }
    let Some(class) = element.text("class") else {
        findings.add(Problem::new("the scheduler has no class").at(element.at(), "no class").help(help()));
        return (None, handling);
    };
    let known = SCHEDULERS.iter().find(|scheduler| scheduler.class == class.value).copied();
    if known.is_none() {
        let problem = Problem::new(format!("the scheduler {} is not supported", quoted(class.value)));
        findings.add(problem.at(class.at, "not supported").help(help()));
    }
    (known, handling)
}

/// Reads an overhead. Reports an error if it is longer than [`OVERHEAD_MAX`].
fn overhead(element: &Element<'_, '_>, name: &str, clock: Clock, findings: &mut Findings) -> Nanos {
    let time = clock.cycles(element.floor(element.name(), name, findings));
    if time <= OVERHEAD_MAX {
        return time;
    }
    let problem = Problem::new(format!("{name} is longer than {OVERHEAD_MAX}")).at(element.at_value(name), "too long");
    findings.add(problem.help(format!("use at most {OVERHEAD_MAX}")));
    Nanos::ZERO
}

/// Returns the number of processors, and `handling` with the overheads of the processors.
fn processors(
    element: &Element<'_, '_>,
    scheduler: Option<Scheduler>,
    handling: Handling,
    clock: Clock,
    findings: &mut Findings,
) -> Option<(usize, Handling)> {
    element.check(&PROCESSORS, findings);
    element.check_children(&["processor", "field"], findings);
    element.must_be("migration_overhead", 0.0, "SimSo 0.8.5 charges no migration overhead", findings);
    let all: Vec<Element<'_, '_>> = element.children("processor").collect();
    let refuse = |reason: String, help: &str| Problem::new(reason).at(element.at(), "here").help(help);
    if all.is_empty() || all.len() > CPUS_MAX {
        let reason = format!("the system has {} processors", all.len());
        findings.add(refuse(reason, &format!("use 1 to {CPUS_MAX} processors")));
        return None;
    }
    let fields = element.fields();
    let mut overheads = Vec::with_capacity(all.len());
    for processor in &all {
        processor.check_data(&PROCESSOR, &fields, findings);
        processor.must_be("speed", 1.0, "all processors have the same speed here", findings);
        let load = overhead(processor, "cl_overhead", clock, findings);
        let save = overhead(processor, "cs_overhead", clock, findings);
        overheads.push((load, save));
    }
    let (load, save) = overheads[0];
    let handling = Handling { load, save, ..handling };
    let has_overheads = handling != Handling::NONE || overheads.iter().any(|&pair| pair != (Nanos::ZERO, Nanos::ZERO));
    if all.len() > 1 && has_overheads {
        let reason = format!("overheads are not supported on {} processors", all.len());
        findings
            .add(refuse(reason, "use one processor, or set all overheads to 0: SimSo serialises decisions by a lock"));
    }
    if let Some(Scheduler { class, is_mono: true, .. }) = scheduler
        && all.len() > 1
    {
        let reason = format!("{class} is for one processor, but there are {}", all.len());
        findings.add(refuse(reason, "use one processor, or the class without `_mono`"));
    }
    Some((all.len(), handling))
}
