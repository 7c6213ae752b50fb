//! Tests with all inputs and changes in random order. Law 11 is checked at every step.

use super::*;
use crate::fixture::{self, Churn, Dice, host_of_costs};
use sched::{Conserving, Knobs, LoadBounds};

fn params(dice: &mut Dice, cpus: usize, groups: &[GroupId]) -> Params {
    let mut affinity = CpuSet::ALL;
    if dice.below(2) == 0 {
        affinity = [dice.cpu(cpus), dice.cpu(cpus)].into_iter().collect();
    }
    let weight = Weight::xen([1, 64, 256, 1024, 65_535][dice.index(5)]).expect("in range");
    let group = if dice.below(2) == 0 { GroupId::ROOT } else { groups[dice.index(groups.len())] };
    Params { weight, affinity, group, ..Params::default() }
}

fn group_params(dice: &mut Dice) -> GroupParams {
    let cap_percent = Some(10 * u32::try_from(dice.below(30)).expect("small")).filter(|&cap| cap > 0);
    GroupParams { cap_percent, ..GroupParams::default() }
}

/// Performs one random input, or changes the parameters of an entity or a group at random.
fn step(churn: &mut Churn<'_>, groups: &[GroupId]) {
    if churn.dice.below(20) == 0 {
        let (group, params) = (groups[churn.dice.index(groups.len())], group_params(&mut churn.dice));
        return churn.host.adjust_group(group, params).expect("accepted");
    }
    let cpus = churn.cpus();
    let params = params(&mut churn.dice, cpus, groups);
    churn.step(params, Wake::Interrupt);
}

/// Checks law 11 at this instant, and that `inspect` reports exactly the held entities as parked.
fn check(churn: &mut Churn<'_>, slack: Nanos) {
    churn.assert_no_cpu_idles(slack);
    let machine = churn.host.machine();
    for &e in &churn.entities {
        assert_eq!(machine.inspect(e, "parked") == Some(1), machine.is_held(e));
    }
}

fn load<'a>(host: &'a sched::Topology, knobs: &'a Knobs, entities: u64) -> LoadBounds<'a> {
    LoadBounds {
        weight_least: 4,
        weight_most: 4 * 65_535,
        group_depth: 1,
        has_limits: true,
        has_affinity: true,
        ..LoadBounds::of_hogs(host, knobs, entities)
    }
}

fn churn(shape: sched::Topology, knobs: &[(&str, i64)], costs: Costs, seed: u64) {
    let values = fixture::knobs(&POLICY, &[], knobs);
    let load = LoadBounds { has_sleepers: true, has_changes: true, ..load(&shape, &values, 12) };
    assert_eq!((POLICY.starvation)(&load), None);
    let Conserving::Global { mut slack } = (POLICY.conserving)(&load) else { panic!("it is conserving") };
    if !costs.kick.is_zero() {
        // A kicked CPU picks only after a delay, and another CPU may pick the entity in the meantime.
        slack = Nanos::s(1);
    }
    let mut host = host_of_costs(&POLICY, shape, &values, costs);
    let groups: Vec<GroupId> = (0..3).map(|_| group(&mut host, GroupParams::default())).collect();
    let mut churn = Churn::new(host, seed);
    for _ in 0..4_000 {
        for _ in 0..churn.dice.below(4) {
            step(&mut churn, &groups);
        }
        churn.settle();
        check(&mut churn, slack);
        churn.pass(Nanos::ms(8));
        check(&mut churn, slack);
    }
}

#[test]
fn no_cpu_idles_while_a_vcpu_that_it_may_run_waits() {
    for seed in 1..=40 {
        for cpus in 1..=4 {
            churn(sched::Topology::new(cpus), &[], Costs::NONE, seed);
        }
        churn(sched::Topology { cpus: 8, smt: 2, llc: 4 }, &[], Costs::NONE, seed);
        churn(
            sched::Topology { cpus: 4, smt: 2, llc: 4 },
            &[("slice", 5_000_000), ("tick-stagger", 3_000_000)],
            Costs::NONE,
            seed,
        );
    }
}

#[test]
fn a_migration_delay_costs_no_more_than_its_slack() {
    for seed in 1..=20 {
        churn(sched::Topology::new(4), &[("migration-delay", 1_000_000)], Costs::NONE, seed);
    }
}

#[test]
fn kicks_may_take_their_time() {
    for seed in 1..=20 {
        churn(sched::Topology::new(4), &[], Costs { kick: Nanos::us(300), ..Costs::NONE }, seed);
    }
}

#[test]
fn no_hog_waits_longer_than_the_bound_that_is_stated() {
    for seed in 1..=40 {
        let mut dice = Dice(seed);
        let shape = sched::Topology::new(1 + usize::try_from(dice.below(4)).expect("small"));
        let mut host = host_of(shape, &[]);
        let has_limits = seed % 2 == 0;
        let mut groups = Vec::new();
        for _ in 0..3 {
            let params = if has_limits { group_params(&mut dice) } else { GroupParams::default() };
            groups.push(group(&mut host, params));
        }
        let count = 2 + dice.below(8);
        let entities: Vec<EntityId> =
            (0..count).map(|_| hog(&mut host, params(&mut dice, shape.cpus, &groups))).collect();
        let values = POLICY.defaults();
        let load = LoadBounds { has_limits, ..load(&shape, &values, count) };
        let bound = (POLICY.starvation)(&load).expect("hogs wait for a bounded time");
        let mut waiting = vec![(Nanos::ZERO, Instant::ZERO); entities.len()];
        let mut longest = Nanos::ZERO;
        for step in 1..6_000 {
            host.run_until(at(5 * step));
            for (&e, (charged, since)) in entities.iter().zip(&mut waiting) {
                let machine = host.machine();
                let waits = machine.state(e) == State::Waiting && !machine.is_held(e);
                if !waits || machine.charged(e) != *charged {
                    (*charged, *since) = (machine.charged(e), machine.now());
                }
                longest = longest.max(machine.now().since(*since));
            }
        }
        assert!(longest <= bound, "seed {seed}: {longest}, stated {bound}");
    }
}
