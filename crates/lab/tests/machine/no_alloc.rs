//! Law 9: no allocation outside attach, detach, adjust and group, for every policy.

use crate::driver::{Driver, params};
use sched::{Descriptor, Host, Input, Knobs, Machine, Nanos, State, Wake};

/// Random enough, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// How often the machine allocates in a long run of 60 entities on 4 CPUs, after everybody is attached.
fn allocations(policy: &Descriptor, knobs: &Knobs) -> u64 {
    let mut driver = Driver::new(policy, Host::new(4), knobs);
    let group = driver.group();
    let attach = |i| driver.machine.attach(driver.now, params(policy, i, group)).expect("there is room for it");
    let entities: Vec<_> = (0..60).map(attach).collect();
    let mut dice = Dice(1);
    let mut count = 0;
    for _ in 0..30_000 {
        // Now and then nothing is due for a while, else what is due next comes first.
        let next = driver.next();
        driver.now = (driver.now + Nanos::ns(dice.below(2_000_000) as u64)).min(next.max(driver.now));
        count += measured(|| driver.deliver());
        let entity = entities[dice.below(entities.len())];
        let busy: Vec<_> = driver.busy().collect();
        let cpu = (!busy.is_empty()).then(|| busy[dice.below(busy.len())]);
        let input = match (dice.below(6), driver.machine.state(entity), cpu) {
            (0..=2, State::Blocked, _) => Some(Input::Wake { entity, why: Wake::Timer }),
            (0, _, _) => Some(Input::Event { entity }),
            (1, _, _) => Some(Input::Pause { entity }),
            (3, _, Some(cpu)) => Some(Input::Block { cpu }),
            (4, _, Some(cpu)) => Some(Input::Yield { cpu }),
            (5, State::Waiting, Some(cpu)) => Some(Input::YieldTo { cpu, to: entity }),
            _ => None,
        };
        if let Some(input) = input {
            count += measured(|| driver.machine.input(driver.now, input));
        }
        count += settled(&mut driver);
    }
    count
}

/// Allocations of the machine's settle; carrying its actions out is the driver's affair.
fn settled(driver: &mut Driver) -> u64 {
    let (machine, now): (&mut Machine, _) = (&mut driver.machine, driver.now);
    let count = measured(|| {
        machine.settle(now);
    });
    let actions = driver.machine.actions().to_vec();
    for action in actions {
        match action {
            sched::Action::SetAlarm { alarm, number, at, .. } => drop(driver.alarms.insert(number, (at, alarm))),
            sched::Action::ClearAlarm { number, .. } => drop(driver.alarms.remove(&number)),
            _ => {}
        }
    }
    count
}

fn measured(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

#[test]
fn no_policy_allocates_while_it_decides() {
    for policy in policies::ALL {
        assert_eq!(allocations(policy, &policy.defaults()), 0, "{}", policy.name);
    }
}

#[test]
fn no_mode_of_edf_allocates_while_it_decides() {
    let edf = policies::find("edf").expect("it is registered");
    let modes: [&[(&str, &str)]; 4] = [
        &[("enforce", "none")],
        &[("enforce", "hard"), ("late", "carry")],
        &[("placement", "partitioned")],
        &[("placement", "partitioned"), ("charge", "wall")],
    ];
    for mode in modes {
        let mut knobs = edf.defaults();
        mode.iter().for_each(|(knob, word)| knobs.set_word(knob, word).expect("it is a choice of edf"));
        assert_eq!(allocations(edf, &knobs), 0, "{mode:?}");
    }
}

#[test]
fn a_policy_that_allocates_is_caught() {
    let canary = policies::CANARIES.iter().find(|canary| canary.name == "canary-allocates").expect("it is a canary");
    assert!(allocations(canary, &canary.defaults()) > 0);
}
