//! Tests of random task sets by brute force: the entities with the earliest deadlines run, as far as affinities allow.

use super::*;
use crate::fixture::{Churn, Dice, host_of_costs};

fn deadline(host: &Driver<'_>, e: EntityId) -> i64 {
    host.machine().inspect(e, "deadline").unwrap_or(i64::MAX)
}

/// Asserts that no task waits while a CPU in its affinity idles or runs a task with a later deadline or without a
/// reservation.
fn check(host: &Driver<'_>, entities: &[EntityId]) {
    let machine = host.machine();
    let waits = |e: &&EntityId| machine.state(**e) == State::Waiting && !machine.is_held(**e);
    for &e in entities.iter().filter(waits) {
        for cpu in machine.topology().iter().filter(|&cpu| machine.params(e).affinity.contains(cpu)) {
            let there = running(host, cpu).map(|other| deadline(host, other));
            let now = machine.now();
            assert!(
                there.is_some_and(|there| there <= deadline(host, e)),
                "{e} waits while {cpu:?} runs {there:?} at {now}"
            );
        }
    }
}

fn params(dice: &mut Dice, cpus: usize, bound: bool) -> Params {
    let period = 2 + dice.below(40);
    let slice = Nanos::us(1 + dice.below(500 * period));
    let limit = if dice.below(2) == 0 { Limit::Soft } else { Limit::Hard };
    let reservation = (dice.below(5) > 0).then(|| Reservation { slice, limit, ..promise(1, period) });
    let two = [dice.cpu(cpus), dice.cpu(cpus)];
    let affinity = if bound && dice.below(2) == 0 { two.into_iter().collect() } else { CpuSet::ALL };
    Params { reservation, affinity, ..Params::default() }
}

fn churn(cpus: usize, bound: bool, settings: Settings<'_>, kick: Nanos, seed: u64) {
    let costs = Costs { kick, ..Costs::NONE };
    let host = host_of_costs(&POLICY, sched::Topology::new(cpus), &knobs(settings), costs);
    let mut churn = Churn::new(host, seed);
    for _ in 0..1_500 {
        for _ in 0..churn.dice.below(4) {
            let params = params(&mut churn.dice, cpus, bound);
            churn.step(params, Wake::Timer);
        }
        churn.settle();
        if kick.is_zero() {
            check(&churn.host, &churn.entities);
        }
        churn.pass(Nanos::ms(8));
    }
}

#[test]
fn the_earliest_deadlines_run() {
    for seed in 1..=20 {
        for cpus in 1..=4 {
            for reclaim in ["off", "v5.13", "v6.5"] {
                churn(cpus, seed % 2 == 0, (&[("reclaim", reclaim)], &[]), Nanos::ZERO, seed);
            }
        }
    }
}

#[test]
fn slow_kicks_and_ticks_break_no_law() {
    for seed in 1..=10 {
        for cpus in [1, 4] {
            churn(cpus, true, (&[], &[("hrtick", 0)]), Nanos::ZERO, seed);
            churn(cpus, true, (&[], &[]), Nanos::us(300), seed);
            churn(cpus, true, (&[("admission", "bandwidth")], &[("hrtick", 0)]), Nanos::us(300), seed);
        }
    }
}
