//! Measurement of the mechanisms that can keep a promise: a busy process with a promise runs beside hogs, once by each
//! mechanism.

use crate::args::Raising;
use crate::failure::{Failure, explained};
use crate::run::keep;
use crate::run::outcome::Kept;
use crate::run::plan::{self, Plan};
use daemon::Explanation;
use daemon::doctor::Mechanism;
use scenario::Scenario;
use sched::{Limit, Nanos};
use std::cmp::Reverse;

/// The measured promise: enough for misses to show beside one hog more than there are CPUs.
pub(super) const SLICE: Nanos = Nanos::ms(2);
pub(super) const PERIOD: Nanos = Nanos::ms(10);
/// The promised share. Unit: parts per million of a CPU.
pub(super) const WANTED_PPM: u64 = 200_000;
/// Smaller differences between errors are chance. Unit: parts per million of a CPU.
const POINT_PPM: u64 = 10_000;
/// Name of the process with the promise.
const PROMISED: &str = "promised";

/// The mechanisms that can keep a promise, and how a run requests them.
const WAYS: [(Mechanism, Raising); 3] = [
    (Mechanism::Inheritance, Raising::Inherit),
    (Mechanism::Fifo, Raising::Fifo),
    (Mechanism::Deadline, Raising::Deadline),
];

/// What a mechanism has delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delivered {
    /// CPU time as a share of the run. Unit: parts per million of a CPU.
    pub(super) ppm: u64,
    pub(super) periods_judged: u64,
    pub(super) periods_missed: u64,
}

impl Delivered {
    /// Returns the allocation error: the delivered minus the promised share, in parts per million of a CPU.
    pub(super) fn error_ppm(&self) -> i64 {
        self.ppm.cast_signed() - WANTED_PPM.cast_signed()
    }

    /// Returns the missed periods as a share of the judged periods, in parts per million.
    fn missed_ppm(&self) -> u64 {
        (self.periods_missed * 1_000_000).checked_div(self.periods_judged).unwrap_or(1_000_000)
    }
}

/// The measurements of all mechanisms, and the choice of `--mechanism auto`.
#[derive(Debug)]
pub(super) struct MeasuredMechanisms {
    pub(super) length: Nanos,
    pub(super) each: Vec<(Mechanism, Result<Delivered, Explanation>)>,
    /// The mechanism of `--mechanism auto`, and the reason for it.
    pub(super) auto: Option<(Mechanism, String)>,
}

impl MeasuredMechanisms {
    /// Returns the mechanism with the fewest missed periods, and then the smallest error in whole percent; the first of
    /// equal ones.
    pub(super) fn best(&self) -> Option<(Mechanism, Delivered)> {
        let works = self.each.iter().filter_map(|(mechanism, outcome)| Some((*mechanism, *outcome.as_ref().ok()?)));
        works.max_by_key(|(mechanism, it)| {
            Reverse((it.missed_ppm(), it.error_ppm().unsigned_abs() / POINT_PPM, *mechanism))
        })
    }
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

/// Runs every mechanism for `length`.
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
    let auto = plan::terms(Raising::Auto).ok().map(|terms| terms.mechanism());
    Ok(MeasuredMechanisms { length, each, auto })
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
    let terms = plan::terms(raising).map_err(explained)?;
    let played = keep(&terms.setup(plan::directory(None).map_err(explained)?), &plan).map_err(explained)?;
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
    Ok(Some(Delivered { ppm: got.delivered_ppm, periods_judged, periods_missed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(ppm: u64, periods_missed: u64) -> Result<Delivered, Explanation> {
        Ok(Delivered { ppm, periods_judged: 100, periods_missed })
    }

    #[test]
    fn the_fewest_misses_come_before_the_smallest_error() {
        let measured = |outcomes: [Result<Delivered, Explanation>; 3]| MeasuredMechanisms {
            length: Nanos::s(1),
            each: WAYS.iter().zip(outcomes).map(|((mechanism, _), outcome)| (*mechanism, outcome)).collect(),
            auto: None,
        };
        let best = |outcomes| measured(outcomes).best().map(|(mechanism, _)| mechanism);
        assert_eq!(best([delivered(200_000, 5), delivered(190_000, 0), delivered(180_000, 1)]), Some(Mechanism::Fifo));
        assert_eq!(
            best([delivered(180_000, 0), delivered(215_000, 0), delivered(204_000, 0)]),
            Some(Mechanism::Deadline)
        );
        let equal = [delivered(209_000, 0), delivered(200_000, 0), delivered(191_000, 0)];
        assert_eq!(best(equal), Some(Mechanism::Inheritance));
        let fails = || Err(Explanation::new("it does not work", ""));
        assert_eq!(best([fails(), fails(), delivered(0, 100)]), Some(Mechanism::Deadline));
        assert_eq!(best([fails(), fails(), fails()]), None);
        assert_eq!(delivered(190_000, 0).unwrap().error_ppm(), -10_000);
    }
}
