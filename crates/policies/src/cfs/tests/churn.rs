//! Tests with long random runs of all inputs and changes, checked against the laws.

use super::balancing::promised;

use super::*;
use sched::State;

struct Churn {
    world: World,
    dice: Dice,
    groups: Vec<GroupId>,
    entities: Vec<EntityId>,
    cpus: usize,
}

impl Churn {
    fn new(host: Topology, seed: u64, kick: Nanos) -> Churn {
        let costs = Costs { kick, ..Costs::NONE };
        let world = World::delayed(host, &[], costs);
        Churn { world, dice: Dice(seed), groups: vec![GroupId::ROOT], entities: Vec::new(), cpus: host.cpus }
    }

    fn group_params(&mut self, quotas: bool) -> GroupParams {
        let weight = Weight::linux(u32::try_from(2 + self.dice.below(5_000)).unwrap()).unwrap();
        let quota = (quotas && self.dice.below(2) == 0).then(|| {
            let period = Nanos::ms(5 + self.dice.below(60));
            Quota::new(period.scale(10 + self.dice.below(150), 100).max(Nanos::ms(1)), period).unwrap()
        });
        GroupParams { weight, quota, ..GroupParams::default() }
    }

    fn params(&mut self) -> Params {
        let weight = i32::try_from(self.dice.below(40)).unwrap() - 20;
        let class = [Class::Normal, Class::Normal, Class::Normal, Class::Batch, Class::Idle][self.dice.index(5)];
        let group = self.dice.index(self.groups.len());
        let params = Params { class, group: self.groups[group], ..nice(weight) };
        if self.dice.below(3) == 0 {
            let cpu = self.dice.index(self.cpus);
            on(&[cpu, (cpu + 1) % self.cpus], params)
        } else {
            params
        }
    }

    fn some(&mut self) -> Option<EntityId> {
        let at = self.dice.index(self.entities.len().max(1));
        self.entities.get(at).copied()
    }

    fn step(&mut self, quotas: bool) {
        let params = self.params();
        let cpu = CpuId::new(self.dice.index(self.cpus));
        let (some, other) = (self.some(), self.some());
        let running = self.world.running(cpu.index());
        match (self.dice.below(12), some, other) {
            (0, ..) if self.entities.len() < 12 => {
                let parent = running;
                let new = self.world.scripted(params);
                self.entities.push(new);
                self.world.host.wake(new, Wake::New { parent });
            }
            (1, ..) if self.entities.len() < 12 => self.entities.push(self.world.hog(params)),
            (2, Some(e), _) if self.dice.below(3) == 0 => {
                self.entities.retain(|&other| other != e);
                self.world.host.detach(e);
            }
            (3, Some(e), _) => self.world.host.adjust(e, params).unwrap(),
            (4, Some(e), _) if self.world.host.machine().state(e) != State::Blocked => self.world.host.pause(e),
            (5 | 6, Some(e), Some(waker)) if self.world.host.machine().state(e) == State::Blocked => {
                let why = match self.dice.below(4) {
                    0 => Wake::Timer,
                    1 => Wake::Resumed,
                    n => Wake::By { waker, sync: n == 3 },
                };
                self.world.host.wake(e, why);
            }
            (7, ..) if running.is_some() => self.world.host.yield_now(cpu),
            (8, Some(to), _) if running.is_some() => self.world.host.yield_to(cpu, to),
            (9, ..) if running.is_some() => self.world.host.block(cpu),
            (10, ..) if self.groups.len() < 6 => {
                let (parent, params) = (self.dice.index(self.groups.len()), self.group_params(quotas));
                let parent = self.groups[parent];
                self.groups.push(self.world.host.create_group("group", params, parent).unwrap());
            }
            (11, ..) if self.groups.len() > 1 => {
                let group = 1 + self.dice.index(self.groups.len() - 1);
                let params = self.group_params(quotas);
                self.world.host.adjust_group(self.groups[group], params).unwrap();
            }
            _ => {}
        }
    }

    fn run(&mut self, steps: usize, quotas: bool) {
        for _ in 0..steps {
            self.step(quotas);
            let pause = [0, 1, 1_000, 300_000, 2_000_000, 9_000_000][self.dice.index(6)];
            let until = self.world.host.now() + Nanos::ns(1 + self.dice.below(pause + 1));
            self.world.host.run_until(until);
        }
        // The policy and the machine must agree on the CPU time of each task. After all tasks are detached, no CPU runs
        // a task.
        for e in std::mem::take(&mut self.entities) {
            let charged = self.world.host.machine().charged(e);
            assert_eq!(self.world.inspect(e, "sum_exec").unsigned_abs(), charged.as_ns(), "law 5 for {e}");
            self.world.host.detach(e);
        }
        self.world.host.run_until(self.world.host.now() + Nanos::s(3));
        assert!((0..self.cpus).all(|cpu| self.world.running(cpu).is_none()));
    }

    fn turns(&self) -> Vec<Turn> {
        self.world.record.borrow().turns.clone()
    }
}

const HOSTS: [Topology; 4] = [
    Topology { cpus: 1, smt: 1, llc: 1 },
    Topology { cpus: 2, smt: 1, llc: 2 },
    Topology { cpus: 4, smt: 1, llc: 2 },
    Topology { cpus: 6, smt: 2, llc: 4 },
];

#[test]
fn everything_at_random_keeps_the_laws() {
    for seed in 0..40 {
        for host in HOSTS {
            for (kick, quotas) in [(0, false), (0, true), (40, true)] {
                let mut churn = Churn::new(host, seed, Nanos::us(kick));
                churn.run(600, quotas);
                let record = churn.world.record.borrow();
                let (slack, starvation) = promised(host, 12, (2, 88_761), 5);
                assert!(record.longest_wait <= starvation, "seed {seed}");
                if !quotas {
                    assert!(record.longest_idle <= slack, "seed {seed}, {host:?}: {}", record.longest_idle);
                }
            }
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_turns() {
    for host in HOSTS {
        let run = || {
            let mut churn = Churn::new(host, 7, Nanos::us(5));
            churn.run(600, true);
            churn.turns()
        };
        assert_eq!(run(), run());
    }
}
