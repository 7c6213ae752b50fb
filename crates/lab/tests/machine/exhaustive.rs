//! Small scope: all sequences of 6 inputs over 2 CPUs × 3 entities, for every policy. Most mistakes show in a small world, if
//! all of it is looked at.
//!
//! At every step every input that is valid then is tried: each entity is woken if it is blocked, paused if not, and has an
//! event; whoever runs on a CPU blocks, yields, or comes to the end of its slice; the next alarm comes; what is asked for
//! an entity changes. The machine's assertions judge each step; after the last, nobody may be lost.

use crate::driver::{Driver, params};
use sched::{CpuId, CpuSet, Descriptor, EntityId, Host, Input, Nanos, Params, State, Weight};
use std::panic::{AssertUnwindSafe, catch_unwind};

const STEPS: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Wake(EntityId),
    Pause(EntityId),
    Event(EntityId),
    Block(CpuId),
    Yield(CpuId),
    /// Time goes on to the next slice end or alarm.
    Time,
    /// The first entity is pinned to CPU 1 and made heavy, or let go again.
    Adjust,
}

/// Whether the machine decides after every input, or after every other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    Single,
    Pairs,
}

struct World {
    driver: Driver,
    entities: [EntityId; 3],
    plain: Params,
}

impl World {
    fn new(policy: &Descriptor) -> World {
        let mut driver = Driver::new(policy, Host::new(2), &policy.defaults());
        let group = driver.group();
        let entities = [0, 1, 2].map(|i| driver.machine.attach(driver.now, params(policy, i, group)).expect("it fits"));
        World { driver, entities, plain: params(policy, 0, group) }
    }

    fn valid(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(12);
        for e in self.entities {
            if self.driver.machine.state(e) == State::Blocked {
                steps.push(Step::Wake(e));
            } else {
                steps.push(Step::Pause(e));
            }
        }
        if self.driver.machine.state(self.entities[0]) != State::Blocked {
            steps.push(Step::Event(self.entities[0]));
        }
        for cpu in self.driver.busy() {
            steps.extend([Step::Block(cpu), Step::Yield(cpu)]);
        }
        if self.driver.next() != sched::Instant::NEVER {
            steps.push(Step::Time);
        }
        steps.push(Step::Adjust);
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wake(e) => self.driver.wake(e),
            Step::Pause(entity) => self.driver.input(Input::Pause { entity }),
            Step::Event(entity) => self.driver.input(Input::Event { entity }),
            Step::Block(cpu) => self.driver.input(Input::Block { cpu }),
            Step::Yield(cpu) => self.driver.input(Input::Yield { cpu }),
            Step::Time => {
                self.driver.now = self.driver.next().max(self.driver.now);
                self.driver.deliver();
            }
            Step::Adjust => {
                let e = self.entities[0];
                let pinned = *self.driver.machine.params(e) != self.plain;
                let other = Params {
                    affinity: CpuSet::one(CpuId::new(1)),
                    weight: Weight::nice(-10).expect("it is in range"),
                    ..self.plain
                };
                let wish = if pinned { self.plain } else { other };
                self.driver.machine.adjust(self.driver.now, e, wish).expect("nothing more is asked");
            }
        }
    }

    fn settle(&mut self) {
        self.driver.settle();
        self.driver.now += Nanos::us(100);
        // What has become due in that time comes now.
        self.driver.deliver();
        self.driver.settle();
    }

    /// Whoever waits gets a CPU when the others leave theirs: nobody is lost.
    fn nobody_is_lost(&mut self) {
        for e in self.entities {
            if self.driver.machine.state(e) == State::Blocked {
                self.driver.wake(e);
            }
        }
        self.settle();
        let mut patience = 3_000;
        while self.entities.iter().any(|&e| self.driver.waits(e)) {
            for e in self.entities {
                if matches!(self.driver.machine.state(e), State::Running(_)) {
                    self.driver.input(Input::Pause { entity: e });
                }
            }
            self.driver.settle();
            let ran = self.driver.busy().next().is_some();
            assert!(
                ran || (patience > 0 && self.driver.step()),
                "somebody waits, and never runs although all CPUs idle"
            );
            patience -= 1;
        }
    }
}

/// Replays `path`; gives the steps that are valid after it.
fn replay(policy: &Descriptor, pace: Pace, path: &[Step], last: bool) -> Vec<Step> {
    let mut world = World::new(policy);
    for (i, &step) in path.iter().enumerate() {
        world.take(step);
        if pace == Pace::Single || i % 2 == 1 {
            world.settle();
        }
    }
    if last {
        world.settle();
        world.nobody_is_lost();
        return Vec::new();
    }
    world.valid()
}

/// Tries every sequence; gives their number, or the first that fails and why.
fn exhaust(policy: &Descriptor, pace: Pace) -> Result<u64, (Vec<Step>, String)> {
    let mut sequences = 0;
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let last = path.len() == STEPS;
        let steps = catch_unwind(AssertUnwindSafe(|| replay(policy, pace, &path, last))).map_err(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            (path.clone(), words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        })?;
        sequences += u64::from(last);
        for step in steps {
            let mut longer = path.clone();
            longer.push(step);
            paths.push(longer);
        }
    }
    Ok(sequences)
}

fn hold(pace: Pace) {
    for policy in policies::ALL {
        match exhaust(policy, pace) {
            Ok(sequences) => {
                println!("{}: {sequences} sequences", policy.name);
                assert!(sequences > 10_000, "{}: that is not all there is", policy.name);
            }
            Err((path, what)) => panic!("{}: {what}\nafter {path:?}", policy.name),
        }
    }
}

#[test]
fn all_sequences_of_inputs_with_a_decision_after_each() {
    hold(Pace::Single);
}

#[test]
fn all_sequences_of_inputs_with_two_at_an_instant() {
    hold(Pace::Pairs);
}

#[test]
fn canaries_are_caught_in_the_small_world() {
    for name in ["canary-past", "canary-picks-blocked"] {
        let canary = policies::CANARIES.iter().find(|canary| canary.name == name).expect("it is a canary");
        let (path, what) = exhaust(canary, Pace::Single).expect_err("it cheats");
        assert!(what.contains("law"), "{name} was caught for another reason: {what} after {path:?}");
    }
    let forgets = policies::CANARIES.iter().find(|canary| canary.name == "canary-forgets").expect("it is a canary");
    let (_, what) = exhaust(forgets, Pace::Single).expect_err("it loses somebody");
    assert!(what.contains("somebody waits"), "{what}");
}
