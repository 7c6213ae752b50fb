//! Exhaustive test of short runs: all sequences of [`LENGTH`] inputs on 2 CPUs with 3 entities, for every policy.
//!
//! The machine's own assertions check each step. After each sequence, every entity that is not paused must run again.
//! The test covers every sequence of the inputs that `World::valid` returns in each state.

use crate::driver::Driver;
use sched::{
    Class, CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, LoadBounds,
    Machine, Nanos, Notice, Params, Quota, Reservation, RtPriority, State, Topology, Wake, Weight,
};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of inputs per sequence.
const LENGTH: usize = 6;
/// A policy has sequences of this length in one of so many commits, and shorter ones in the others.
const SHARES: usize = 3;
const CPUS: usize = 2;
const ENTITIES: usize = 3;
/// Time between two instants with inputs, unless an input has its own time.
const GAP: Nanos = Nanos::us(100);
/// Maximum time until every entity has run once.
const PATIENCE: Nanos = Nanos::s(10);
/// Maximum time until every entity has run once under a policy that may starve an entity. An entity that has not run
/// within this time must run when it is alone.
const SHORT_PATIENCE: Nanos = Nanos::ms(150);

/// An input, or a change of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Wake(usize, Why),
    Pause(usize),
    Event(usize),
    Block(usize),
    Yield(usize),
    /// The time slice on this CPU ends. The driver may report the end late.
    Expire(usize),
    /// The next alarm fires, possibly late.
    Alarm,
    /// The first entity becomes heavy, or returns to the normal weight.
    Weigh,
    /// The affinity of the first entity becomes the last CPU, or is removed.
    Confine,
    /// The entity on this CPU yields to the waiting entity with the lowest id.
    YieldTo(usize),
    /// The oldest kick in flight arrives, after any delay.
    Kick,
    /// The last entity is detached in any state, and an entity with equal parameters takes its index.
    Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    ByItself,
    Resumed,
    /// A wake-up by this entity, which runs on the lowest busy CPU.
    By(usize),
}

struct World {
    driver: Driver,
    ids: [EntityId; ENTITIES],
    woke: [bool; ENTITIES],
    paused: [bool; ENTITIES],
}

impl World {
    /// Creates three entities with parameters that every policy accepts: a gang with a quota and a cap, weights, two
    /// reservations and a real-time priority.
    fn new(policy: &Descriptor, kicks: Kicks) -> World {
        let host = Topology::new(CPUS);
        let machine = Machine::build(policy, host, &policy.defaults(), kicks);
        let mut machine = machine.expect("it works with its defaults");
        let now = Instant::ZERO;
        let limits = GroupParams {
            quota: Some(Quota::new(Nanos::ms(3), Nanos::ms(10)).expect("it is in range")),
            cap_percent: Some(30),
            gang: true,
            ..GroupParams::default()
        };
        let group = machine.create_group(now, limits, GroupId::ROOT).expect("it is allowed");
        let promise = |slice, period, limit| {
            Some(Reservation { slice: Nanos::ms(slice), period: Nanos::ms(period), deadline: None, start: None, limit })
        };
        let nice = |nice| Weight::nice(nice).expect("it is in range");
        let requests = [
            Params { group, reservation: promise(3, 10, Limit::Soft), ..Params::default() },
            Params {
                weight: nice(-5),
                class: Class::RoundRobin(RtPriority::new(50).expect("it is in range")),
                reservation: promise(4, 15, Limit::Hard),
                ..Params::default()
            },
            Params { weight: nice(5), ..Params::default() },
        ];
        let ids = requests.map(|params| machine.attach(now, params).expect("it is allowed"));
        let driver = Driver::new(machine, |_, call| call());
        World { driver, ids, woke: [false; ENTITIES], paused: [false; ENTITIES] }
    }

    fn state(&self, n: usize) -> State {
        self.driver.machine.state(self.ids[n])
    }

    /// Returns whether the entity is neither blocked nor paused.
    fn is_active(&self, n: usize) -> bool {
        self.state(n) != State::Blocked
    }

    fn number(&self, e: EntityId) -> usize {
        self.ids.iter().position(|&id| id == e).expect("it is one of the three")
    }

    /// Collects the inputs that the test tries next. Ends of time slices and alarms that are due later are valid only
    /// if time `may_pass`. Only the last entity is woken by another entity, and only the entity on the lowest busy CPU
    /// yields to another entity.
    fn valid(&self, may_pass: bool, steps: &mut Vec<Step>) {
        steps.clear();
        let Driver { machine, now, .. } = &self.driver;
        let running = (0..CPUS).filter_map(|cpu| Some((cpu, machine.running(CpuId::new(cpu))?)));
        for n in 0..ENTITIES {
            if self.is_active(n) {
                steps.extend([Step::Pause(n), Step::Event(n)]);
                continue;
            }
            steps.push(Step::Wake(n, if self.paused[n] { Why::Resumed } else { Why::ByItself }));
            let waker = running.clone().next().filter(|_| n == ENTITIES - 1 && !self.paused[n]);
            steps.extend(waker.map(|(_, waker)| Step::Wake(n, Why::By(self.number(waker)))));
        }
        for (cpu, _) in running.clone() {
            steps.extend([Step::Block(cpu), Step::Yield(cpu)]);
            let until = machine.until(CpuId::new(cpu));
            if until <= *now || may_pass && until != Instant::NEVER {
                steps.push(Step::Expire(cpu));
            }
        }
        let waits = (0..ENTITIES).any(|n| self.state(n) == State::Waiting);
        steps.extend(running.filter(|_| waits).map(|(cpu, _)| Step::YieldTo(cpu)).next());
        if !self.driver.kicks.is_empty() {
            steps.push(Step::Kick);
        }
        if self.driver.next_alarm().is_some_and(|(at, _)| may_pass || at <= *now) {
            steps.push(Step::Alarm);
        }
        steps.extend([Step::Weigh, Step::Confine, Step::Replace]);
    }

    fn take(&mut self, step: Step, may_pass: bool) {
        if may_pass {
            self.driver.now = match step {
                Step::Expire(cpu) => self.driver.machine.until(CpuId::new(cpu)).max(self.driver.now),
                Step::Alarm => self.driver.next_alarm().map_or(Instant::NEVER, |(at, _)| at).max(self.driver.now),
                _ => self.driver.now + GAP,
            };
        }
        match step {
            Step::Wake(n, why) => self.wake(n, why),
            Step::Pause(n) => {
                self.paused[n] = true;
                self.driver.input(Input::Pause { entity: self.ids[n] });
            }
            Step::Event(n) => self.driver.input(Input::Event { entity: self.ids[n], what: Notice::Interrupt }),
            Step::Block(cpu) => self.driver.input(Input::Block { cpu: CpuId::new(cpu) }),
            Step::Yield(cpu) => self.driver.input(Input::Yield { cpu: CpuId::new(cpu) }),
            Step::Expire(cpu) => self.driver.input(Input::Expire { cpu: CpuId::new(cpu) }),
            Step::Alarm => {
                let (_, number) = self.driver.next_alarm().expect("it is valid");
                self.driver.ring(number);
            }
            Step::YieldTo(cpu) => {
                let to = (0..ENTITIES).find(|&n| self.state(n) == State::Waiting).expect("it is valid");
                self.driver.input(Input::YieldTo { cpu: CpuId::new(cpu), to: self.ids[to] });
            }
            Step::Kick => self.driver.kick(),
            Step::Replace => self.replace(),
            Step::Weigh | Step::Confine => self.adjust(step == Step::Weigh),
        }
    }

    fn wake(&mut self, n: usize, why: Why) {
        let first = !std::mem::replace(&mut self.woke[n], true);
        self.paused[n] = false;
        let why = match why {
            Why::By(waker) if first => Wake::New { parent: Some(self.ids[waker]) },
            Why::By(waker) => Wake::By { waker: self.ids[waker], sync: true },
            _ if first => Wake::New { parent: None },
            Why::ByItself => Wake::Timer,
            Why::Resumed => Wake::Resumed,
        };
        self.driver.input(Input::Wake { entity: self.ids[n], why });
    }

    fn replace(&mut self) {
        let last = ENTITIES - 1;
        let Driver { machine, now, .. } = &mut self.driver;
        let params = *machine.params(self.ids[last]);
        machine.detach(*now, self.ids[last]);
        let id = machine.attach(*now, params).expect("it fits in its own place");
        assert_eq!((id.index(), id == self.ids[last]), (self.ids[last].index(), false), "the index is used again");
        (self.ids[last], self.woke[last], self.paused[last]) = (id, false, false);
    }

    fn adjust(&mut self, weigh: bool) {
        let Driver { machine, now, .. } = &mut self.driver;
        let mut params = *machine.params(self.ids[0]);
        let heavy = Weight::nice(-10).expect("it is in range");
        let last = CpuSet::one(CpuId::new(CPUS - 1));
        if weigh {
            params.weight = if params.weight == heavy { Weight::NORMAL } else { heavy };
        } else {
            params.affinity = if params.affinity == last { CpuSet::ALL } else { last };
        }
        machine.adjust(*now, self.ids[0], params).expect("it may ask for this");
    }

    /// Wakes every entity that is not paused, then advances time until each of these entities has run. Under a policy
    /// that may starve an entity, a starved entity must run when it is alone. Returns whether an entity starved.
    fn check_liveness(&mut self, may_starve: bool) -> bool {
        self.driver.now += GAP;
        for n in 0..ENTITIES {
            if !self.is_active(n) && !self.paused[n] {
                self.wake(n, Why::ByItself);
            }
        }
        self.driver.settle();
        let mut left = self.paused.map(|paused| !paused);
        self.run_until_each_ran(&mut left, if may_starve { SHORT_PATIENCE } else { PATIENCE });
        let starved = (0..ENTITIES).filter(|&n| left[n]);
        for n in starved {
            assert!(may_starve, "entity {n} waits for {PATIENCE} and never runs");
            for other in (0..ENTITIES).filter(|&other| other != n) {
                self.driver.input(Input::Pause { entity: self.ids[other] });
            }
            self.driver.settle();
            let mut alone = [false; ENTITIES];
            alone[n] = true;
            self.run_until_each_ran(&mut alone, PATIENCE);
            assert!(!alone[n], "entity {n} is lost: it is alone and does not run");
            let paused = self.paused;
            for other in (0..ENTITIES).filter(|&other| other != n && !paused[other]) {
                self.wake(other, Why::Resumed);
            }
            self.driver.settle();
        }
        left.contains(&true)
    }

    /// Advances time until each entity in `left` has run, or `patience` has passed. Removes the entities that ran from
    /// `left`.
    fn run_until_each_ran(&mut self, left: &mut [bool; ENTITIES], patience: Nanos) {
        let end = self.driver.now + patience;
        loop {
            for (n, left) in left.iter_mut().enumerate() {
                *left &= !matches!(self.state(n), State::Running(_));
            }
            if !left.contains(&true) || self.driver.due() > end {
                return;
            }
            self.driver.turn();
        }
    }
}

/// The results of all sequences.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sequences: u64,
    /// Number of sequences after which an entity starved.
    starved: u64,
}

/// A sequence that broke a law.
#[derive(Debug)]
struct Failure {
    steps: Vec<Step>,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:?}", self.what, self.steps)
    }
}

/// The position of a sequence among all sequences: for each step, the chosen input and the number of valid inputs.
#[derive(Debug, Default)]
struct Path(Vec<(usize, usize)>);

impl Path {
    /// Returns the index of the chosen input at `depth`, of `count` inputs.
    fn choose(&mut self, depth: usize, count: usize) -> usize {
        if depth == self.0.len() {
            self.0.push((0, count));
        }
        let (choice, of) = self.0[depth];
        assert_eq!(of, count, "law 10: the same inputs led elsewhere");
        choice
    }

    /// Advances to the next sequence. Returns whether a next sequence exists.
    fn advance(&mut self) -> bool {
        while let Some((choice, of)) = self.0.last_mut() {
            *choice += 1;
            if choice < of {
                return true;
            }
            self.0.pop();
        }
        false
    }
}

fn may_starve(policy: &Descriptor) -> bool {
    let load = LoadBounds {
        host: &Topology::new(CPUS),
        knobs: &policy.defaults(),
        entities: ENTITIES as u64,
        weight_least: Weight::nice(5).expect("it is in range").as_linux().into(),
        weight_most: Weight::nice(-10).expect("it is in range").as_linux().into(),
        group_depth: 1,
        has_gangs: true,
        has_rt: true,
        has_reservations: true,
        has_limits: true,
        has_changes: true,
        has_sleepers: true,
        has_affinity: true,
        warp_most: Nanos::ZERO,
    };
    (policy.starvation)(&load).is_none()
}

/// Runs every sequence of `length` inputs. Each batch of `batch` inputs arrives at one instant, followed by a settle.
fn exhaust(policy: &Descriptor, length: usize, batch: usize, kicks: Kicks) -> Result<Tally, Failure> {
    let may_starve = may_starve(policy);
    let mut tally = Tally::default();
    let (mut path, mut taken, mut steps) = (Path::default(), Vec::new(), Vec::new());
    loop {
        taken.clear();
        let run = AssertUnwindSafe(|| {
            let mut world = World::new(policy, kicks);
            for depth in 0..length {
                let may_pass = depth % batch == 0;
                world.valid(may_pass, &mut steps);
                let step = steps[path.choose(depth, steps.len())];
                taken.push(step);
                world.take(step, may_pass);
                if (depth + 1) % batch == 0 {
                    world.driver.settle();
                }
            }
            world.check_liveness(may_starve)
        });
        match catch_unwind(run) {
            Ok(starved) => tally.starved += u64::from(starved),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let what = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic").to_string();
                return Err(Failure { steps: taken, what });
            }
        }
        tally.sequences += 1;
        if !path.advance() {
            return Ok(tally);
        }
    }
}

/// Returns whether the policy with this index has sequences of the full length, and the others have shorter ones: `cargo
/// xtask test` sets the seed of the sources, so each commit has another third of the policies. Without a seed, all are full.
fn is_full(index: usize) -> bool {
    let seed = std::env::var("TACTUS_FAULT_SEED").ok().map(|seed| seed.parse::<usize>().expect("the seed is a number"));
    seed.is_none_or(|seed| index % SHARES == seed % SHARES)
}

fn exhaust_all(length: usize, batch: usize, kicks: Kicks) {
    for (index, policy) in fuzz::chosen_policies().into_iter().enumerate() {
        let (length, least) = if is_full(index) { (length, 10_000) } else { (length - batch, 100) };
        match exhaust(policy, length, batch, kicks) {
            Ok(Tally { sequences, starved }) => {
                println!("{}: {sequences} sequences of {length} inputs, {starved} starved", policy.name);
                assert!(sequences > least, "{}: there are more sequences than that", policy.name);
            }
            Err(failure) => panic!("{}: {failure}", policy.name),
        }
    }
}

#[test]
fn every_policy_keeps_the_laws_in_every_short_run() {
    exhaust_all(LENGTH, 1, Kicks::Immediate);
}

#[test]
fn every_policy_keeps_the_laws_when_two_inputs_come_at_one_instant() {
    exhaust_all(LENGTH, 2, Kicks::Immediate);
}

#[test]
fn every_policy_keeps_the_laws_when_kicks_are_under_way() {
    exhaust_all(LENGTH - 1, 1, Kicks::Delivered);
}

fn canary(name: &str) -> &'static Descriptor {
    policies::CANARIES.iter().find(|canary| canary.name == name).expect("there is such a canary")
}

fn assert_caught(policy: &Descriptor, words: &str) {
    for batch in [1, 2] {
        let failure = exhaust(policy, LENGTH, batch, Kicks::Immediate).expect_err("it cheats");
        assert!(failure.what.contains(words), "{}: {failure}", policy.name);
    }
}

#[test]
fn picking_a_blocked_entity_is_caught() {
    assert_caught(canary("canary-picks-blocked"), "laws 2 and 3");
}

#[test]
fn picking_an_entity_that_is_held_or_may_not_run_there_is_caught() {
    assert_caught(canary("canary-picks-held"), "law 2");
    assert_caught(canary("canary-strays"), "law 2");
}

#[test]
fn asking_about_an_entity_that_left_is_caught() {
    assert_caught(canary("canary-remembers"), "law 8");
}

#[test]
fn a_slice_that_ends_as_it_begins_is_caught() {
    assert_caught(canary("canary-past"), "law 1");
}

#[test]
fn losing_a_woken_entity_is_caught() {
    assert_caught(canary("canary-forgets"), "never runs");
}

#[test]
fn starving_one_is_caught() {
    assert_caught(canary("canary-starves"), "never runs");
}

#[test]
fn an_entity_that_may_starve_may_not_be_lost() {
    let modest = |name| Descriptor { starvation: |_| None, ..*canary(name) };
    let tally =
        exhaust(&modest("canary-starves"), 3, 1, Kicks::Immediate).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.starved > 0, "{tally:?}");
    assert_caught(&modest("canary-forgets"), "is lost");
}
