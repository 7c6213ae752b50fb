//! [`run`]: one run without the GIL, with progress, interruption and recorders.

#![expect(clippy::disallowed_methods, reason = "the module reports the duration of a run")]

use crate::choice::Chosen;
use crate::failure::{input_error, internal_error, law_error, stopped, without_panic};
use crate::jobs::jobs_table;
use crate::repeat::Finished;
use crate::replay::Options;
use crate::result::{Recorded, RunResult};
use crate::scenario::PyScenario;
use crate::switches::SwitchTable;
use crate::table::TraceTable;
use crate::watch::{Watch, failure_of};
use ::run::{Observers, Progress, Run};
use input::problem::Problems;
use measure::jobs::JobLog;
use pyo3::prelude::*;
use report::Report;
use std::time::Instant;

/// What a run records besides its report.
#[derive(Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) trace: bool,
    pub(crate) switches: bool,
    pub(crate) jobs: bool,
    pub(crate) audit: bool,
}

/// Runs `run`. `None`: `goes_on` ended the run.
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
    let options = Options {
        policy: run.choice.name(),
        is_registered: failure.is_none(),
        knobs: &knobs,
        guest_policy: guest_policy.as_deref(),
        guest_knobs: &guest_knobs,
        seed,
    };
    // The command has no policies in Python.
    let command = if failure.is_none() { asked.command(&options) } else { None };
    let replay = command.unwrap_or_else(|| options.expression());
    let recording = Recording { trace, switches, jobs, audit };
    let mut watch = Watch::of(progress, failure.clone());
    let begun = Instant::now();
    let played = py.detach(|| without_panic(|| play(&run, recording, |progress| watch.goes_on(progress))));
    let elapsed = begun.elapsed();
    if let Some(error) = failure_of(py, failure.as_ref(), run.choice.name(), &replay) {
        return Err(error);
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
            let finished = Finished { run, failure, replay };
            Ok(RunResult { finished, report, recorded, elapsed, scenario: scenario.clone().unbind() })
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
