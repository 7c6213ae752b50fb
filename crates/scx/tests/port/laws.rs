//! The laws, checked by the machine and the auditor in the runs of the fuzzer.

use crate::program::{Program, SCX_BMQ, SCX_EDF, SCX_GANG_EDF, SEED, only_seed, seeds};
use fuzz::Options;
use sched::Descriptor;

/// Number of seeds for each number of CPUs.
const SEEDS: u64 = 3;

fn hold(port: &'static Descriptor, cpus: usize, test: &str) {
    let program = if port.name == SCX_BMQ.name { Program::bmq(None) } else { Program::edf(None) };
    let Some(program) = program else { return };
    program.select();
    let first = 1_000 * cpus as u64;
    let mut inputs = 0;
    for seed in only_seed().map_or(first..first + seeds(SEEDS), |seed| seed..seed + 1) {
        match fuzz::check(&Options::draw(port, seed).on(cpus)) {
            Ok(stats) => inputs += stats.accepted,
            Err(failure) => {
                // The options of the smallest run that fails, without the command for registered policies.
                let options = failure.options.to_string();
                let options = options.lines().next().unwrap_or_default();
                panic!("replay: {SEED}={seed} cargo test -p scx --test port {test}\n{}\n{options}", failure.what);
            }
        }
    }
    println!("{} on {cpus} CPUs: {inputs} inputs", port.name);
    assert!(only_seed().is_some() || inputs > 1_000, "{inputs} inputs say little");
}

#[test]
fn the_port_keeps_the_laws_on_1_cpu() {
    hold(&SCX_EDF, 1, "on_1_cpu");
}

#[test]
fn the_port_keeps_the_laws_on_2_cpus() {
    hold(&SCX_EDF, 2, "on_2_cpus");
}

#[test]
fn the_port_keeps_the_laws_on_4_cpus() {
    hold(&SCX_EDF, 4, "on_4_cpus");
}

#[test]
fn the_port_keeps_the_laws_on_16_cpus() {
    hold(&SCX_EDF, 16, "on_16_cpus");
}

#[test]
fn the_port_keeps_the_laws_with_gangs() {
    for cpus in [1, 2, 4] {
        hold(&SCX_GANG_EDF, cpus, "with_gangs");
    }
}

#[test]
fn the_port_of_bmq_keeps_the_laws() {
    for cpus in [1, 2, 4] {
        hold(&SCX_BMQ, cpus, "of_bmq_keeps");
    }
}
