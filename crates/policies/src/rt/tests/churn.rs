//! Random sets, against brute force: the most urgent run, as far as they are free to move.

use super::*;

/// Xorshift: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn cpu(&mut self, cpus: usize) -> CpuId {
        CpuId::new(usize::try_from(self.below(cpus as u64)).expect("small"))
    }

    fn params(&mut self, cpus: usize, bound: bool) -> Params {
        let priority = 1 + u8::try_from(self.below(6)).expect("small");
        let params = if self.below(3) == 0 { round_robin(priority) } else { fifo(priority) };
        if !bound || self.below(2) == 0 {
            return params;
        }
        let affinity = [self.cpu(cpus), self.cpu(cpus)].into_iter().collect();
        Params { affinity, ..params }
    }
}

fn priority_of(host: &Driver<'_>, e: EntityId) -> u8 {
    host.machine().params(e).class.rt_priority().expect("real-time").number()
}

/// Nobody waits while a CPU it may use runs somebody less urgent, or nobody; and the lowest of those who run is
/// at least as urgent as the highest of those who wait, if everybody may run everywhere.
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

fn churn(cpus: usize, bound: bool, knobs: &[(&str, i64)], costs: Costs, seed: u64) {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of rt");
    }
    let mut host = Driver::new(&POLICY, sched::Topology::new(cpus), &values, costs).expect("rt works everywhere");
    let mut dice = Dice(seed);
    let mut entities: Vec<EntityId> = Vec::new();
    for _ in 0..3_000 {
        for _ in 0..dice.below(4) {
            let params = dice.params(cpus, bound);
            let someone = entities.get(usize::try_from(dice.below(entities.len().max(1) as u64)).expect("small"));
            let cpu = dice.cpu(cpus);
            match (dice.below(16), someone.copied()) {
                (0, _) | (_, None) if entities.len() < 12 => entities.push(scripted(&mut host, params)),
                (1, Some(e)) => {
                    host.detach(e);
                    entities.retain(|&other| other != e);
                }
                (2 | 3, Some(e)) => host.adjust(e, params).expect("accepted"),
                (4, Some(e)) => host.pause(e),
                (5 | 6, _) if running(&host, cpu).is_some() => host.block(cpu),
                (7, _) if running(&host, cpu).is_some() => host.yield_now(cpu),
                (_, Some(e)) if host.machine().state(e) == State::Blocked => wake(&mut host, e),
                _ => {}
            }
        }
        let settled = host.now() + Nanos::ns(1);
        host.run_until(settled);
        if costs.kick.is_zero() && knobs[0].1 == 0 {
            check(&host, &entities);
        }
        let later = host.now() + Nanos::us(dice.below(8_000));
        host.run_until(later);
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
