//! Everything at once, in random order, with the laws of several CPUs checked at every step.

use super::*;
use sched::{Conserving, Knobs, LoadBounds};
use std::collections::BTreeMap;

/// Xorshift: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

struct Churn<'a> {
    host: Driver<'a>,
    dice: Dice,
    groups: Vec<GroupId>,
    entities: Vec<EntityId>,
    /// Since when each CPU idles while this entity, with this much CPU time so far, waits for it in vain.
    wasting: BTreeMap<(CpuId, EntityId, Nanos), Instant>,
    slack: Nanos,
}

impl Churn<'_> {
    fn params(&mut self) -> Params {
        let cpus = self.host.machine().topology().cpus as u64;
        let mut affinity = CpuSet::ALL;
        if self.dice.below(2) == 0 {
            affinity = CpuSet::one(CpuId::new(usize::try_from(self.dice.below(cpus)).expect("small")));
            affinity.insert(CpuId::new(usize::try_from(self.dice.below(cpus)).expect("small")));
        }
        let weight = Weight::xen([1, 64, 256, 1024, 65_535][usize::try_from(self.dice.below(5)).expect("small")]);
        let group = match self.dice.below(2) {
            0 => GroupId::ROOT,
            _ => self.groups[usize::try_from(self.dice.below(self.groups.len() as u64)).expect("small")],
        };
        Params { weight: weight.expect("in range"), affinity, group, ..Params::default() }
    }

    fn group_params(&mut self) -> GroupParams {
        let cap_percent = Some(10 * u32::try_from(self.dice.below(30)).expect("small")).filter(|&cap| cap > 0);
        GroupParams { cap_percent, ..GroupParams::default() }
    }

    fn someone(&mut self) -> Option<EntityId> {
        let n = usize::try_from(self.dice.below(self.entities.len().max(1) as u64)).expect("small");
        self.entities.get(n).copied()
    }

    fn step(&mut self) {
        let kind = self.dice.below(20);
        let cpu =
            CpuId::new(usize::try_from(self.dice.below(self.host.machine().topology().cpus as u64)).expect("small"));
        match (kind, self.someone()) {
            (0, _) | (_, None) if self.entities.len() < 12 => {
                let params = self.params();
                let e = scripted(&mut self.host, params);
                self.entities.push(e);
            }
            (1, Some(e)) => {
                self.host.detach(e);
                self.entities.retain(|&other| other != e);
            }
            (2 | 3, Some(e)) => {
                let params = self.params();
                self.host.adjust(e, params).expect("accepted");
            }
            (4, _) => {
                let group = self.groups[usize::try_from(self.dice.below(self.groups.len() as u64)).expect("small")];
                let params = self.group_params();
                self.host.adjust_group(group, params).expect("accepted");
            }
            (5, Some(e)) => self.host.pause(e),
            (6 | 7, _) if running(&self.host, cpu).is_some() => self.host.block(cpu),
            (8, _) if running(&self.host, cpu).is_some() => self.host.yield_now(cpu),
            (_, Some(e)) if self.host.machine().state(e) == State::Blocked => interrupt(&mut self.host, e),
            _ => {}
        }
    }

    /// Law 11 at this instant, and what `inspect` says against the truth.
    fn check(&mut self) {
        let machine = self.host.machine();
        let mut wasting = BTreeMap::new();
        for cpu in machine.topology().iter().filter(|&cpu| machine.running(cpu).is_none()) {
            for &e in &self.entities {
                let free = machine.params(e).affinity.contains(cpu) && !machine.is_held(e);
                if free && machine.state(e) == State::Waiting {
                    let pair = (cpu, e, machine.charged(e));
                    let since = *self.wasting.get(&pair).unwrap_or(&machine.now());
                    assert!(machine.now().since(since) <= self.slack, "{cpu:?} idles since {since}, and {e} waits");
                    wasting.insert(pair, since);
                }
            }
        }
        self.wasting = wasting;
        for &e in &self.entities {
            assert_eq!(machine.inspect(e, "parked") == Some(1), machine.is_held(e));
        }
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
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of credit");
    }
    let load = LoadBounds { has_sleepers: true, has_changes: true, ..load(&shape, &values, 12) };
    assert_eq!((POLICY.starvation)(&load), None);
    let Conserving::Global { mut slack } = (POLICY.conserving)(&load) else { panic!("it is conserving") };
    if !costs.kick.is_zero() {
        // Who is called comes later, and may find that another was faster.
        slack = Nanos::s(1);
    }
    let mut host = Driver::new(&POLICY, shape, &values, costs).expect("credit works everywhere");
    let groups = (0..3).map(|_| group(&mut host, GroupParams::default())).collect();
    let mut churn = Churn { host, dice: Dice(seed), groups, entities: Vec::new(), wasting: BTreeMap::new(), slack };
    for _ in 0..4_000 {
        for _ in 0..churn.dice.below(4) {
            churn.step();
        }
        // Decides about what has just happened; then looks; then lets some time pass.
        let settled = churn.host.now() + Nanos::ns(1);
        churn.host.run_until(settled);
        churn.check();
        let later = churn.host.now() + Nanos::us(churn.dice.below(8_000));
        churn.host.run_until(later);
        churn.check();
    }
}

#[test]
fn no_cpu_idles_while_somebody_it_may_run_waits() {
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
        let host = host_of(shape, &[]);
        let mut all = Churn {
            host,
            dice,
            groups: Vec::new(),
            entities: Vec::new(),
            wasting: BTreeMap::new(),
            slack: Nanos::ZERO,
        };
        let has_limits = seed % 2 == 0;
        for _ in 0..3 {
            let params = if has_limits { all.group_params() } else { GroupParams::default() };
            let vm = group(&mut all.host, params);
            all.groups.push(vm);
        }
        let count = 2 + all.dice.below(8);
        for _ in 0..count {
            let params = all.params();
            let e = hog(&mut all.host, params);
            all.entities.push(e);
        }
        let values = POLICY.defaults();
        let load = LoadBounds { has_limits, ..load(&shape, &values, count) };
        let bound = (POLICY.starvation)(&load).expect("hogs wait for a bounded time");
        let mut waiting = vec![(Nanos::ZERO, Instant::ZERO); all.entities.len()];
        let mut longest = Nanos::ZERO;
        for step in 1..6_000 {
            all.host.run_until(at(5 * step));
            for (&e, (charged, since)) in all.entities.iter().zip(&mut waiting) {
                let machine = all.host.machine();
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
