//! Everything at once, in random order: class changes among it.

use super::*;
use sched::{Conserving, LoadBounds};
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

    fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).expect("it was a usize")
    }

    fn params(&mut self, cpus: usize, groups: &[GroupId]) -> Params {
        let priority = number(1 + u8::try_from(self.below(4)).expect("small"));
        let class = match self.below(12) {
            0 | 1 => Class::Fifo(priority),
            2 => Class::RoundRobin(priority),
            3 => Class::Batch,
            4 => Class::Idle,
            5 => Class::Stop,
            _ => Class::Normal,
        };
        let period = Nanos::ms(2 + self.below(30));
        let reservation = (self.below(2) == 0).then(|| Reservation {
            limit: if self.below(2) == 0 { Limit::Soft } else { Limit::Hard },
            ..Reservation::new(period.scale(1 + self.below(40), 100), period)
        });
        let mut affinity = CpuSet::ALL;
        if self.below(3) == 0 {
            affinity = [self.index(cpus), self.index(cpus)].into_iter().map(CpuId::new).collect();
        }
        let weight = Weight::nice([-20, -5, 0, 5, 19][self.index(5)]).expect("in range");
        Params { class, affinity, weight, reservation, group: groups[self.index(groups.len())], ..Params::default() }
    }
}

struct Churn<'a> {
    host: Driver<'a>,
    dice: Dice,
    groups: Vec<GroupId>,
    entities: Vec<EntityId>,
    /// Since when a CPU idles while this entity, with this much CPU time so far, waits for it in vain.
    wasting: BTreeMap<(CpuId, EntityId, Nanos), Instant>,
    slack: Nanos,
    /// Whether fair tasks may go before real-time ones.
    serves: bool,
}

impl Churn<'_> {
    fn step(&mut self) {
        let cpus = self.host.machine().topology().cpus;
        let params = self.dice.params(cpus, &self.groups);
        let n = self.dice.index(self.entities.len().max(1));
        let cpu = CpuId::new(self.dice.index(cpus));
        match (self.dice.below(16), self.entities.get(n).copied()) {
            (0, _) | (_, None) if self.entities.len() < 12 => {
                self.entities.extend(self.host.attach("scripted", params, Workload::Scripted));
            }
            (1, Some(e)) => {
                self.host.detach(e);
                self.entities.retain(|&other| other != e);
            }
            (2..=4, Some(e)) => drop(self.host.adjust(e, params)),
            (5, Some(e)) => self.host.pause(e),
            (6 | 7, _) if running(&self.host, cpu).is_some() => self.host.block(cpu),
            (8, _) if running(&self.host, cpu).is_some() => self.host.yield_now(cpu),
            (_, Some(e)) if self.host.machine().state(e) == State::Blocked => wake(&mut self.host, e),
            _ => {}
        }
    }

    /// The more urgent, the less: by class, then by deadline or priority.
    fn urgency(&self, e: EntityId) -> (u8, i64) {
        let machine = self.host.machine();
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

    /// No CPU runs somebody less urgent than a task above the fair class that waits for it, and none idles beyond the slack
    /// while anybody waits for it.
    fn check(&mut self) {
        let machine = self.host.machine();
        let mut wasting = BTreeMap::new();
        for cpu in machine.topology().iter() {
            let there = machine.running(cpu);
            let urgency = there.map_or((3, 0), |e| self.urgency(e));
            for &e in &self.entities {
                let free = machine.params(e).affinity.contains(cpu) && !machine.is_held(e);
                if !free || machine.state(e) != State::Waiting {
                    continue;
                }
                let now = machine.now();
                assert!(self.serves || urgency <= self.urgency(e), "{e} waits while {cpu:?} runs {there:?} at {now}");
                if there.is_none() {
                    let pair = (cpu, e, machine.charged(e));
                    let since = *self.wasting.get(&pair).unwrap_or(&machine.now());
                    assert!(machine.now().since(since) <= self.slack, "{cpu:?} idles since {since}, and {e} waits");
                    wasting.insert(pair, since);
                }
            }
        }
        self.wasting = wasting;
    }
}

fn churn(cpus: usize, knobs: &[(&str, i64)], costs: Costs, quota: Option<Quota>, seed: u64) {
    let shape = sched::Topology::new(cpus);
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of linux");
    }
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
    let mut host = Driver::new(&POLICY, shape, &values, costs).expect("linux works everywhere");
    let mut groups = vec![GroupId::ROOT];
    for parent in 0..2 {
        let params = GroupParams { quota, ..GroupParams::default() };
        groups.push(host.create_group("group", params, groups[parent]).expect("accepted"));
    }
    let serves = values.on("rt-throttling") || values.on("fair-server");
    let mut churn =
        Churn { host, dice: Dice(seed), groups, entities: Vec::new(), wasting: BTreeMap::new(), slack, serves };
    for _ in 0..3_000 {
        for _ in 0..churn.dice.below(4) {
            churn.step();
        }
        let settled = churn.host.now() + Nanos::ns(1);
        churn.host.run_until(settled);
        if costs.kick.is_zero() {
            churn.check();
        }
        let later = churn.host.now() + Nanos::us(churn.dice.below(4_000));
        churn.host.run_until(later);
        if costs.kick.is_zero() {
            churn.check();
        }
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
