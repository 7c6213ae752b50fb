//! The speed of the core without observers: releases and completions per second, relative to the bare loop in the same
//! run.

use crate::{Spread, bare_loop};
use sched::{Instant, Nanos, Params, Reservation, Topology};
use sim::{Costs, JobEnd, Periodic, Workload};
use std::process::Command;
use trace::Counts;

/// The oracle's set B.
pub(crate) const SET_B: &str = include_str!("../../../conformance/tests/oracle/ts_B_n100_u3.6.csv");
pub(crate) const CPUS: usize = 4;
/// Simulated time of one run.
const END: Nanos = Nanos::s(10);
/// Number of consecutive runs of each program. Only the fastest run counts, so that load from other processes has
/// little effect.
const TRIES: usize = 8;

/// Minimum speed of the core, relative to the bare loop.
const CORE_LEAST: f64 = 0.6;

/// Speed of SimSo 0.8.5 on set B, in releases and completions per second, measured on an AMD EPYC at 2.6 GHz. A run
/// takes half a minute. `simso` measures the speed on this machine.
const SIMSO_PER_SECOND: f64 = 4.8e3;

pub(crate) fn compare(runs: usize) {
    let set = set_b();
    let mut ratios = Vec::new();
    let (mut bare_speeds, mut our_speeds) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (bare, floor) = fastest(|| bare_loop::run(&set, CPUS, END.as_ns()));
        let (ours, counts) = fastest(|| simulate(&set, END));
        assert_eq!(floor.0, columns(counts), "both make the same table");
        let events = (counts.releases + counts.completions) as f64;
        bare_speeds.push(events / bare);
        our_speeds.push(events / ours);
        ratios.push(bare / ours);
    }
    let (bare, ours, ratio) = (Spread::of(bare_speeds), Spread::of(our_speeds), Spread::of(ratios));
    println!("events: EDF set B, global, {CPUS} CPUs, 10 s, laws on; releases + completions per second");
    println!("  bare event loop  {:6.2} M  ({:.2} to {:.2})", bare.median / 1e6, bare.least / 1e6, bare.most / 1e6);
    println!("  tactus           {:6.2} M  ({:.2} to {:.2})", ours.median / 1e6, ours.least / 1e6, ours.most / 1e6);
    match simso() {
        Some(speed) => println!("  SimSo 0.8.5      {:6.4} M  (this machine, this run)", speed / 1e6),
        None => println!(
            "  SimSo 0.8.5      {:6.4} M  (as published; set TACTUS_SIMSO_PYTHON to measure it)",
            SIMSO_PER_SECOND / 1e6
        ),
    }
    let met = if ratio.median >= CORE_LEAST { "met" } else { "NOT met" };
    println!(
        "  ratio            {:6.2}    ({:.2} to {:.2}); at least {CORE_LEAST:.2}: {met}",
        ratio.median, ratio.least, ratio.most
    );
}

fn fastest<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = std::time::Instant::now();
        let result = run();
        (start.elapsed().as_secs_f64(), result)
    };
    let mut best = timed();
    for _ in 1..TRIES {
        let next = timed();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

fn columns(counts: Counts) -> [u64; 6] {
    let Counts { releases, completions, misses, preemptions, dispatches, migrations, .. } = counts;
    [releases, completions, misses, preemptions, dispatches, migrations]
}

/// Returns set B as (period, WCET) of each task. Unit: ns.
pub(crate) fn set_b() -> Vec<(u64, u64)> {
    let tasks =
        scenario::taskset::from_bytes("ts_B_n100_u3.6.csv", SET_B.as_bytes().to_vec()).expect("the set is sound");
    tasks.iter().map(|task| (task.period.as_ns(), task.wcet.as_ns())).collect()
}

/// Runs a set in the simulator's driver without observers.
#[inline(never)]
pub(crate) fn simulate(set: &[(u64, u64)], length: Nanos) -> Counts {
    let edf = policies::find("edf").expect("it is registered");
    let mut knobs = edf.defaults();
    knobs.set_word("enforce", "none").expect("edf has it");
    let mut host = sim::Driver::new(edf, Topology::new(CPUS), &knobs, Costs::NONE).expect("edf takes it");
    for (id, &(period, wcet)) in set.iter().enumerate() {
        let (period, wcet) = (Nanos::ns(period), Nanos::ns(wcet));
        let reservation = Some(Reservation::new(wcet, period));
        let jobs = Periodic { end: JobEnd::Yield, ..Periodic::new(period, wcet) };
        let params = Params { reservation, ..Params::default() };
        host.attach(&id.to_string(), params, Workload::Periodic(jobs)).expect("nothing is refused without enforcement");
    }
    host.run_until(Instant::ZERO + length);
    host.counts()
}

/// Returns SimSo's speed over a tenth of the simulated time, if a Python with SimSo is installed.
fn simso() -> Option<f64> {
    let python = std::env::var_os("TACTUS_SIMSO_PYTHON")?;
    let set = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/tests/oracle/ts_B_n100_u3.6.csv");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/speed/simso_speed.py");
    let output = Command::new(python).args([script, set, "4", "1"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
