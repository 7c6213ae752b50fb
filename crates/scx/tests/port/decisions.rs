//! The decisions of the port against those of the Rust policies `edf` and `gang-edf`, on the same random trace: which promised
//! thread runs on which CPU from when to when, and the state of each promise. Both machines receive the same wake-ups, sleeps,
//! yields and changes at the same instants, some of them late, and each its own alarms and ends of slices.
//!
//! The port runs other threads by weight, the Rust policy round robin, so these are compared only in whether they run: exactly
//! while no promised thread with a slice is runnable on the CPU.

use crate::program::{Program, SCX_EDF, only_seed, seeds};
use crate::side::{Side, message, next_instant, without_panic};
use fuzz::Dice;
use port::Port;
use sched::{
    CpuId, CpuSet, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Params, Reservation, State, Topology, Wake,
    Weight,
};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of seeds, and of steps of each.
const SEEDS: u64 = 16;
const STEPS: u32 = 400;

/// Both machines on one trace.
struct Pair {
    rust: Side,
    port: Side,
    threads: Vec<EntityId>,
    now: Instant,
    log: String,
    /// Number of decisions for promised threads that were compared.
    runs: u64,
    ran: Vec<Option<EntityId>>,
    /// Whether decisions are compared, and timers may be late.
    is_checked: bool,
}

impl Pair {
    fn new(program: &Program, port: &'static Port, dice: &mut Dice) -> Pair {
        let has_gangs = port.promises.is_some_and(|promises| promises.has_gangs);
        let host = Topology::new(if has_gangs { dice.choose(&[2, 2, 4]) } else { dice.choose(&[1, 1, 2, 4]) }.unwrap());
        let policy = policies::find(port.name).unwrap();
        let rust = (policy.build)(&host, &port.policy_knobs().unwrap()).unwrap();
        let (rust, port) = (
            Side::new(rust, policy.alarms, host),
            Side::new(Box::new(program.policy(port, &host)), SCX_EDF.alarms, host),
        );
        let ran = vec![None; host.cpus];
        let mut pair = Pair {
            rust,
            port,
            threads: Vec::new(),
            now: Instant::ZERO,
            log: String::new(),
            runs: 0,
            ran,
            is_checked: true,
        };
        // With one period for all, deadlines are often equal.
        let common = dice.one_in(3).then(|| Nanos::ns(200_000 + dice.below(50_000_000)));
        let reserving = |dice: &mut Dice| {
            let period = common.unwrap_or(Nanos::ns(200_000 + dice.below(50_000_000)));
            let slice = Nanos::ns(1 + dice.below(period.as_ns() / 2));
            let limit = if dice.one_in(3) { sched::Limit::Hard } else { sched::Limit::Soft };
            Params { reservation: Some(Reservation { limit, ..Reservation::new(slice, period) }), ..Params::default() }
        };
        for _ in 0..if has_gangs { 1 + dice.below(3) } else { 0 } {
            let params = Params { group: pair.gang(), ..reserving(dice) };
            for _ in 0..1 + dice.below(host.cpus as u64 + 1) {
                pair.attach(params);
                pair.now =
                    pair.now.saturating_add(if dice.one_in(2) { Nanos::us(dice.below(30_000)) } else { Nanos::ZERO });
            }
        }
        for _ in 0..1 + dice.below(if has_gangs { 3 } else { 6 }) {
            pair.attach(reserving(dice));
        }
        for _ in 0..dice.below(5) {
            let affinity: CpuSet = host.iter().filter(|_| dice.one_in(2)).collect();
            let affinity = if affinity.is_empty() { CpuSet::ALL } else { affinity };
            pair.attach(Params { affinity, ..Params::default() });
        }
        pair
    }

    /// Creates a gang in both machines.
    fn gang(&mut self) -> GroupId {
        let params = GroupParams { gang: true, ..GroupParams::default() };
        let [rust, port] = [&mut self.rust, &mut self.port]
            .map(|side| side.machine.create_group(self.now, params, GroupId::ROOT).expect("it fits"));
        assert_eq!(rust, port, "both machines have the same groups");
        rust
    }

    fn attach(&mut self, params: Params) {
        let (rust, port) = (self.rust.machine.attach(self.now, params), self.port.machine.attach(self.now, params));
        let _ = writeln!(self.log, "{} attach {rust:?} {:?}", self.now, params.reservation);
        match (rust, port) {
            (Ok(rust), Ok(port)) => {
                assert_eq!(rust, port, "both machines have the same entities");
                self.threads.push(rust);
            }
            (Err(_), Err(_)) => {}
            (rust, port) => panic!("one of the policies refuses {params:?}: {rust:?}, {port:?}"),
        }
    }

    fn input(&mut self, entity: EntityId, to_rust: Input, to_port: Input) {
        let _ = writeln!(self.log, "{} {entity} {to_port:?}", self.now);
        self.rust.machine.input(self.now, to_rust);
        self.port.machine.input(self.now, to_port);
    }

    /// Reports a random event of a random thread.
    fn event(&mut self, dice: &mut Dice) {
        let Some(entity) = dice.choose(&self.threads) else { return };
        let states = [self.rust.machine.state(entity), self.port.machine.state(entity)];
        let is_ahead = self.rust.is_ahead(entity) && self.port.is_ahead(entity);
        match (states, dice.below(8)) {
            ([State::Blocked, State::Blocked], _) => {
                let wake = Input::Wake { entity, why: Wake::Interrupt };
                self.input(entity, wake, wake);
            }
            (_, 0..=2) => self.input(entity, Input::Pause { entity }, Input::Pause { entity }),
            ([State::Running(a), State::Running(b)], 3) if is_ahead => {
                let _ = writeln!(self.log, "{} {entity} yields", self.now);
                self.rust.yields(a, self.now);
                self.port.yields(b, self.now);
            }
            ([State::Running(a), State::Running(b)], 4) if is_ahead => {
                let to = dice.choose(&self.threads).expect("there is one");
                if to != entity {
                    self.input(entity, Input::YieldTo { cpu: a, to }, Input::YieldTo { cpu: b, to });
                }
            }
            (_, 5) => {
                let weight = dice.choose(&[335, 1024, 3121]).and_then(Weight::linux).unwrap();
                let params = Params { weight, ..*self.rust.machine.params(entity) };
                let _ = writeln!(self.log, "{} {entity} weight {weight}", self.now);
                let changed =
                    [&mut self.rust, &mut self.port].map(|side| side.machine.adjust(self.now, entity, params));
                assert_eq!(changed, [Ok(()), Ok(())], "a weight is no matter of a promise");
            }
            _ => {}
        }
    }

    fn both(&mut self, call: impl Fn(&mut Side, Instant)) {
        call(&mut self.rust, self.now);
        call(&mut self.port, self.now);
    }

    fn check(&mut self) -> Result<(), String> {
        if !self.is_checked {
            return Ok(());
        }
        for cpu in self.rust.machine.topology().iter() {
            let (rust, port) = (self.rust.ahead_on(cpu), self.port.ahead_on(cpu));
            if rust != port {
                return Err(format!(
                    "at {}, {cpu:?} runs {port:?} with a slice, and {rust:?} by the Rust policy",
                    self.now
                ));
            }
            if std::mem::replace(&mut self.ran[cpu.index()], rust) != rust {
                self.runs += 1;
            }
            self.check_others(cpu, port)?;
        }
        for &e in &self.threads {
            if self.rust.machine.is_held(e) != self.port.machine.is_held(e) {
                let by = if self.rust.machine.is_held(e) { "the Rust policy" } else { "the port" };
                return Err(format!("at {}, {e} is held by {by} only", self.now));
            }
            let (Some(rust), Some(port)) = (self.rust.machine.promise(e), self.port.machine.promise(e)) else {
                continue;
            };
            // The time of a thread that runs is charged later.
            let runs = matches!(self.rust.machine.state(e), State::Running(_)) && self.rust.is_ahead(e);
            let is_known = port.deadline != Instant::NEVER;
            if is_known && (rust.deadline != port.deadline || (!runs && rust.remaining != port.remaining)) {
                return Err(format!("at {}, {e} has {port:?}, and {rust:?} by the Rust policy", self.now));
            }
        }
        Ok(())
    }

    /// Checks that other threads run on a CPU exactly while no promised thread with a slice is runnable there.
    fn check_others(&self, cpu: CpuId, ahead: Option<EntityId>) -> Result<(), String> {
        let machine = &self.port.machine;
        let waits = |e: &&EntityId| machine.state(**e) == State::Waiting && !machine.is_held(**e);
        let mut waiting = self.threads.iter().filter(waits);
        let is_free = |e: EntityId| !self.port.is_ahead(e) && machine.params(e).affinity.contains(cpu);
        let idles = machine.running(cpu).is_none();
        let late = |e: EntityId| {
            let assigned = self.rust.machine.allowed(e).first();
            self.port.is_ahead(e) && assigned == Some(cpu) && ahead.is_none()
        };
        match waiting.find(|e| (idles && is_free(**e)) || late(**e)) {
            Some(e) => Err(format!("at {}, {e} waits, and {cpu:?} runs {:?}", self.now, machine.running(cpu))),
            None => Ok(()),
        }
    }

    /// Returns the states of all threads, for the message of a failure.
    fn states(&self) -> String {
        let side = |side: &Side, e: EntityId| {
            let promise = side.machine.promise(e).map(|promise| (promise.deadline, promise.remaining));
            format!("{:?} ahead {} {promise:?}", side.machine.state(e), side.is_ahead(e))
        };
        let line = |&e: &EntityId| format!("{e}: Rust {}; port {}\n", side(&self.rust, e), side(&self.port, e));
        self.threads.iter().map(line).collect()
    }

    fn run(&mut self, dice: &mut Dice, steps: u32) -> Result<u64, String> {
        let is_late = dice.one_in(2) && self.is_checked;
        for _ in 0..steps {
            self.now = next_instant([&self.rust, &self.port], self.now, is_late, dice);
            let _ = writeln!(self.log, "{} deliver", self.now);
            self.both(Side::deliver);
            self.check()?;
            for _ in 0..dice.below(3) {
                self.event(dice);
            }
            self.both(Side::settle);
            self.check()?;
        }
        Ok(self.runs)
    }
}

/// Drives both policies by the trace of a seed, without a comparison, until the port breaks a rule. Returns the number of CPUs.
pub(crate) fn drive(program: &Program, port: &'static Port, seed: u64, steps: u32) -> usize {
    let mut dice = Dice::new(seed);
    let mut pair = Pair::new(program, port, &mut dice);
    pair.is_checked = false;
    // What a broken port has recorded until then is enough.
    let _ = catch_unwind(AssertUnwindSafe(|| pair.run(&mut dice, steps)));
    pair.rust.machine.topology().cpus
}

/// Compares the policies on the trace of a seed. Returns the number of compared decisions for promised threads, or the first
/// difference.
pub(crate) fn compare(program: &Program, port: &'static Port, seed: u64, steps: u32) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let mut pair = Pair::new(program, port, &mut dice);
    without_panic(|| pair.run(&mut dice, steps)).map_err(|what| {
        let states = catch_unwind(AssertUnwindSafe(|| pair.states())).unwrap_or_default();
        message(port.name, seed, &format!("{what}\n{states}"), &pair.log)
    })
}

fn compare_all(port: &'static Port) {
    let Some(program) = Program::edf(None) else { return };
    let only = only_seed();
    let mut runs = 0;
    for seed in only.map_or(0..seeds(SEEDS), |seed| seed..seed + 1) {
        runs += compare(&program, port, seed, STEPS).unwrap_or_else(|difference| panic!("{difference}"));
    }
    println!("{}: {runs} decisions for promised threads are equal", port.name);
    assert!(only.is_some() || runs > 1_500, "{runs} decisions say little");
}

#[test]
fn the_decisions_of_edf_are_those_of_the_rust_policy() {
    compare_all(&port::EDF);
}

#[test]
fn the_decisions_of_gang_edf_are_those_of_the_rust_policy() {
    compare_all(&port::GANG_EDF);
}
