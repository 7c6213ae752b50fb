//! The laws, checked by the machine and the auditor in the runs of the fuzzer.

use crate::program::{Program, SCX_EDF, SEED, only_seed, seeds};
use fuzz::Options;

/// Number of seeds for each number of CPUs.
const SEEDS: u64 = 6;

fn hold(cpus: usize, test: &str) {
    let Some(program) = Program::edf(None) else { return };
    program.select();
    let first = 1_000 * cpus as u64;
    let mut inputs = 0;
    for seed in only_seed().map_or(first..first + seeds(SEEDS), |seed| seed..seed + 1) {
        match fuzz::check(&Options::draw(&SCX_EDF, seed).on(cpus)) {
            Ok(stats) => inputs += stats.accepted,
            Err(failure) => {
                // The options of the smallest run that fails, without the command for registered policies.
                let options = failure.options.to_string();
                let options = options.lines().next().unwrap_or_default();
                panic!("replay: {SEED}={seed} cargo test -p scx --test port {test}\n{}\n{options}", failure.what);
            }
        }
    }
    println!("{cpus} CPUs: {inputs} inputs");
    assert!(only_seed().is_some() || inputs > 1_000, "{inputs} inputs say little");
}

#[test]
fn the_port_keeps_the_laws_on_1_cpu() {
    hold(1, "on_1_cpu");
}

#[test]
fn the_port_keeps_the_laws_on_2_cpus() {
    hold(2, "on_2_cpus");
}

#[test]
fn the_port_keeps_the_laws_on_4_cpus() {
    hold(4, "on_4_cpus");
}

#[test]
fn the_port_keeps_the_laws_on_16_cpus() {
    hold(16, "on_16_cpus");
}
