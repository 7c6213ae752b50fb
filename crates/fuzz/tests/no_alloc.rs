//! Law 9: decisions do not allocate. Every policy runs a long random workload under a counting allocator. Changes of
//! membership (attach, adjust, groups) may allocate; inputs and decisions must not.

#[path = "laws/driver.rs"]
mod driver;

use driver::Driver;
use fuzz::{Options, run_metered};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::{
    Class, CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, Machine, Nanos,
    Notice, Params, Quota, Reservation, RtPriority, State, Topology, Wake, Weight,
};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

const CPUS: usize = 4;
const ENTITIES: u64 = 60;
const ROUNDS: u64 = 100_000;
/// Number of rounds in a busy or quiet phase. The phases alternate, so that CPUs also become idle, pull entities and
/// receive kicks.
const ROUNDS_PER_TIME: u64 = 1_000;
const GROUPS: usize = 5;

fn without_allocating(what: &dyn Debug, call: &mut dyn FnMut()) {
    let counts = allocation_counter::measure(call);
    assert!(counts.count_total == 0, "law 9: {what:?} allocated {} times", counts.count_total);
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn choose<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[usize::try_from(self.below(of.len() as u64)).expect("an index fits")])
    }

    fn nice(&mut self) -> Weight {
        let nice = i32::try_from(self.below(40)).expect("it is small") - 20;
        Weight::nice(nice).expect("it is in range")
    }

    fn affinity(&mut self) -> CpuSet {
        let cpus: CpuSet = (0..CPUS).filter(|_| self.one_in(2)).map(CpuId::new).collect();
        if cpus.is_empty() { CpuSet::ALL } else { cpus }
    }
}

/// Numbers of events by type.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    wakes: u64,
    stops: u64,
    yields: u64,
    events: u64,
    changes: u64,
    /// Number of turns. Each turn delivers ended time slices and alarms.
    turns: u64,
    /// Number of rounds at whose end a CPU is idle.
    idle: u64,
}

struct Day {
    driver: Driver,
    dice: Dice,
    ids: Vec<EntityId>,
    groups: Vec<GroupId>,
    quiet: bool,
    tally: Tally,
}

impl Day {
    /// Creates three levels of groups. Some groups have a quota and a cap. A third of the entities have reservations
    /// that are small enough to fit together. A few entities are real-time.
    fn new(policy: &Descriptor, settings: &[(&str, &str)]) -> Day {
        let host = Topology { llc: CPUS / 2, ..Topology::new(CPUS) };
        let mut knobs = policy.defaults();
        for (name, word) in settings {
            knobs.set_word(name, word).expect("the policy has such a knob");
        }
        let mut machine = Machine::build(policy, host, &knobs, Kicks::Immediate).expect("these knobs go together");
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(9));
        let mut groups = vec![GroupId::ROOT];
        for n in 1..GROUPS {
            let quota = Quota::new(Nanos::ms(4), Nanos::ms(20)).expect("it is in range");
            let limited = n % 2 == 0;
            let params = GroupParams {
                weight: dice.nice(),
                quota: limited.then_some(quota),
                cap_percent: limited.then_some(40),
                gang: n % 3 == 0,
            };
            groups.push(machine.create_group(Instant::ZERO, params, groups[n / 2]).expect("it is allowed"));
        }
        let ids = (0..ENTITIES).map(|n| {
            let mut params = Params { weight: dice.nice(), ..Params::default() };
            params.group = dice.choose(&groups).expect("the root is always there");
            if n % 3 == 0 {
                let limit = if n % 2 == 0 { Limit::Soft } else { Limit::Hard };
                let (slice, period) = (Nanos::ms(1), Nanos::ms(30 + n));
                params.reservation = Some(Reservation { slice, period, deadline: None, start: None, limit });
            }
            if n % 10 == 1 {
                params.class = Class::RoundRobin(RtPriority::new(10).expect("it is in range"));
            }
            // A policy may refuse a reservation that does not fit its gangs.
            let attached = machine.attach(Instant::ZERO, params);
            let alone = Params { reservation: None, ..params };
            attached.or_else(|_| machine.attach(Instant::ZERO, alone)).expect("it is allowed")
        });
        let ids = ids.collect();
        Day {
            driver: Driver::new(machine, without_allocating),
            dice,
            ids,
            groups,
            quiet: false,
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        for round in 0..ROUNDS {
            self.quiet = round / ROUNDS_PER_TIME % 2 == 1;
            let end = self.driver.now + Nanos::us(self.dice.below(1_500));
            while self.driver.due() <= end {
                self.driver.turn();
                self.tally.turns += 1;
            }
            self.driver.now = end;
            for _ in 0..=self.dice.below(3) {
                self.happen();
            }
            self.driver.settle();
            let machine = &self.driver.machine;
            self.tally.idle += u64::from(machine.topology().iter().any(|cpu| machine.running(cpu).is_none()));
        }
        self.tally
    }

    fn happen(&mut self) {
        let Some(e) = self.dice.choose(&self.ids) else { return };
        match (self.dice.below(8), self.driver.machine.state(e)) {
            (_, State::Blocked) if self.quiet && !self.dice.one_in(64) => {}
            (_, State::Blocked) => self.wake(e),
            (0..=2, State::Running(cpu)) => {
                self.tally.stops += 1;
                self.driver.input(Input::Block { cpu });
            }
            (3, State::Running(cpu)) => {
                self.tally.yields += 1;
                self.driver.input(Input::Yield { cpu });
            }
            (4, State::Waiting) => self.yield_to(e),
            (5, _) => {
                self.tally.stops += 1;
                self.driver.input(Input::Pause { entity: e });
            }
            (6, _) => self.adjust(e),
            (_, State::Waiting | State::Running(_)) => {
                self.tally.events += 1;
                self.driver.input(Input::Event { entity: e, what: Notice::Interrupt });
            }
        }
    }

    fn busy_cpu(&mut self) -> Option<CpuId> {
        let Driver { machine, .. } = &self.driver;
        let busy: Vec<CpuId> = machine.topology().iter().filter(|&cpu| machine.running(cpu).is_some()).collect();
        self.dice.choose(&busy)
    }

    fn wake(&mut self, entity: EntityId) {
        let waker = self.busy_cpu().and_then(|cpu| self.driver.machine.running(cpu));
        let why = match (self.dice.below(4), waker) {
            (0, Some(waker)) => Wake::By { waker, sync: self.dice.one_in(2) },
            (1, parent) => Wake::New { parent },
            (2, _) => Wake::Interrupt,
            _ => Wake::Timer,
        };
        self.tally.wakes += 1;
        self.driver.input(Input::Wake { entity, why });
    }

    fn yield_to(&mut self, to: EntityId) {
        if let Some(cpu) = self.busy_cpu() {
            self.tally.yields += 1;
            self.driver.input(Input::YieldTo { cpu, to });
        }
    }

    /// Changes parameters, which may allocate. Later decisions show whether the policies have reserved enough memory.
    fn adjust(&mut self, e: EntityId) {
        let Driver { machine, now, .. } = &mut self.driver;
        let mut params = *machine.params(e);
        match self.dice.below(4) {
            0 => params.weight = self.dice.nice(),
            1 => params.affinity = self.dice.affinity(),
            2 => params.group = self.dice.choose(&self.groups).expect("the root is always there"),
            _ => params.class = Class::Fifo(RtPriority::new(20).expect("it is in range")),
        }
        if params.class.rt_priority().is_some() && self.dice.one_in(2) {
            params.class = Class::Normal;
        }
        // After a change of affinity, partitioned EDF may have no room for the reservation on the allowed CPUs.
        if machine.adjust(*now, e, params).is_ok() {
            self.tally.changes += 1;
        }
    }
}

fn assert_silent(policy: &Descriptor, settings: &[(&str, &str)]) {
    let tally = Day::new(policy, settings).run();
    println!("{} {settings:?}: {tally:?}", policy.name);
    let Tally { wakes, stops, yields, events, changes, turns, idle } = tally;
    // With `enforce` set to `none`, no time slice ends and no alarm fires.
    let by_itself = if settings.contains(&("enforce", "none")) { u64::MAX } else { turns };
    let least = [wakes, stops, yields, events, changes, by_itself, idle].into_iter().min();
    assert!(least > Some(1_000), "{}: everything happens often: {tally:?}", policy.name);
}

#[test]
fn no_policy_allocates_when_it_decides() {
    for policy in fuzz::chosen_policies() {
        assert_silent(policy, &[]);
    }
}

#[test]
fn no_variant_of_edf_allocates_when_it_decides() {
    let edf = policies::find("edf").expect("there is edf");
    for settings in [
        &[("enforce", "none")][..],
        &[("enforce", "hard")],
        &[("late", "carry")],
        &[("placement", "partitioned")],
        &[("placement", "partitioned"), ("enforce", "hard")],
        &[("placement", "partitioned"), ("charge", "wall")],
    ] {
        assert_silent(edf, settings);
    }
}

/// No policy allocates under the fuzzer's inputs: random knobs, 1 to 16 CPUs, late kicks and alarms, arrivals and
/// departures.
#[test]
fn no_policy_allocates_when_it_is_fuzzed() {
    for policy in policies::ALL {
        for seed in 0..20 {
            let options = Options::draw(policy, seed);
            println!("{options}");
            let mut meter = |call: &mut dyn FnMut()| without_allocating(&"a call", call);
            run_metered(&options, &mut meter).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn allocating_in_a_pick_is_caught() {
    let cheat = policies::CANARIES.iter().find(|canary| canary.name == "canary-allocates").expect("there is one");
    let run = AssertUnwindSafe(|| Day::new(cheat, &[]).run());
    let panic = catch_unwind(run).expect_err("it cheats");
    let what = panic.downcast_ref::<String>().expect("it says why");
    assert!(what.contains("law 9"), "{what}");
}
