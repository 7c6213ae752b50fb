//! The comparison in a guest kernel with sched_ext, on one CPU: SCHED_DEADLINE, the agents of the core, and a scheduler in the kernel
//! (`tactus-scx`) keep the same promises with a limit in turn, `rounds` times.
//!
//! One judge counts the missed periods of all three, from the kernel's records of context switches. After a look at the first
//! results, in which SCHED_DEADLINE missed nearly all periods by less than a microsecond, a period counts as missed if more than a
//! hundredth of the slice is missing. The cost of a turn is the CPU time that
//! neither the process nor the hogs received, without what they do not receive beside the same share in a long period: a core works
//! between turns, too, and a hog has longer turns beside a smaller share. (At first, only the time beside hogs alone was left out. With
//! 100 periods a second, the core cost more than its turns.)

use crate::watched::Tally;
use crate::{Promise, cpu, deadline, hog, ours, received::Received};
use sched::{Limit, Nanos};
use std::path::Path;
use std::process::ExitCode;
use sys::clock;

const PROMISES: [Promise; 3] = [
    Promise { period: Nanos::ms(10), slice: Nanos::ms(9) },
    Promise { period: Nanos::ms(1), slice: Nanos::us(500) },
    Promise { period: Nanos::us(200), slice: Nanos::us(100) },
];
const NAMES: [&str; 3] = ["SCHED_DEADLINE", "agents", "kernel"];
/// Maximum number of times 200 ms to wait for a quiet CPU.
const QUIET_TRIALS: usize = 150;
/// A period with few turns.
const LONG: Nanos = Nanos::ms(500);
/// Duration of each measurement.
const LENGTH: Nanos = Nanos::s(1);

/// Missed and all periods, and the cost in each round in us per turn.
#[derive(Default)]
struct Results {
    missed: u64,
    periods: u64,
    worst: Nanos,
    costs: Vec<f64>,
}

impl Results {
    fn missed_percent(&self) -> f64 {
        self.missed as f64 * 100.0 / self.periods.max(1) as f64
    }
}

/// Compares the three, and prints a line for each promise and mechanism.
/// Exit code 1: something was not measured.
pub(crate) fn compare(scheduler: &Path, rounds: usize) -> ExitCode {
    let mut is_whole = true;
    await_quiet();
    println!("promises with a limit beside two hogs on CPU {}, {LENGTH} each, {rounds} interleaved rounds", cpu());
    for promise in PROMISES {
        let Promise { period, slice } = promise;
        let mut all: [Results; 3] = Default::default();
        for _ in 0..rounds {
            let by = |scheduler| {
                ours::with_core(scheduler, false, |core| {
                    per_turn(promise, |promise| {
                        let sample = core.measure(promise, Limit::Hard, LENGTH)?;
                        Ok((sample.tally, sample.lost))
                    })
                })
            };
            let measured =
                [per_turn(promise, |promise| deadline::measure(promise, LENGTH)), by(None), by(Some(scheduler))];
            for ((results, name), measured) in all.iter_mut().zip(NAMES).zip(measured) {
                match measured {
                    Ok((tally, lost)) => {
                        results.missed += tally.clearly;
                        results.worst = results.worst.max(tally.worst);
                        results.periods += tally.periods;
                        results.costs.push(lost / 1e3);
                    }
                    Err(why) => {
                        println!("  {slice} in {period}, {name}: not measured: {why}");
                        is_whole = false;
                    }
                }
            }
        }
        for (name, results) in NAMES.iter().zip(&all).filter(|(_, results)| results.periods > 0) {
            let Results { missed, periods, worst, .. } = results;
            let cost = interval(&results.costs);
            println!("  {slice} in {period}, {name}: {missed} of {periods} missed, by {worst} at most; {cost}");
        }
        if all.iter().all(|results| results.periods > 0) {
            let [theirs, agents, kernel] = &all;
            let is_cheap = 2.0 * mean(&kernel.costs) < mean(&agents.costs);
            let is_kept = kernel.missed_percent() <= agents.missed_percent().min(theirs.missed_percent());
            println!("  {slice} in {period}: misses {}, cost {}", met(is_kept), met(is_cheap));
        }
    }
    if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Waits until a hog receives the whole CPU: a kernel that has just started may still test itself.
fn await_quiet() {
    let one = hog();
    let received = Received::by([&one]).expect("it runs");
    for _ in 0..QUIET_TRIALS {
        let had = received.read().expect("it runs");
        clock::sleep(Nanos::ms(200));
        if received.read().expect("it runs").saturating_sub(had) >= Nanos::ms(190) {
            return;
        }
    }
    println!("  other threads use the CPU, too");
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT met" }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Describes the mean, and half of the interval in which the true mean is with a probability of 95 %, by the normal distribution.
fn interval(values: &[f64]) -> String {
    let (count, mean) = (values.len() as f64, mean(values));
    if values.len() < 2 {
        return format!("{mean:.1} us per turn");
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    format!("{mean:.1} us per turn (+- {:.1})", 1.96 * (variance / count).sqrt())
}

/// Measures a promise, and then the same share in a long period. Returns the missed periods of the promise, and the time that each of
/// its turns costs. Unit: ns.
fn per_turn(
    promise: Promise,
    measure: impl Fn(Promise) -> Result<(Tally, f64), String>,
) -> Result<(Tally, f64), String> {
    let factor = LONG.as_ns() / promise.period.as_ns();
    let (tally, lost) = measure(promise)?;
    let (_, lost_without) = measure(Promise { period: LONG, slice: promise.slice.saturating_mul(factor) })?;
    Ok((tally, lost - lost_without / factor as f64))
}
