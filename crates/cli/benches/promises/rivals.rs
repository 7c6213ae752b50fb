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
/// Duration of the measurement of a promise, and of the same share in a long period.
const LENGTH: Nanos = Nanos::ms(500);
const LENGTH_LONG: Nanos = Nanos::s(1);

/// Missed and all periods, and the cost in each round in us per turn.
#[derive(Default)]
struct Results {
    missed: u64,
    periods: u64,
    worst: Nanos,
    costs: Vec<f64>,
}

impl Results {
    fn add(&mut self, tally: &Tally, cost: f64) {
        self.missed += tally.clearly;
        self.worst = self.worst.max(tally.worst);
        self.periods += tally.periods;
        self.costs.push(cost / 1e3);
    }

    fn missed_percent(&self) -> f64 {
        self.missed as f64 * 100.0 / self.periods.max(1) as f64
    }
}

/// Missed periods of a promise, and the time that each of its turns costs, in ns.
type Measured = Result<(Tally, f64), String>;

/// Compares the three, and prints a line for each promise and mechanism.
/// Exit code 1: something was not measured.
pub(crate) fn compare(scheduler: &Path, rounds: usize) -> ExitCode {
    let mut is_whole = true;
    await_quiet();
    println!("promises with a limit beside two hogs on CPU {}, {LENGTH} each, {rounds} interleaved rounds", cpu());
    let mut all: [[Results; NAMES.len()]; PROMISES.len()] = Default::default();
    for _ in 0..rounds {
        // To start a core, and to load a scheduler, takes longer than to measure a promise.
        let by = |scheduler| {
            let measured = ours::with_core(scheduler, false, |core| {
                Ok(per_turn(|promise, length| {
                    let sample = core.measure(promise, Limit::Hard, length)?;
                    Ok((sample.tally, sample.lost))
                }))
            });
            measured.unwrap_or_else(|why| PROMISES.map(|_| Err(why.clone())))
        };
        let by_deadline = per_turn(deadline::measure);
        for (nth, measured) in [by_deadline, by(None), by(Some(scheduler))].into_iter().enumerate() {
            for ((Promise { period, slice }, results), measured) in PROMISES.into_iter().zip(&mut all).zip(measured) {
                match measured {
                    Ok((tally, cost)) => results[nth].add(&tally, cost),
                    Err(why) => {
                        println!("  {slice} in {period}, {}: not measured: {why}", NAMES[nth]);
                        is_whole = false;
                    }
                }
            }
        }
    }
    PROMISES.iter().zip(&all).for_each(|(promise, results)| print(*promise, results));
    if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(Promise { period, slice }: Promise, all: &[Results; NAMES.len()]) {
    for (name, results) in NAMES.iter().zip(all).filter(|(_, results)| results.periods > 0) {
        let Results { missed, periods, worst, .. } = results;
        let cost = interval(&results.costs);
        println!("  {slice} in {period}, {name}: {missed} of {periods} missed, by {worst} at most; {cost}");
    }
    if all.iter().all(|results| results.periods > 0) {
        let [theirs, agents, kernel] = all;
        let is_cheap = 2.0 * mean(&kernel.costs) < mean(&agents.costs);
        let is_kept = kernel.missed_percent() <= agents.missed_percent().min(theirs.missed_percent());
        println!("  {slice} in {period}: misses {}, cost {}", met(is_kept), met(is_cheap));
    }
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

/// Measures each promise, and the same share in a long period, once for each share.
fn per_turn(measure: impl Fn(Promise, Nanos) -> Measured) -> [Measured; PROMISES.len()] {
    let mut known: Vec<(Nanos, f64)> = Vec::new();
    PROMISES.map(|promise| {
        let factor = LONG.as_ns() / promise.period.as_ns();
        let slice = promise.slice.saturating_mul(factor);
        let (tally, lost) = measure(promise, LENGTH)?;
        let without = match known.iter().find(|(of, _)| *of == slice) {
            Some((_, lost)) => *lost,
            None => {
                let (_, lost) = measure(Promise { period: LONG, slice }, LENGTH_LONG)?;
                known.push((slice, lost));
                lost
            }
        };
        Ok((tally, lost - without / factor as f64))
    })
}
