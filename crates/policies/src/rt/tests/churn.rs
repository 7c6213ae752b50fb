//! Tests of random task sets against brute force: the most urgent entities run, as far as affinities allow.

use super::*;
use crate::fixture::{Churn, Dice, host_of_costs, knobs};
use sched::{CpuSet, State};
use sim::Costs;

fn params(dice: &mut Dice, cpus: usize, bound: bool) -> Params {
    let priority = 1 + u8::try_from(dice.below(6)).expect("small");
    let params = if dice.below(3) == 0 { round_robin(priority) } else { fifo(priority) };
    if !bound || dice.below(2) == 0 {
        return params;
    }
    Params { affinity: [dice.cpu(cpus), dice.cpu(cpus)].into_iter().collect(), ..params }
}

fn priority_of(host: &Driver<'_>, e: EntityId) -> u8 {
    host.machine().params(e).class.rt_priority().expect("real-time").number()
}

/// Asserts that no entity waits while an allowed CPU idles or runs a less urgent entity. If every entity may run on
/// every CPU, also asserts that the most urgent entities run.
fn check(host: &Driver<'_>, entities: &[EntityId]) {
    let machine = host.machine();
    for &e in entities.iter().filter(|&&e| machine.state(e) == State::Waiting) {
        for cpu in machine.topology().iter().filter(|&cpu| machine.params(e).affinity.contains(cpu)) {
            let there = running(host, cpu).map_or(0, |other| priority_of(host, other));
            assert!(there >= priority_of(host, e), "{e} waits while {cpu:?} runs {there} at {}", machine.now());
        }
    }
    let mut runnable: Vec<u8> =
        entities.iter().filter(|&&e| machine.state(e) != State::Blocked).map(|&e| priority_of(host, e)).collect();
    runnable.sort_unstable_by(|a, b| b.cmp(a));
    if entities.iter().all(|&e| machine.params(e).affinity == CpuSet::ALL) {
        let mut run: Vec<u8> =
            machine.topology().iter().filter_map(|cpu| running(host, cpu)).map(|e| priority_of(host, e)).collect();
        run.sort_unstable_by(|a, b| b.cmp(a));
        runnable.truncate(machine.topology().cpus);
        assert_eq!(run, runnable);
    }
}

fn churn(cpus: usize, bound: bool, values: &[(&str, i64)], costs: Costs, seed: u64) {
    let host = host_of_costs(&POLICY, sched::Topology::new(cpus), &knobs(&POLICY, &[], values), costs);
    let mut churn = Churn::new(host, seed);
    for _ in 0..3_000 {
        for _ in 0..churn.dice.below(4) {
            let params = params(&mut churn.dice, cpus, bound);
            churn.step(params, Wake::Interrupt);
        }
        churn.settle();
        if costs.kick.is_zero() && values[0].1 == 0 {
            check(&churn.host, &churn.entities);
        }
        churn.pass(Nanos::ms(8));
    }
}

#[test]
fn the_most_urgent_run() {
    for seed in 1..=60 {
        for cpus in 1..=5 {
            for bound in [false, true] {
                churn(cpus, bound, &[("rt-throttling", 0)], Costs::NONE, seed);
            }
        }
    }
}

#[test]
fn throttling_and_slow_kicks_break_no_law() {
    for seed in 1..=20 {
        for cpus in [1, 4] {
            let costs = Costs { kick: Nanos::us(300), ..Costs::NONE };
            let often = [("rt-throttling", 1), ("rt-period", 20_000_000), ("rt-runtime", 9_000_000)];
            churn(cpus, true, &often, Costs::NONE, seed);
            churn(cpus, true, &often, costs, seed);
            churn(cpus, true, &[("rt-throttling", 0)], costs, seed);
        }
    }
}
