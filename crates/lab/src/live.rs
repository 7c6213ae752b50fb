//! Live experiments: runs with real processes on this host.

use crate::cell::Cell;
use crate::problem::Problem;
use crate::results::Measured;
use measure::Supply;
use minijinja::Value;
use minijinja::value::Serde;
use report::Report;
use scenario::Scenario;
use sched::{Instant, Nanos, Reservation};
use serde::Serialize;
use std::collections::BTreeMap;

/// Name of the axis that selects what keeps the promises of a live run. Without this axis, the value is the first
/// element of [`MECHANISMS`].
pub const AXIS: &str = "mechanism";

/// The values of the axis [`AXIS`]: the values of `tactus run --mechanism`; `quota`, a cap of the promised share, by the
/// kernel's bandwidth control; `kernel`, only the kernel's scheduler, without promises; and [`BMQ`].
pub const MECHANISMS: [&str; 7] = ["auto", "inherit", "fifo", "deadline", "quota", "kernel", BMQ];

/// The value of the axis [`AXIS`] with which the port of `bmq` schedules all threads of the kernel, without promises.
pub const BMQ: &str = "bmq";

/// Name of the measurement of stolen CPU time, which every live run has. Unit: parts per million of the CPUs.
pub const STEAL: &str = "steal_ppm";
/// Maximum share of stolen CPU time in a run that counts. Unit: parts per million.
pub const STEAL_MOST: u64 = 5_000;
/// Maximum number of attempts of a run with too much stolen time.
const ATTEMPTS: u32 = 8;

/// A host that runs the scenarios of live experiments.
pub trait Host: Sync {
    /// Runs `scenario` with real processes, under one of [`MECHANISMS`]. `None`: the run was interrupted.
    ///
    /// # Errors
    /// A promise is refused, or the run fails.
    fn run(&self, scenario: Scenario, mechanism: &str) -> Result<Option<LiveRun>, LiveFailure>;

    /// Waits before attempt number `attempt`, from 1 on: a hypervisor that takes CPU time may do so for some seconds.
    fn pause(&self, attempt: u32);

    /// Describes the machine in one line, without a full stop.
    fn machine(&self) -> String;

    /// Returns a hash of the program. Runs of another program are not taken from a store.
    fn program(&self) -> String;
}

/// Reason why a live run has no report.
#[derive(Debug)]
pub enum LiveFailure {
    /// A promise is refused, for this reason.
    Refused(String),
    /// The run has failed, for this reason.
    Failed(String),
}

/// A finished live run.
#[derive(Debug)]
pub struct LiveRun {
    /// Report of the run.
    pub report: Report,
    /// The processes of the scenario, in its order.
    pub processes: Vec<LiveProcess>,
    /// CPU time that a hypervisor took from the CPUs during the run; `None`: the host does not count it. Unit: parts per
    /// million.
    pub steal_ppm: Option<u64>,
}

/// A process of a live run.
#[derive(Debug)]
pub struct LiveProcess {
    /// Name of its VM or task in the scenario.
    pub name: String,
    /// Reservation in the scenario, whether or not something keeps it.
    pub reservation: Option<Reservation>,
    /// Standard output of a command.
    pub output: String,
    /// Time from the start of the process to its end.
    pub took: Nanos,
    /// For a worker: the intervals in which it was on a CPU, according to the kernel, and start and end of its work.
    pub supply: Option<(Supply, Instant, Instant)>,
}

/// A process in the expressions of an experiment.
#[derive(Serialize)]
struct ProcessView<'r> {
    output: &'r str,
    took_ns: u64,
    #[serde(flatten)]
    worker: Option<WorkerView>,
}

/// The CPU time of a worker in the expressions of an experiment.
#[derive(Serialize)]
struct WorkerView {
    /// CPU time in each whole second since the process first ran.
    seconds_ns: Vec<u64>,
    #[serde(flatten)]
    judged: Option<PeriodsView>,
}

/// The judgement of a reservation in the expressions of an experiment.
#[derive(Serialize)]
struct PeriodsView {
    periods: u64,
    missed: u64,
    worst_ns: u64,
    debt_ns: u64,
}

impl LiveProcess {
    fn view(&self) -> ProcessView<'_> {
        let worker = self.supply.as_ref().map(|(supply, start, end)| {
            // The first period of a process that always wants the CPU begins when it first runs.
            let first = supply.first_from(*start).unwrap_or(*start);
            let judged = self.reservation.map(|Reservation { slice, period, .. }| {
                let judged = supply.judge(slice, period, first, *end);
                let (worst_ns, debt_ns) = (judged.worst.as_ns(), judged.debt.as_ns());
                PeriodsView { periods: judged.periods, missed: judged.missed, worst_ns, debt_ns }
            });
            let seconds_ns = supply.windows(first, *end, Nanos::s(1)).map(Nanos::as_ns).collect();
            WorkerView { seconds_ns, judged }
        });
        ProcessView { output: &self.output, took_ns: self.took.as_ns(), worker }
    }
}

/// Returns the processes of `run` for expressions, by name.
fn processes(run: &LiveRun) -> Value {
    let all = run.processes.iter().map(|process| (process.name.clone(), Value::from(Serde(process.view()))));
    Value::from(all.collect::<BTreeMap<String, Value>>())
}

impl Cell<'_> {
    /// Returns what keeps the promises of this cell in a live run.
    pub(crate) fn mechanism(&self) -> Result<&str, Problem> {
        let Some(value) = self.point.get(AXIS) else { return Ok(MECHANISMS[0]) };
        value.as_str().filter(|name| MECHANISMS.contains(name)).ok_or_else(|| {
            let what = format!("`{value}` keeps no promises");
            Problem::wrong(&self.experiment.path, what, format!("one of {}", MECHANISMS.join(", ")))
        })
    }

    /// Runs the cell on `host`, again if the run does not count or a hypervisor took more than [`STEAL_MOST`] of the
    /// CPUs, and evaluates its metrics. `None`: the run was interrupted.
    ///
    /// # Errors
    /// The scenario cannot be run, the evaluation of an expression fails, or no attempt counts.
    pub fn play_live(&self, host: &dyn Host) -> Result<Option<Measured>, Problem> {
        let mechanism = self.mechanism()?;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                host.pause(attempt);
            }
            let run = match host.run(self.scenario()?, mechanism) {
                Ok(None) => return Ok(None),
                Ok(Some(run)) => run,
                Err(LiveFailure::Refused(why)) if self.experiment.may_refuse => {
                    return self.measure(None, Some(why), BTreeMap::new()).map(Some);
                }
                Err(LiveFailure::Refused(why) | LiveFailure::Failed(why)) => return Err(self.failed(why)),
            };
            let steal = run.steal_ppm.unwrap_or(0);
            let views = BTreeMap::from([("processes", processes(&run))]);
            if steal <= STEAL_MOST && self.counts(&run.report, views.clone())? {
                let mut measured = self.measure(Some(&run.report), None, views)?;
                measured.insert(STEAL.to_string(), steal.into());
                return Ok(Some(measured));
            }
        }
        let why = format!(
            "none of {ATTEMPTS} attempts counts: a hypervisor took more than {STEAL_MOST} ppm of the CPUs, or the condition \
             `counts` did not hold"
        );
        Err(self.failed(why))
    }

    /// Returns whether a run counts.
    fn counts(&self, report: &Report, views: BTreeMap<&'static str, Value>) -> Result<bool, Problem> {
        let Some(condition) = &self.experiment.counts else { return Ok(true) };
        Ok(self.evaluate("counts", condition, &self.context(Some(report), None, views))?.is_true())
    }
}
