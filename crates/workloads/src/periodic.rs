use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::least;
use crate::length::length_above_zero;
use crate::network::Plan;
use input::form;
use input::problem::Findings;
use input::problem::Problem;
use input::problem::Wrong;
use input::source::Placed;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};
use std::sync::Arc;
use toml::de::DeValue;

/// A job in every period, like [`sim::Periodic`], with random work or a random phase.
///
/// The measured duration of a job starts when its task begins the job, not at the start of the period. The event `Woke`
/// reports the delay between these instants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Periodic {
    /// Time from one job to the next. Range: above zero.
    pub period: Nanos,
    /// CPU time of each job.
    pub work: Length,
    /// Time from the arrival to the first job.
    pub phase: Phase,
    /// Time from the start of a job to its deadline.
    pub deadline: Nanos,
}

/// The start of the first period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A fixed time after the arrival.
    Fixed(Nanos),
    /// A random instant within a period, drawn from the seed of the run.
    Random,
}

impl Periodic {
    /// Returns an application with the periodic task as its only task.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let delay = match self.phase {
            Phase::Fixed(phase) => Length::Fixed(phase),
            Phase::Random => {
                Length::Uniform { least: Nanos::ZERO, most: Nanos::ns(self.period.as_ns().saturating_sub(1)) }
            }
        };
        // After a job that ends late, the task does not wait, because the next period has already begun.
        let body = vec![
            Step::JobBegins { deadline: Some(self.deadline) },
            Step::Run(self.work),
            Step::JobEnds,
            Step::Timer { timer: 0, period: self.period, mode: TimerMode::Absolute },
            Step::Woke,
        ];
        let steps = vec![Step::Repeat { times: None, body }];
        Application {
            tasks: vec![TaskSpec { name: "periodic".to_string(), params, delay, steps }],
            ..Application::default()
        }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "periodic",
    title: "periodic tasks whose work or phase is random",
    keys: &["period", "work", "phase", "deadline", "end"],
    example: "{ periodic = { period = \"10ms\", work = \"2ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let period = settings.table.read("period", |value| form::time_above_zero("period", value), settings.findings);
    let work = settings.table.read("work", |value| length_above_zero("work", value), settings.findings);
    let phase = settings.table.read("phase", phase, settings.findings);
    let deadline = settings.table.read("deadline", |value| form::time_above_zero("deadline", value), settings.findings);
    let end = settings.table.read("end", job_end, settings.findings);
    for (key, is_absent) in [("period", period.is_absent()), ("work", work.is_absent())] {
        if is_absent {
            let problem =
                Problem::new(format!("the periodic workload has no {key}")).at(settings.table.at, format!("no {key}"));
            settings.findings.add(problem.help("use { period = \"10ms\", work = \"2ms\" }"));
        }
    }
    let (period, work) = (period.right()?, work.right()?);
    let deadline = deadline.right();
    let bounds = [("period", Some(period)), ("deadline", deadline)];
    let fits = bounds.into_iter().filter(|&(what, bound)| !fits(work, what, bound, settings.findings)).count() == 0;
    let phase = phase.value().unwrap_or(Phase::Fixed(Nanos::ZERO));
    if let (Length::Fixed(length), Phase::Fixed(phase)) = (work.value, phase) {
        let jobs = sim::Periodic::new(period.value, length);
        let jobs = sim::Periodic {
            phase,
            deadline: deadline.map_or(jobs.deadline, |deadline| deadline.value),
            end: end.value().unwrap_or(jobs.end),
            ..jobs
        };
        return fits.then_some(Selected::Entity(sim::Workload::Periodic(jobs)));
    }
    if let Some(end) = end.right().filter(|end| end.value == sim::JobEnd::Yield) {
        let problem =
            Problem::new("jobs with random work or phase do not yield at their end").at(end.at, "not with chance");
        settings.findings.add(problem.help("use end = \"silent\", or fixed work and phase"));
        return None;
    }
    let deadline = deadline.map_or(period.value, |deadline| deadline.value);
    let jobs = Periodic { period: period.value, work: work.value, phase, deadline };
    fits.then(|| Selected::Application(Arc::new(jobs)))
}

/// Returns whether constant work, or the minimum of random work, fits into `bound`. Reports an error if the work does
/// not fit.
fn fits(work: Placed<Length>, what: &str, bound: Option<Placed<Nanos>>, findings: &mut Findings) -> bool {
    let least = least(work.value);
    let Some(bound) = bound.filter(|bound| least > bound.value) else { return true };
    let message = format!("the work ({least}) is longer than the {what} ({})", bound.value);
    let problem =
        Problem::new(message).at(work.at, format!("longer than the {what}")).at(bound.at, format!("the {what}"));
    findings.add(problem.help(format!("use at most {}: a job runs on one CPU at a time", bound.value)));
    false
}

/// Reads the time from an arrival to the first job.
fn phase(value: &DeValue<'_>) -> Result<Phase, Wrong> {
    match value.as_str() {
        Some("random") => Ok(Phase::Random),
        _ => form::time("phase", value).map(Phase::Fixed),
    }
}

/// Reads whether a task yields at the end of a job if its next job is already released.
fn job_end(value: &DeValue<'_>) -> Result<sim::JobEnd, Wrong> {
    form::word(
        "end",
        value,
        &[("silent", sim::JobEnd::Silent), ("yield", sim::JobEnd::Yield)],
        "\"silent\" or \"yield\"",
    )
}

impl ApplicationWorkload for Periodic {
    fn tasks(&self) -> u64 {
        1
    }

    fn steps(&self) -> u64 {
        5
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }
}
