//! The tasks of a file of SimSo.

use super::clock::Clock;
use super::element::{Element, Known, milliseconds, wrong_value};
use super::scheduler::{Order, Scheduler};
use crate::AppSpec;
use input::problem::{Findings, Problem, quoted};
use input::source::{Placed, Span};
use sched::params::Class;
use sched::{Instant, Nanos, Params, Reservation, RtPriority};
use sim::program::Length;
use sim::{Application, Jobs, LateJobs, Releases, Step, TaskSpec};
use std::collections::{BTreeMap, BTreeSet};
use workloads::network::Reach;

const TASKS: Known = Known { name: "tasks", attributes: &[], without_effect: &[] };
const TASK: Known = Known {
    name: "task",
    attributes: &[
        "name",
        "id",
        "task_type",
        "periodic",
        "abort_on_miss",
        "period",
        "activationDate",
        "list_activation_dates",
        "WCET",
        "deadline",
        "preemption_cost",
    ],
    // The execution time models other than `wcet` read these.
    without_effect: &["ACET", "et_stddev", "base_cpi", "instructions", "mix", "stack"],
};
/// Number of real-time priorities.
const PRIORITIES: usize = 99;

/// A task, before its priority is known.
struct Task<'d> {
    name: &'d str,
    jobs: Jobs,
    /// Rank in the order of the scheduler: the greatest rank runs first. Unit: cycles of the period, or a priority.
    rank: i64,
    /// Span of the value that determines the rank.
    ranked: Span,
    place: Span,
}

/// Reads the tasks. `None`: a task is invalid.
pub(super) fn read(
    element: &Element<'_, '_>,
    scheduler: Scheduler,
    clock: Clock,
    findings: &mut Findings,
) -> Option<Vec<AppSpec>> {
    element.check(&TASKS, findings);
    element.check_children(&["task", "field"], findings);
    let fields = element.fields();
    let elements: Vec<Element<'_, '_>> = element.children("task").collect();
    if elements.is_empty() {
        findings.add(Problem::new("the system has no tasks").at(element.at(), "here").help("add an element `task`"));
    }
    let mut names = BTreeSet::new();
    let mut tasks = Vec::with_capacity(elements.len());
    for element in &elements {
        element.check_data(&TASK, &fields, findings);
        element.check_children(&[], findings);
        let task = task(element, scheduler.order, &fields, clock, findings);
        if let Some(task) = task {
            if !names.insert(task.name) {
                let problem = Problem::new(format!("the name {} is taken", quoted(task.name)));
                findings.add(problem.at(element.at_value("name"), "again").help("use a name of its own for each task"));
            }
            tasks.push(task);
        }
    }
    if scheduler.order == Order::Deadline {
        let reserved = |task: Task<'_>| {
            // The slice has no effect without enforcement, but must fit into the period.
            let reservation = Some(Reservation::new(task.jobs.work.min(task.jobs.deadline), task.jobs.deadline));
            application(task.name, Params { reservation, ..Params::default() }, task.jobs, task.place)
        };
        return Some(tasks.into_iter().map(reserved).collect());
    }
    with_priorities(tasks, scheduler, findings)
}

/// Gives each task a real-time priority in the order of the ranks.
fn with_priorities(tasks: Vec<Task<'_>>, scheduler: Scheduler, findings: &mut Findings) -> Option<Vec<AppSpec>> {
    let mut ranks: BTreeMap<i64, u8> = BTreeMap::new();
    for task in &tasks {
        let is_taken = ranks.insert(task.rank, 0).is_some();
        if is_taken && !scheduler.is_mono {
            let reason = format!("{} has the priority of another task", quoted(task.name));
            let help = "use different priorities: SimSo puts a preempted job behind jobs of equal priority";
            findings.add(Problem::new(reason).at(task.ranked, "not unique").help(help));
        }
    }
    if ranks.len() > PRIORITIES {
        let reason = format!("the tasks have {} different priorities", ranks.len());
        let at = tasks.first().map_or(Span::default(), |task| task.place);
        findings.add(Problem::new(reason).at(at, "from here").help(format!("use at most {PRIORITIES}")));
        return None;
    }
    for (priority, number) in ranks.values_mut().zip(1..) {
        *priority = number;
    }
    let placed = |task: Task<'_>| {
        let priority = RtPriority::new(ranks[&task.rank])?;
        let params = Params { class: Class::Fifo(priority), ..Params::default() };
        Some(application(task.name, params, task.jobs, task.place))
    };
    tasks.into_iter().map(placed).collect()
}

fn task<'d>(
    element: &Element<'d, '_>,
    order: Order,
    fields: &BTreeSet<&str>,
    clock: Clock,
    findings: &mut Findings,
) -> Option<Task<'d>> {
    element.must_be("preemption_cost", 0.0, "SimSo 0.8.5 charges no preemption cost", findings);
    let name = element.required("name", findings);
    let work = positive("WCET", element, clock, findings);
    let deadline = positive("deadline", element, clock, findings);
    let late = match element.text("abort_on_miss") {
        Some(text) if text.value != "yes" => LateJobs::Continue,
        _ => LateJobs::Abort,
    };
    let releases = releases(element, clock, findings);
    let (rank, ranked) = match order {
        Order::Deadline => (0, Span::default()),
        Order::Priority => priority(element, fields, findings)?,
        Order::Period => {
            let period = element.ms("period", findings)?;
            let length = clock.ms(period.value).as_ns();
            (-i64::try_from(length).unwrap_or(i64::MAX), period.at)
        }
    };
    let jobs = Jobs { releases: releases?, work: work?, deadline: deadline?, late };
    Some(Task { name: name?.value, jobs, rank, ranked, place: element.at() })
}

/// Reads a time that must have at least one cycle.
fn positive(name: &str, element: &Element<'_, '_>, clock: Clock, findings: &mut Findings) -> Option<Nanos> {
    let ms = element.ms(name, findings)?;
    let time = clock.ms(ms.value);
    if time.is_zero() {
        let problem = Problem::new(format!("{name} is less than a cycle")).at(ms.at, "less than a cycle");
        findings.add(problem.help(format!("use at least one of the {} cycles of a millisecond", clock.cycles_per_ms)));
        return None;
    }
    Some(time)
}

fn releases(element: &Element<'_, '_>, clock: Clock, findings: &mut Findings) -> Option<Releases> {
    let kind = element.text("task_type").map_or("Periodic", |text| text.value);
    let is_aperiodic =
        element.text("periodic").is_some_and(|text| text.value == "no") && element.text("task_type").is_none();
    match kind {
        "Periodic" if !is_aperiodic => {
            let first = match element.text("activationDate") {
                Some(_) => clock.ms(element.ms("activationDate", findings)?.value),
                None => Nanos::ZERO,
            };
            Some(Releases::Every { first, period: positive("period", element, clock, findings)? })
        }
        "Sporadic" => Some(Releases::At(dates(element, clock, findings)?)),
        _ => {
            let at = ["task_type", "periodic"].into_iter().find(|name| element.text(name).is_some());
            let problem = Problem::new("tasks that are activated by other tasks are not supported");
            let problem = problem.at(at.map_or(element.at(), |name| element.at_value(name)), "not supported");
            findings.add(problem.help("use task_type=\"Periodic\" or \"Sporadic\""));
            None
        }
    }
}

/// Reads the list of activation dates of a sporadic task, and sorts it.
fn dates(element: &Element<'_, '_>, clock: Clock, findings: &mut Findings) -> Option<Vec<Nanos>> {
    let list = element.required("list_activation_dates", findings)?;
    if list.value.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut dates = Vec::new();
    for date in list.value.split(',') {
        let Some(ms) = milliseconds(date) else {
            findings.add(wrong_value(
                Placed { value: date.trim(), at: list.at },
                "an activation date",
                "use numbers of milliseconds, separated by commas",
            ));
            return None;
        };
        dates.push(clock.ms(ms));
    }
    dates.sort_unstable();
    Some(dates)
}

/// Reads the field `priority`.
fn priority(element: &Element<'_, '_>, fields: &BTreeSet<&str>, findings: &mut Findings) -> Option<(i64, Span)> {
    if !fields.contains("priority") {
        let problem = Problem::new("the scheduler FP needs the field `priority`").at(element.at(), "has no priority");
        findings.add(problem.help("add <field name=\"priority\" type=\"int\"/> to the tasks"));
        return None;
    }
    let text = element.required("priority", findings)?;
    let number = text.value.trim().parse().ok();
    if number.is_none() {
        findings.add(wrong_value(text, "priority", "use a whole number; the greatest runs first"));
    }
    number.map(|number| (number, text.at))
}

/// Returns the application of a task.
fn application(name: &str, params: Params, jobs: Jobs, place: Span) -> AppSpec {
    let steps = vec![Step::Jobs(jobs.into())];
    let task = TaskSpec { name: name.to_string(), params, delay: Length::Fixed(Nanos::ZERO), steps };
    AppSpec {
        name: name.to_string(),
        group: None,
        host: 0,
        arrival: Instant::ZERO,
        leaves: None,
        application: Application { tasks: vec![task], ..Application::default() },
        metric: None,
        reach: Reach::default(),
        place,
    }
}
