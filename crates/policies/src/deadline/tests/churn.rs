//! Random sets, against brute force: the earliest deadlines run, as far as they are free to move.

use super::theorems::Dice;
use super::*;

fn deadline(host: &Driver<'_>, e: EntityId) -> i64 {
    host.machine().inspect(e, "deadline").unwrap_or(i64::MAX)
}

/// Nobody waits while a CPU it may use runs somebody due later, or without a reservation, or nobody.
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

fn churn(cpus: usize, bound: bool, settings: Settings<'_>, kick: Nanos, seed: u64) {
    let costs = Costs { kick, ..Costs::NONE };
    let shape = sched::Topology::new(cpus);
    let mut host = Driver::new(&POLICY, shape, &knobs(settings), costs).expect("it works everywhere");
    let mut dice = Dice(seed);
    let mut entities: Vec<EntityId> = Vec::new();
    for _ in 0..1_500 {
        for _ in 0..dice.below(4) {
            let period = 2 + dice.below(40);
            let slice = Nanos::us(1 + dice.below(500 * period));
            let limit = if dice.below(2) == 0 { Limit::Soft } else { Limit::Hard };
            let reservation = (dice.below(5) > 0).then(|| Reservation { slice, limit, ..promise(1, period) });
            let two = [dice.index(cpus), dice.index(cpus)].map(CpuId::new);
            let affinity = if bound && dice.below(2) == 0 { two.into_iter().collect() } else { CpuSet::ALL };
            let params = Params { reservation, affinity, ..Params::default() };
            let someone = entities.get(dice.index(entities.len().max(1))).copied();
            let cpu = CpuId::new(dice.index(cpus));
            match (dice.below(16), someone) {
                (0, _) | (_, None) if entities.len() < 12 => {
                    entities.extend(host.attach("scripted", params, Workload::Scripted));
                }
                (1, Some(e)) => {
                    host.detach(e);
                    entities.retain(|&other| other != e);
                }
                (2 | 3, Some(e)) => drop(host.adjust(e, params)),
                (4, Some(e)) => host.pause(e),
                (5 | 6, _) if running(&host, cpu).is_some() => host.block(cpu),
                (7, _) if running(&host, cpu).is_some() => host.yield_now(cpu),
                (_, Some(e)) if host.machine().state(e) == State::Blocked => wake(&mut host, e),
                _ => {}
            }
        }
        let settled = host.now() + Nanos::ns(1);
        host.run_until(settled);
        if kick.is_zero() {
            check(&host, &entities);
        }
        let later = host.now() + Nanos::us(dice.below(8_000));
        host.run_until(later);
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
