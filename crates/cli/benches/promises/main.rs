//! The live part of `cargo xtask bench`: compares promises on this machine with SCHED_DEADLINE and with an empty loop.
//! Each run measures all three, one after the other. The benchmark reports the medians of all runs, with minimum and
//! maximum.
//!
//! A process that is always busy has a reservation (period, slice) on a CPU with two hogs. SCHED_DEADLINE and Tactus
//! enforce this reservation alternately. Tactus uses a hard limit, as SCHED_DEADLINE does. For both, the delivered time
//! is computed from the kernel's records of the process's context switches. Both mechanisms deduct an overrun from the
//! next slice. A period is therefore missed if the time delivered by its end is less than the slice minus the previous
//! overrun. The CPU time of Tactus is measured with the usual soft limit: that of all its threads but the front end, per
//! period, relative to two wake-ups of an empty loop beside the same hogs, one at the start and one at the end of a slice.
//! With `--scheduler`, the path of `tactus-scx`, it compares SCHED_DEADLINE, the agents and a scheduler in the kernel instead.
//! Two further lines compare a sleeping client, and 20 clients on one CPU, with this empty loop. `--crowd` is the number
//! of pairs of runs with and without a client that has many threads or forks.

mod changes;
mod clients;
mod crowd;
mod deadline;
mod expense;
mod floor;
mod ours;
mod received;
mod rivals;
mod watched;
mod witness;

use expense::Spent;
use ours::Kept;
use sched::{CpuId, CpuSet, Limit, Nanos};
use std::fmt::Write as _;
use std::process::ExitCode;
use sys::child::{Child, Work};
use watched::Tally;

/// The promise under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) period: Nanos,
    pub(crate) slice: Nanos,
}

const PROMISES: [Promise; 4] = [
    Promise { period: Nanos::ms(10), slice: Nanos::ms(9) },
    Promise { period: Nanos::ms(1), slice: Nanos::us(500) },
    Promise { period: Nanos::us(500), slice: Nanos::us(250) },
    Promise { period: Nanos::us(200), slice: Nanos::us(100) },
];

/// Duration of each measurement, in one run.
const LENGTH: Nanos = Nanos::s(2);
/// Maximum error of the delivered share. Unit: parts per million of the promise.
const SHARE_MOST: f64 = 10_000.0;
/// Maximum time from a change of a promise to the next turn of its agent, for 99 of 100 changes.
const CHANGE_MOST: Nanos = Nanos::ms(10);
/// Maximum CPU time of Tactus per period, relative to two wake-ups of an empty loop beside the same hogs.
const COST_MOST: f64 = 1.7;

/// Result of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) tally: Tally,
    pub(crate) cost: Cost,
    /// Deviation of the delivered reserved time, as measured by Tactus, from the promise. Unit: parts per million of
    /// the promise. `None`: it was not measured, or events were lost.
    pub(crate) share_ppm: Option<f64>,
    /// CPU time per period that neither the process nor the hogs received. Unit: ns.
    pub(crate) lost: f64,
}

/// CPU time of all threads of Tactus but the front end, per period.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// Unit: ns.
    pub(crate) time: f64,
    /// Number of wake-ups of the agent.
    pub(crate) wakes: f64,
    /// The time by thread, in us.
    pub(crate) by_name: String,
}

impl Cost {
    pub(crate) fn of(spent: &Spent, periods: f64) -> Cost {
        Cost { time: spent.total() / periods, wakes: spent.wakes as f64 / periods, by_name: spent.by_name(periods) }
    }
}

/// Returns the CPU under test: the last CPU, which usually handles the fewest interrupts.
pub(crate) fn cpu() -> CpuId {
    let cpus = sys::affinity::get(sys::thread::current()).expect("a thread has CPUs");
    cpus.iter().last().expect("a thread has a CPU")
}

/// Starts two hogs on the CPU under test.
pub(crate) fn hogs() -> Vec<Child> {
    (0..2).map(|_| hog()).collect()
}

/// Starts a process that is always busy.
pub(crate) fn hog() -> Child {
    let child =
        Child::start(Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO }).expect("there is room for a process");
    sys::affinity::set(child.pid(), &CpuSet::one(cpu())).expect("it is ours");
    child
}

/// Returns the median of `figures`, with minimum and maximum.
pub(crate) fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[figures.len() / 2], figures[0], figures[figures.len() - 1])
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(kind) = arguments.iter().position(|argument| argument == crowd::PROCESS) {
        crowd::run(arguments.get(kind + 1).map_or("", String::as_str));
        return ExitCode::SUCCESS;
    }
    let number = |name: &str, usual: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(usual)
    };
    let after = |name: &str| arguments.iter().position(|it| it == name).and_then(|at| arguments.get(at + 1));
    if let Some(scheduler) = after("--scheduler") {
        return rivals::compare(std::path::Path::new(scheduler), number("--rounds", 10));
    }
    let runs = number("--runs", 5);
    let seconds = number("--long-seconds", 120);
    let count = number("--changes", 1_000);
    let pairs = number("--crowd", 10);
    let steal = || daemon::host_profile::times().ok();
    let before = steal();
    let host = daemon::host_profile::HostProfile::read().expect("there is /proc");
    println!(
        "promises: one process beside two hogs on CPU {}, {LENGTH} each, medians of {runs}; Linux {}",
        cpu(),
        host.kernel.release
    );
    println!(
        "  {:>16}  {:>26}  {:>26}  {:>12}  {:>30}",
        "period, slice", "missed: SCHED_DEADLINE", "missed: tactus", "share", "CPU time, of an empty loop"
    );
    for promise in PROMISES.into_iter().filter(|_| runs > 0) {
        compare(promise, runs);
    }
    for measure in [clients::sleeper, clients::many].into_iter().filter(|_| runs > 0) {
        println!("{}", measure(runs, LENGTH).unwrap_or_else(|why| format!("  not measured: {why}")));
    }
    if count > 0 {
        change(count);
    }
    for kind in crowd::Kind::ALL.into_iter().filter(|_| pairs > 0) {
        match crowd::compare(kind, pairs) {
            Ok(line) => println!("{line}"),
            Err(why) => println!("  beside {kind:?}: not measured: {why}"),
        }
    }
    if seconds > 0 {
        long(Nanos::s(seconds as u64));
    }
    if let Some(times) = before.zip(steal()).map(|(before, after)| after.since(&before)) {
        match daemon::host_profile::steal_ppm(&times) {
            Some(ppm) => println!("  steal while this ran: {:.2} %", ppm as f64 / 10_000.0),
            None => println!("  steal is not counted here"),
        }
    }
    ExitCode::SUCCESS
}

/// Measures both mechanisms and the empty loop, alternately.
fn compare(promise: Promise, runs: usize) {
    let (mut theirs, mut ours, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        match deadline::measure(promise, LENGTH) {
            Ok((tally, _)) => theirs.push(tally.missed_percent()),
            Err(error) => println!("  SCHED_DEADLINE: {error}"),
        }
        let by = |limit| ours::with_core(None, true, |core| core.measure(promise, limit, LENGTH));
        let (hard, soft) = (by(Limit::Hard), by(Limit::Soft));
        match (hard, soft) {
            // Delivered time and misses are those of the run with a hard limit. The cost of a turn is that of the run
            // with a soft limit.
            (Ok(hard), Ok(soft)) => ours.push(Sample { cost: soft.cost, ..hard }),
            (Err(why), _) | (_, Err(why)) => return println!("  not measured: {why}"),
        }
        if ours.last().is_some_and(|sample| sample.share_ppm.is_none()) {
            return println!("  not measured: events were lost");
        }
        floors.push(2.0 * floor::measure(promise.period, LENGTH));
    }
    let missed = spread(ours.iter().map(|sample| sample.tally.missed_percent()).collect());
    let share = spread(ours.iter().filter_map(|sample| sample.share_ppm).collect());
    let cost = spread(ours.iter().zip(&floors).map(|(sample, floor)| sample.cost.time / floor).collect());
    let mut line = format!("  {:>16}", format!("{}, {}", promise.period, promise.slice));
    let bound = if theirs.is_empty() {
        let _ = write!(line, "  {:>26}", "refused here");
        1.0
    } else {
        let (median, least, most) = spread(theirs);
        let _ = write!(line, "  {:>26}", format!("{median:.2} % ({least:.2} to {most:.2})"));
        median + 1.0
    };
    let _ = write!(line, "  {:>26}", format!("{:.2} % ({:.2} to {:.2})", missed.0, missed.1, missed.2));
    let _ = write!(line, "  {:>+10.3} %", share.0 / 10_000.0);
    let _ = write!(line, "  {:>30}", format!("{:.2} ({:.2} to {:.2})", cost.0, cost.1, cost.2));
    let met = missed.0 <= bound && share.0.abs() <= SHARE_MOST && cost.0 <= COST_MOST;
    println!("{line}  {}", if met { "met" } else { "NOT met" });
    for Cost { time, wakes, by_name } in ours.iter().map(|sample| &sample.cost) {
        println!("{:>20}{:.1} us a period, {wakes:.2} wake-ups of the agent: {by_name}", "", time / 1e3);
    }
}

/// Changes a promise `count` times, and reports how soon each change is in force.
fn change(count: usize) {
    match changes::measure(count) {
        Ok(times) => {
            let at = |percent: usize| times[(times.len() - 1) * percent / 100];
            let met = if at(99) <= CHANGE_MOST { "met" } else { "NOT met" };
            let (median, p99, worst) = (at(50), at(99), at(100));
            println!("  {count} changes: in force after {median}, p99 {p99}, at most {worst}: {met}");
        }
        Err(why) => println!("  changes are not measured: {why}"),
    }
}

/// Measures a promise with a long slice beside a promise with a short slice.
fn long(length: Nanos) {
    let pair =
        [Promise { period: Nanos::s(600), slice: Nanos::s(60) }, Promise { period: Nanos::ms(6), slice: Nanos::ms(1) }];
    match ours::keep(&pair, length) {
        Ok(kept) => {
            for (promise, kept) in pair.iter().zip(kept) {
                let Kept { periods, missed, away, worst } = kept;
                let met = if missed == away { "met" } else { "NOT met" };
                let mut line =
                    format!("  {} every {} for {length}: {periods} periods as dealt", promise.slice, promise.period);
                let _ = write!(line, ", {missed} missed");
                if missed > 0 {
                    let _ = write!(line, ", by {worst} at most, {away} of them while the CPU was away for that long");
                }
                println!("{line}: {met}");
            }
        }
        Err(why) => println!("  not measured: {why}"),
    }
}
