//! Measurement of the mechanisms that can keep a promise: a busy process with a promise runs beside hogs, once by each
//! mechanism.

use crate::failure::{Failure, explained};
use crate::measurement;
use crate::output;
use crate::raising::Raising;
use crate::run::keep;
use crate::run::outcome::Kept;
use crate::run::plan::{self, Plan};
use crate::run::terms::{RunTerms, on_this_host};
use daemon::Explanation;
use daemon::doctor::{Delivered, LENGTH_LEAST, Measurement, Mechanism};
use scenario::Scenario;
use sched::{Limit, Nanos};

/// The measured promise: enough for misses to show beside one hog more than there are CPUs.
pub(super) const SLICE: Nanos = Nanos::ms(2);
pub(super) const PERIOD: Nanos = Nanos::ms(10);
/// The promised share. Unit: parts per million of a CPU.
const WANTED_PPM: u64 = 200_000;
/// Name of the process with the promise.
const PROMISED: &str = "promised";

/// The mechanisms that can keep a promise, and how a run requests them.
const WAYS: [(Mechanism, Raising); 3] = [
    (Mechanism::Inheritance, Raising::Inherit),
    (Mechanism::Fifo, Raising::Fifo),
    (Mechanism::Deadline, Raising::Deadline),
];

/// The measurements of all mechanisms, and the choice of `--mechanism auto`.
#[derive(Debug)]
pub(super) struct MeasuredMechanisms {
    pub(super) measurement: Measurement,
    /// The mechanism of `--mechanism auto`, and the reason for it.
    pub(super) auto: Option<(Mechanism, String)>,
}

/// Returns the option that requests `mechanism`; `None` if no option does.
pub(super) fn option(mechanism: Mechanism) -> Option<&'static str> {
    match WAYS.into_iter().find(|(way, _)| *way == mechanism)?.1 {
        Raising::Inherit => Some("inherit"),
        Raising::Fifo => Some("fifo"),
        Raising::Deadline => Some("deadline"),
        Raising::Auto => None,
    }
}

/// Runs every mechanism for `length`. If that is long enough, keeps the results for `--mechanism auto` until the next boot.
///
/// # Errors
/// The user has interrupted the measurement.
pub(super) fn measure(length: Nanos) -> Result<MeasuredMechanisms, Failure> {
    let mut each = Vec::new();
    for (mechanism, raising) in WAYS {
        let outcome = match deliver(raising, length) {
            Ok(Some(delivered)) => Ok(delivered),
            Ok(None) => return Err(Failure::Interrupted),
            Err(reason) => Err(reason),
        };
        each.push((mechanism, outcome));
    }
    let boot = sys::kernel::boot_id().map_err(|error| Failure::Failed(error.into()))?;
    let measurement = Measurement { boot, length, each };
    // The choice ignores shorter runs. A run of any mechanism has created the directory.
    if length >= LENGTH_LEAST && measurement.each.iter().any(|(_, outcome)| outcome.is_ok()) {
        let kept = plan::directory(None).and_then(|directory| measurement::keep(&directory, &measurement));
        if let Err(failure) = kept {
            output::complain(&format!(
                "warning: `--mechanism auto` cannot use this measurement: {}",
                explained(failure)
            ));
        }
    }
    let auto = on_this_host(Raising::Auto).ok().map(|terms| terms.mechanism());
    Ok(MeasuredMechanisms { measurement, auto })
}

/// Returns a plan of a promised process and hogs.
fn plan_for(raising: Raising, length: Nanos) -> Result<Plan, Failure> {
    let cpus = plan::host().cpus;
    let mut text = format!("name = \"measurement\"\ncpus = {cpus}\nlength = \"{}ns\"\n", length.as_ns());
    text +=
        &format!("[[task]]\nname = \"{PROMISED}\"\nworkload = \"hog\"\nslice = \"{SLICE}\"\nperiod = \"{PERIOD}\"\n");
    for nth in 0..=cpus {
        text += &format!("[[task]]\nname = \"hog-{nth}\"\nworkload = \"hog\"\n");
    }
    let scenario = Scenario::from_bytes("measurement.toml", text.into_bytes())?;
    let mut plan = plan::from_scenario(&scenario, false)?;
    // Beyond a soft limit, the process would compete with the hogs. Under SCHED_DEADLINE the slice is the limit.
    let request = plan.processes[0].request.as_mut().filter(|_| raising != Raising::Deadline);
    if let Some(request) = request {
        request.reservation.limit = Limit::Hard;
    }
    Ok(plan)
}

/// Runs one mechanism. `None`: the user has interrupted the run.
fn deliver(raising: Raising, length: Nanos) -> Result<Option<Delivered>, Explanation> {
    let plan = plan_for(raising, length).map_err(explained)?;
    let terms = RunTerms::of(&plan, raising).map_err(explained)?;
    let played = keep(&plan, &terms).map_err(explained)?;
    if played.interrupted {
        return Ok(None);
    }
    if let Some((_, reason)) = played.troubles.first() {
        return Err(reason.clone());
    }
    let kept = Kept::new(&plan, &terms, played);
    let entity = kept.report.entities.iter().find(|entity| entity.name == PROMISED);
    let got = &entity.ok_or_else(|| Explanation::new("the process did not run", "try again"))?.got;
    let (periods_judged, periods_missed) = (got.periods_judged, got.periods_missed);
    let (ppm, error_ppm) = (got.delivered_ppm, got.delivered_ppm.cast_signed() - WANTED_PPM.cast_signed());
    Ok(Some(Delivered { ppm, error_ppm, periods_judged, periods_missed }))
}
