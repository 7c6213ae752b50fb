//! [`run`]: one run without the GIL, with progress, interruption and recorders.

#![expect(clippy::disallowed_methods, reason = "the module calls Python every 40 ms and reports the duration of a run")]

use crate::choice::Chosen;
use crate::failure::{input_error, internal_error, law_error, policy_error, stopped, without_panic};
use crate::jobs::jobs_table;
use crate::made::{Failed, Failure};
use crate::result::{Recorded, RunResult};
use crate::scenario::PyScenario;
use crate::switches::SwitchTable;
use crate::table::TraceTable;
use ::run::{Observers, Progress, Run};
use input::problem::Problems;
use measure::jobs::JobLog;
use pyo3::prelude::*;
use report::Report;
use std::time::{Duration, Instant};

/// Time between two calls of the progress function, and between two checks for Ctrl-C.
const WATCHED_EVERY: Duration = Duration::from_millis(40);

/// What a run records besides its report.
#[derive(Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) trace: bool,
    pub(crate) switches: bool,
    pub(crate) jobs: bool,
    pub(crate) audit: bool,
}

/// Observer of a run: the caller's progress function, Ctrl-C and the failure of a policy in Python.
pub(crate) struct Watch {
    progress: Option<Py<PyAny>>,
    failure: Option<Failure>,
    last: Instant,
    /// Exception that ended the run.
    pub(crate) raised: Option<PyErr>,
    /// Simulated time at which the progress function stopped the run. Unit: nanoseconds.
    pub(crate) stopped_ns: Option<u64>,
}

impl Watch {
    /// Creates the observer of a run that begins now.
    pub(crate) fn of(progress: Option<Py<PyAny>>, failure: Option<Failure>) -> Watch {
        Watch { progress, failure, last: Instant::now(), raised: None, stopped_ns: None }
    }

    /// Returns whether the run goes on.
    pub(crate) fn goes_on(&mut self, progress: Progress) -> bool {
        if self.failure.as_ref().is_some_and(Failure::is_set) {
            return false;
        }
        if self.last.elapsed() < WATCHED_EVERY {
            return true;
        }
        self.last = Instant::now();
        match Python::attach(|py| self.tell(py, progress)) {
            Ok(goes_on) => goes_on,
            Err(raised) => {
                self.raised = Some(raised);
                false
            }
        }
    }

    fn tell(&mut self, py: Python<'_>, progress: Progress) -> PyResult<bool> {
        py.check_signals()?;
        let Some(function) = &self.progress else { return Ok(true) };
        let (now, end) = (progress.now.as_ns(), progress.end.as_ns());
        let answer = function.bind(py).call1((now, end))?;
        let goes_on = answer.is_none() || answer.is_truthy()?;
        if !goes_on {
            self.stopped_ns = Some(now);
        }
        Ok(goes_on)
    }
}

/// Runs `run`. `None`: `watch` ended the run.
pub(crate) fn play(
    run: &Run,
    recording: Recording,
    goes_on: impl FnMut(Progress) -> bool,
) -> Result<Option<(Report, Recorded)>, Problems> {
    let header = run.header()?;
    let mut trace = recording.trace.then(|| TraceTable::new(&header));
    let mut switches = recording.switches.then(|| SwitchTable::new(&header));
    let mut jobs = recording.jobs.then(|| run.job_log());
    let mut auditor = recording.audit.then(|| run.auditor()).transpose()?;
    let mut observers = Observers::none();
    observers.extend(trace.as_mut());
    observers.extend(auditor.as_mut());
    observers.extend(jobs.as_mut());
    if let Some(switches) = &mut switches {
        observers = observers.host(switches);
    }
    let Some(outcome) = run.play_while(observers, goes_on)? else { return Ok(None) };
    let mut report = Report::of(outcome);
    report.jobs = jobs.map(JobLog::into_jobs);
    let recorded = Recorded {
        trace: trace.map(TraceTable::finish),
        switches: switches.map(SwitchTable::finish),
        jobs: report.jobs.as_deref().map(jobs_table),
        findings: auditor
            .map(|auditor| auditor.findings().into_iter().map(|(_, finding)| finding.to_string()).collect()),
    };
    Ok(Some((report, recorded)))
}

/// Runs `scenario` under `policy`. The GIL is released during the run.
#[pyfunction]
#[pyo3(signature = (
    scenario, policy = None, *, knobs = Vec::new(), guest_policy = None, guest_knobs = Vec::new(), seed = None,
    trace = false, switches = false, jobs = false, audit = false, progress = None
))]
#[expect(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "they are keywords in Python")]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, PyScenario>,
    policy: Option<Bound<'_, PyAny>>,
    knobs: Vec<String>,
    guest_policy: Option<String>,
    guest_knobs: Vec<String>,
    seed: Option<u64>,
    trace: bool,
    switches: bool,
    jobs: bool,
    audit: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<RunResult> {
    let asked = scenario.get();
    let chosen = Chosen::new(asked, policy.as_ref(), &knobs, guest_policy.as_deref(), &guest_knobs, py)?;
    let seed = seed.or(chosen.scenario.seed).unwrap_or(0);
    let Chosen { scenario: placed, choice, guests, failure } = chosen;
    let run = Run { seed, guests, ..Run::new(placed, choice) };
    // The command has no policies in Python.
    let replay = match &failure {
        None => format!("{} --policy {} --seed {seed}", asked.replay(), run.choice.name()),
        Some(_) => format!("tactus_sched.run(scenario, {}, seed={seed})", run.choice.name()),
    };
    let recording = Recording { trace, switches, jobs, audit };
    let mut watch = Watch::of(progress, failure.clone());
    let begun = Instant::now();
    let played = py.detach(|| without_panic(|| play(&run, recording, |progress| watch.goes_on(progress))));
    let elapsed = begun.elapsed();
    if let Some(failed) = failure.as_ref().and_then(Failure::take) {
        return Err(match failed {
            Failed::Raised { method, error } => policy_error(py, run.choice.name(), method, error),
            Failed::BrokeLaw(message) => law_error(py, &message, &replay),
        });
    }
    if let Some(raised) = watch.raised {
        return Err(raised);
    }
    match played {
        Err(message) if failure.is_some() => Err(law_error(py, &message, &replay)),
        Err(message) => Err(internal_error(py, &message, &replay)),
        Ok(Err(why)) => Err(input_error(py, &why)),
        Ok(Ok(None)) => Err(stopped(py, watch.stopped_ns.unwrap_or_default())),
        Ok(Ok(Some((report, recorded)))) => {
            Ok(RunResult { run, report, recorded, elapsed, scenario: scenario.clone().unbind(), replay })
        }
    }
}

/// Fails as a run with a defect does. Only tests call this function.
#[pyfunction]
#[pyo3(name = "_panic")]
pub(crate) fn panic(py: Python<'_>, replay: &str) -> PyResult<()> {
    let failed = py.detach(|| without_panic(|| panic!("a run has a defect")));
    failed.map_err(|message| internal_error(py, &message, replay))
}
