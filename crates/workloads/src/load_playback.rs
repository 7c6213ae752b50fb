use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use input::files::{Files, Unreadable, resolved};
use input::form;
use input::problem::Problem;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};
use toml::de::DeValue;

/// Playback of a load trace. In each step, the given mean number of tasks is runnable. Source: Dinda and O'Hallaron,
/// Realistic CPU workloads through host load trace playback (LCR 2000), used in `vsched-2005`, section 6.2. At a load
/// of 1.5, one worker is runnable throughout the step, and another in the first half of the step. The workers are
/// runnable for these times regardless of the CPU time that they receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadPlayback {
    /// Load of each step. Unit: thousandths. Range: 0 to [`LOAD_MILLI_MAX`](LoadPlayback::LOAD_MILLI_MAX). Length: at
    /// least one.
    pub loads_milli: Vec<u64>,
    /// Duration of a step. Range: above zero.
    pub step: Nanos,
}

impl LoadPlayback {
    /// Maximum load, in thousandths.
    pub const LOAD_MILLI_MAX: u64 = 1_000_000;
    /// CPU time between two reads of the clock.
    pub const GRAIN: Nanos = Nanos::ms(1);

    /// Returns the workload with steps of one second, as in the source's traces.
    #[must_use]
    pub fn new(loads_milli: Vec<u64>) -> LoadPlayback {
        LoadPlayback { loads_milli, step: Nanos::s(1) }
    }

    /// Returns the required number of workers.
    #[must_use]
    pub fn workers(&self) -> u64 {
        self.loads_milli.iter().max().copied().unwrap_or(0).div_ceil(1000).max(1)
    }

    /// Returns the mean load of all steps. Unit: thousandths.
    #[must_use]
    pub fn mean_milli(&self) -> u64 {
        let sum: u128 = self.loads_milli.iter().copied().map(u128::from).sum();
        u64::try_from(sum / self.loads_milli.len().max(1) as u128).unwrap_or(u64::MAX)
    }

    /// Returns all workers.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let worker = |number: u64| {
            let mut steps = Vec::new();
            for load in &self.loads_milli {
                let share = load.saturating_sub(1000 * number).min(1000);
                let wants = u128::from(self.step.as_ns()) * u128::from(share) / 1000;
                let wants = Nanos::ns(u64::try_from(wants).unwrap_or(u64::MAX));
                let rests = self.step.saturating_sub(wants);
                let grain = LoadPlayback::GRAIN;
                steps.extend((!wants.is_zero()).then_some(Step::RunUntil { timer: 0, period: wants, grain }));
                let mode = TimerMode::Absolute;
                steps.extend((!rests.is_zero()).then_some(Step::Timer { timer: 0, period: rests, mode }));
            }
            TaskSpec { name: format!("worker-{number}"), params, delay: Length::Fixed(Nanos::ZERO), steps }
        };
        Application { tasks: (0..self.workers()).map(worker).collect(), ..Application::default() }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "load_playback",
    title: "playback of a trace of host load",
    keys: &["loads", "step"],
    example: "{ load_playback = { loads = [0.5, 1.5] } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let Some((value, at)) = settings.table.get("loads") else {
        let problem = Problem::new("the workload `load_playback` has no loads").at(settings.table.at, "no loads");
        settings.findings.add(problem.help("use { load_playback = { loads = [0.5, 1.5] } }, or the name of a file"));
        return None;
    };
    let loads = match value {
        DeValue::String(file) => {
            let name = resolved(settings.findings.source().name(), file);
            match trace(&name, &*settings.findings.files()) {
                Ok(loads) => Some(loads),
                Err(problem) => {
                    settings.findings.add(problem.at(at, "this file"));
                    None
                }
            }
        }
        _ => settings.read("loads", loads),
    };
    let default = LoadPlayback::new(loads.unwrap_or_default());
    let playback = LoadPlayback { step: settings.time("step", default.step), ..default };
    if playback.loads_milli.is_empty() { None } else { settings.done(playback) }
}

/// Reads the loads in a file: one number per line. Empty lines and text after a `#` are ignored.
fn trace(shown: &str, files: &dyn Files) -> Result<Vec<u64>, Problem> {
    const RIGHT: &str = "use a text file with a load in each line, such as 1.5";
    let unreadable = |why: &str| Problem::new(format!("the loads in {shown} cannot be read: {why}")).help(RIGHT);
    let bytes = files.read(shown).map_err(|why| match why {
        Unreadable::Missing(_) | Unreadable::NotAFile => unreadable("there is no such file"),
        Unreadable::Denied(_) => unreadable("it is not readable for this user"),
    })?;
    let source = input::text::decode(shown, bytes).map_err(|_| unreadable("it is no text, or too large"))?;
    let mut loads = Vec::new();
    for (number, line) in source.text().lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let load = form::milli(line).filter(|&load| load <= LoadPlayback::LOAD_MILLI_MAX).ok_or_else(|| {
            let most = LoadPlayback::LOAD_MILLI_MAX / 1000;
            Problem::new(format!("line {} of {shown} is no load", number + 1))
                .help(format!("use a number from 0 to {most} with at most three decimals, such as 1.5"))
        })?;
        loads.push(load);
    }
    if loads.is_empty() { Err(unreadable("it has no load")) } else { Ok(loads) }
}

/// Reads a list of loads, in thousandths.
fn loads(value: &DeValue<'_>) -> Result<Vec<u64>, Wrong> {
    const RIGHT: &str = "a list of loads, such as [0.5, 1.5], or the name of a file with one in each line";
    let DeValue::Array(values) = value else { return Err(form::mistyped("loads", value, RIGHT)) };
    if values.is_empty() {
        return Err(Wrong::new("there is no load in `loads`", "none", format!("use {RIGHT}")));
    }
    let load = |value: &toml::Spanned<DeValue<'_>>| {
        form::thousandths("loads", value.get_ref(), 0..=LoadPlayback::LOAD_MILLI_MAX)
            .map_err(|wrong| wrong.part(value.span().into()))
    };
    values.iter().map(load).collect()
}

impl ApplicationWorkload for LoadPlayback {
    fn tasks(&self) -> u64 {
        self.workers()
    }

    fn steps(&self) -> u64 {
        self.workers().saturating_mul(2 * self.loads_milli.len() as u64)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Contention { asked_milli: self.mean_milli() })
    }
}
