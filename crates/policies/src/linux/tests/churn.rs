//! Tests with all inputs and changes in random order, including changes of class.

use super::*;
use crate::fixture::{self, Churn, Dice, host_of_costs};
use sched::{Conserving, LoadBounds, Machine};

fn params(dice: &mut Dice, cpus: usize, groups: &[GroupId]) -> Params {
    let priority = number(1 + u8::try_from(dice.below(4)).expect("small"));
    let class = match dice.below(12) {
        0 | 1 => Class::Fifo(priority),
        2 => Class::RoundRobin(priority),
        3 => Class::Batch,
        4 => Class::Idle,
        5 => Class::Stop,
        _ => Class::Normal,
    };
    let period = Nanos::ms(2 + dice.below(30));
    let reservation = (dice.below(2) == 0).then(|| Reservation {
        limit: if dice.below(2) == 0 { Limit::Soft } else { Limit::Hard },
        ..Reservation::new(period.scale(1 + dice.below(40), 100), period)
    });
    let mut affinity = CpuSet::ALL;
    if dice.below(3) == 0 {
        affinity = [dice.cpu(cpus), dice.cpu(cpus)].into_iter().collect();
    }
    let weight = Weight::nice([-20, -5, 0, 5, 19][dice.index(5)]).expect("in range");
    Params { class, affinity, weight, reservation, group: groups[dice.index(groups.len())], ..Params::default() }
}

/// Returns the urgency of `e`, by class, then by deadline or priority. A lower value is more urgent.
fn urgency(machine: &Machine, e: EntityId) -> (u8, i64) {
    let params = machine.params(e);
    match (params.class, params.class.rt_priority()) {
        (Class::Stop, _) => (0, 0),
        (_, Some(priority)) => (2, -i64::from(priority.number())),
        (Class::Normal, _) if params.reservation.is_some() => {
            (1, machine.inspect(e, "deadline").expect("it is a deadline task"))
        }
        _ => (3, 0),
    }
}

/// Asserts that no task above the fair class waits while an allowed CPU idles or runs a less urgent entity.
fn check(host: &Driver<'_>, entities: &[EntityId]) {
    let machine = host.machine();
    for cpu in machine.topology().iter() {
        let there = machine.running(cpu);
        let urgency_there = there.map_or((3, 0), |e| urgency(machine, e));
        for &e in entities {
            let free = machine.params(e).affinity.contains(cpu) && !machine.is_held(e);
            let waits = free && machine.state(e) == State::Waiting;
            let now = machine.now();
            assert!(!waits || urgency_there <= urgency(machine, e), "{e} waits while {cpu:?} runs {there:?} at {now}");
        }
    }
}

fn churn(cpus: usize, knobs: &[(&str, i64)], costs: Costs, quota: Option<Quota>, seed: u64) {
    let shape = sched::Topology::new(cpus);
    let values = fixture::knobs(&POLICY, &[], knobs);
    let load = LoadBounds {
        weight_least: 3,
        weight_most: 88_761,
        group_depth: 2,
        has_rt: true,
        has_reservations: true,
        has_limits: quota.is_some(),
        has_changes: true,
        has_sleepers: true,
        has_affinity: true,
        ..LoadBounds::of_hogs(&shape, &values, 12)
    };
    assert_eq!((POLICY.starvation)(&load), None);
    let slack = match (POLICY.conserving)(&load) {
        Conserving::Global { slack } if costs.kick.is_zero() => slack,
        _ => Nanos::s(1_000),
    };
    let mut host = host_of_costs(&POLICY, shape, &values, costs);
    let mut groups = vec![GroupId::ROOT];
    for parent in 0..2 {
        let params = GroupParams { quota, ..GroupParams::default() };
        groups.push(host.create_group("group", params, groups[parent]).expect("accepted"));
    }
    // With throttling or a server, fair tasks may run before real-time tasks.
    let is_strict = !values.on("rt-throttling") && !values.on("fair-server");
    let mut churn = Churn::new(host, seed);
    let check = |churn: &mut Churn<'_>| {
        if costs.kick.is_zero() {
            churn.assert_no_cpu_idles(slack);
        }
        if costs.kick.is_zero() && is_strict {
            check(&churn.host, &churn.entities);
        }
    };
    for _ in 0..3_000 {
        for _ in 0..churn.dice.below(4) {
            let params = params(&mut churn.dice, cpus, &groups);
            churn.step(params, Wake::Interrupt);
        }
        churn.settle();
        check(&mut churn);
        churn.pass(Nanos::ms(4));
        check(&mut churn);
    }
}

#[test]
fn the_most_urgent_run_and_no_cpu_idles_in_vain() {
    for seed in 1..=30 {
        for cpus in 1..=4 {
            churn(cpus, &[("rt-throttling", 0)], Costs::NONE, None, seed);
        }
    }
}

#[test]
fn throttling_quotas_and_slow_kicks_break_no_law() {
    let quota = Quota::new(Nanos::ms(3), Nanos::ms(10)).ok();
    let often = [("rt-period", 20_000_000), ("rt-runtime", 9_000_000), ("rt-runtime-share", 1)];
    let often = [&often[..2], &often];
    let slow = Costs { kick: Nanos::us(300), ..Costs::NONE };
    for seed in 1..=20 {
        for cpus in [1, 3] {
            let often = often[usize::from(seed % 2 == 0)];
            churn(cpus, often, Costs::NONE, None, seed);
            churn(cpus, often, Costs::NONE, quota, seed);
            churn(cpus, often, slow, quota, seed);
        }
    }
}

#[test]
fn fair_servers_break_no_law() {
    let quota = Quota::new(Nanos::ms(3), Nanos::ms(10)).ok();
    let slow = Costs { kick: Nanos::us(300), ..Costs::NONE };
    let served = [("fair-server", 1), ("fair-server-runtime", 2_000_000), ("fair-server-period", 11_000_000)];
    for seed in 1..=20 {
        for cpus in [1, 3] {
            churn(cpus, &served, Costs::NONE, None, seed);
            churn(cpus, &[("fair", 1), served[0], served[1], served[2]], Costs::NONE, quota, seed);
            churn(cpus, &served, Costs::NONE, quota, seed);
            churn(cpus, &served, slow, quota, seed);
        }
    }
}
