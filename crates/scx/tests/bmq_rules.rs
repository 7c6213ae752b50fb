//! The rules of the port of `bmq` against the Rust policy: both follow the same random wake-ups, blocks, yields, ends of slices,
//! forks and changes of attributes, in all versions, and after each, their boosts, levels and slices are equal, and the
//! policy runs the thread with the first place of the port.
//!
//! The rules are compiled as an ordinary program (`bmq_rules.c`), which needs a C compiler. Without one, the test prints
//! `SKIPPED`.

mod rules;

use fuzz::Dice;
use policies::bmq::{BOOST_MAX, Tables};
use rules::Port;
use sched::{
    Class, CpuId, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos, Params, State, Topology, Wake, Weight,
};
use scx::bmq::Settings;
use std::collections::BTreeMap;
use std::path::Path;
use zerocopy::IntoBytes;

/// Number of seeds, and of steps of each.
const SEEDS: u64 = 64;
const STEPS: u32 = 500;
const THREADS: usize = 6;
const CPU: CpuId = CpuId::new(0);
const CLASSES: [Class; 3] = [Class::Normal, Class::Batch, Class::Idle];

/// A thread on both sides.
#[derive(Clone, Copy)]
struct Thread {
    entity: EntityId,
    charged: Nanos,
    /// When the thread was charged or dispatched last.
    last_ran: Instant,
    /// The level and the number of arrival of a runnable thread.
    place: Option<(i64, u64)>,
}

/// A machine with a CPU and threads, and the rules in C beside it.
struct Pair {
    machine: Machine,
    threads: Vec<Thread>,
    now: Instant,
    /// When the CPU switched to the running thread.
    switched: Instant,
    arrivals: u64,
    skips: bool,
    port: Port,
}

/// What the program in C prints of a thread.
struct Shown {
    boost: i64,
    level: i64,
    left: i64,
    result: bool,
}

/// What happens to a thread that stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Blocked,
    Yielded,
    /// The slice is over, or the CPU decides again.
    Checked,
}

impl Pair {
    fn new(program: &Path, settings: &Path, knobs: &Knobs, now: Instant, dice: &mut Dice) -> Pair {
        let bmq = policies::find("bmq").unwrap();
        let mut machine = Machine::build(bmq, Topology::new(1), knobs, Kicks::Immediate).unwrap();
        let skips = knobs.word("yield") == "skip";
        let mut port = Port::start(program, &[settings]);
        let mut threads = Vec::new();
        for at in 0..THREADS {
            let (params, set) = random_params(dice);
            let entity = machine.attach(now, params).expect("every thread fits");
            let _: [String; 4] = port.apply(&format!("set {at} {set}"));
            let _: [String; 4] = port.apply(&format!("open {at} {} 0", now.as_ns()));
            threads.push(Thread { entity, charged: Nanos::ZERO, last_ran: now, place: None });
        }
        Pair { machine, threads, now, switched: now, arrivals: 0, skips, port }
    }

    fn apply(&mut self, operation: &str) -> Shown {
        let [boost, level, left, result] = self.port.apply(operation);
        let number = |text: String| text.parse().expect("it is a number");
        Shown { boost: number(boost), level: number(level), left: number(left), result: result == "1" }
    }

    fn running(&self) -> Option<usize> {
        let entity = self.machine.running(CPU)?;
        self.threads.iter().position(|thread| thread.entity == entity)
    }

    /// Sends a thread to the tail of its level.
    fn take_place(&mut self, at: usize) {
        let level = self.apply(&format!("show {at} 0 0")).level;
        self.arrivals += 1;
        self.threads[at].place = Some((level, self.arrivals));
    }

    /// Passes what the machine has charged on to the port.
    fn charge(&mut self) {
        for at in 0..self.threads.len() {
            let charged = self.machine.charged(self.threads[at].entity);
            let ran = charged.saturating_sub(self.threads[at].charged);
            self.threads[at].charged = charged;
            if !ran.is_zero() {
                self.apply(&format!("charge {at} {} {}", ran.as_ns(), self.now.as_ns()));
                self.threads[at].last_ran = self.now;
            }
        }
    }

    /// Lets the machine decide, and applies to the port that `before`, which ran, stopped for the reason `stop`; `None`: it
    /// stopped only if another thread runs now.
    fn settle(&mut self, before: Option<usize>, stop: Option<Stop>) {
        self.machine.settle(self.now);
        self.charge();
        let after = self.running();
        if let Some(at) = before {
            let stop = stop.or((after != before).then_some(Stop::Checked));
            self.stop(at, stop);
        }
        if after != before || stop == Some(Stop::Blocked) {
            self.switched = self.now;
            if let Some(at) = after {
                self.apply(&format!("dispatch {at} {} 0", self.now.as_ns()));
                self.threads[at].last_ran = self.now;
            }
        }
    }

    fn stop(&mut self, at: usize, stop: Option<Stop>) {
        match stop {
            Some(Stop::Blocked) => {
                let run = self.now.since(self.switched);
                self.apply(&format!("block {at} {} 0", run.as_ns()));
                self.threads[at].place = None;
            }
            Some(Stop::Yielded) => {
                if self.apply(&format!("yield {at} 0 0")).result {
                    self.take_place(at);
                }
                self.stop(at, Some(Stop::Checked));
            }
            Some(Stop::Checked) if self.apply(&format!("check {at} 0 0")).result => self.take_place(at),
            Some(Stop::Checked) | None => {}
        }
    }

    /// Reports a random event to both sides.
    fn event(&mut self, dice: &mut Dice, ignores_yields: bool) {
        let before = self.running();
        let at = usize::try_from(dice.below(THREADS as u64)).unwrap();
        let entity = self.threads[at].entity;
        match self.machine.state(entity) {
            State::Blocked => self.wake(at, before, dice),
            State::Waiting if dice.one_in(4) => {
                self.machine.input(self.now, Input::Pause { entity });
                self.threads[at].place = None;
                self.settle(before, None);
            }
            State::Running(cpu) if dice.one_in(2) => {
                self.machine.input(self.now, Input::Block { cpu });
                self.settle(before, Some(Stop::Blocked));
            }
            State::Running(cpu) if dice.one_in(3) => {
                self.machine.input(self.now, Input::Yield { cpu });
                self.settle(before, (!ignores_yields).then_some(Stop::Yielded));
            }
            State::Waiting | State::Running(_) if dice.one_in(3) => self.adjust(at, before, dice),
            State::Waiting | State::Running(_) => {}
        }
    }

    /// Reports an event at the limit of a rule or 1 ns beside it: a short run, a slice that is almost used up, or a long sleep.
    fn event_at_limit(&mut self, tables: &Tables, ignores_yields: bool, dice: &mut Dice) {
        let (before, end) = (self.running(), self.machine.until(CPU));
        let beside = Nanos::ns(dice.below(2));
        let (stop, at) = match before {
            Some(at) if dice.one_in(2) => {
                let boost = self.apply(&format!("show {at} 0 0")).boost + i64::from(BOOST_MAX);
                let run = tables.short_runs[usize::try_from(boost).unwrap()];
                (Stop::Blocked, self.switched.saturating_add(run.min(tables.slice)))
            }
            Some(at) if dice.one_in(2) => {
                let left = self.apply(&format!("show {at} 0 0")).left.unsigned_abs();
                let rest = left.saturating_sub(tables.rest_least.as_ns());
                (Stop::Yielded, self.threads[at].last_ran.saturating_add(Nanos::ns(rest)))
            }
            _ => {
                let at = usize::try_from(dice.below(THREADS as u64)).unwrap();
                let limit = self.threads[at].last_ran.saturating_add(tables.slice).saturating_add(beside);
                let is_blocked = self.machine.state(self.threads[at].entity) == State::Blocked;
                if is_blocked && limit >= self.now && (before.is_none() || limit < end) {
                    self.now = limit;
                    self.wake(at, before, dice);
                }
                return;
            }
        };
        let at = at.saturating_add(beside);
        if !(self.now..end).contains(&at) {
            return;
        }
        self.now = at;
        if stop == Stop::Blocked {
            self.machine.input(at, Input::Block { cpu: CPU });
            self.settle(before, Some(stop));
        } else {
            self.machine.input(at, Input::Yield { cpu: CPU });
            self.settle(before, (!ignores_yields).then_some(stop));
        }
    }

    fn wake(&mut self, at: usize, before: Option<usize>, dice: &mut Dice) {
        let entity = self.threads[at].entity;
        let mut stop = None;
        if let Some(parent) = before.filter(|_| dice.one_in(4)) {
            let why = Wake::New { parent: Some(self.threads[parent].entity) };
            self.machine.input(self.now, Input::Wake { entity, why });
            self.charge();
            // Too little is left of the parent's slice, which ends.
            if self.apply(&format!("fork {at} {parent} 0")).result {
                stop = Some(Stop::Checked);
            }
        } else {
            self.machine.input(self.now, Input::Wake { entity, why: Wake::Interrupt });
            self.apply(&format!("wake {at} {} 0", self.now.as_ns()));
        }
        self.take_place(at);
        self.settle(before, stop);
    }

    fn adjust(&mut self, at: usize, before: Option<usize>, dice: &mut Dice) {
        let (params, set) = random_params(dice);
        self.machine.adjust(self.now, self.threads[at].entity, params).expect("every change is accepted");
        let level = self.apply(&format!("set {at} {set}")).level;
        if self.threads[at].place.is_some_and(|(of_place, _)| of_place != level) {
            self.take_place(at);
        }
        self.settle(before, None);
    }

    fn check(&mut self, seed: u64) {
        for at in 0..self.threads.len() {
            let Thread { entity, place, .. } = self.threads[at];
            let of_port = self.apply(&format!("show {at} 0 0"));
            let mut of_port = BTreeMap::from([("boost", of_port.boost), ("slice", of_port.left)]);
            // The policy shows the levels from that of priority 99 on, and only of runnable threads.
            of_port.extend(place.map(|(level, _)| ("level", level - 1)));
            let mut of_policy = BTreeMap::new();
            self.machine.inspect_all(entity, &mut |name, value| of_policy.extend([(name, value)]));
            of_policy.retain(|name, _| !["cpu", "nice"].contains(name));
            assert_eq!(of_port, of_policy, "seed {seed}, thread {at}, at {}:\n{}", self.now, self.port.log);
        }
        let placed = self.threads.iter().enumerate().filter_map(|(at, thread)| Some((thread.place?, at)));
        let first = placed.min().map(|(_, at)| at);
        let log = &self.port.log;
        // A thread that lets the next one run once is passed over.
        assert!(
            self.skips || first == self.running(),
            "seed {seed}: the policy runs another thread than the first\n{log}"
        );
        assert_eq!(first.is_some(), self.running().is_some(), "seed {seed}: the CPU idles\n{log}");
    }
}

/// Returns random attributes, and the arguments of `set` in C.
fn random_params(dice: &mut Dice) -> (Params, String) {
    let nice = if dice.one_in(2) { 0 } else { i32::try_from(dice.below(40)).unwrap() - 20 };
    let kind = usize::try_from(dice.below(9).saturating_sub(6)).unwrap();
    let params = Params { weight: Weight::nice(nice).unwrap(), class: CLASSES[kind], ..Params::default() };
    (params, format!("{} {kind}", nice + 20))
}

/// Returns random values of the knobs that the port has.
fn random_knobs(dice: &mut Dice) -> Knobs {
    let bmq = policies::find("bmq").unwrap();
    let mut knobs = bmq.defaults();
    for (name, words) in [
        ("version", &["5.13", "5.12", "6.6", "6.12"][..]),
        ("slice", &["4ms", "2ms"]),
        ("yield", &["give-up", "ignored", "skip"]),
    ] {
        knobs.set_word(name, dice.choose(words).unwrap()).unwrap();
    }
    knobs.set("min-boost", -i64::try_from(dice.below(13)).unwrap()).unwrap();
    knobs.set("sleep-is-bool", i64::from(dice.one_in(2))).unwrap();
    // The end of a slice comes from outside.
    knobs.set("tick", 0).unwrap();
    knobs
}

/// Returns a random time: of the order of a short run, a slice, or some slices.
fn random_time(dice: &mut Dice) -> Nanos {
    let most = dice.choose(&[20_000, 2_000_000, 12_000_000, 100_000_000]).unwrap();
    Nanos::ns(1 + dice.below(most))
}

#[test]
fn the_rules_of_the_port_of_bmq_are_those_of_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rules::compiled(folder.path(), "bmq_rules") else {
        eprintln!("SKIPPED: there is no C compiler (cc)");
        return;
    };
    let file = folder.path().join("settings");
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let knobs = random_knobs(&mut dice);
        std::fs::write(&file, Settings::new(&knobs).as_bytes()).unwrap();
        let begin = Instant::at_ns(1_000_000_000 + dice.below(1_000_000_000));
        let mut pair = Pair::new(&program, &file, &knobs, begin, &mut dice);
        let (tables, ignores_yields) = (Tables::new(&knobs), knobs.word("yield") == "ignored");
        for _ in 0..STEPS {
            if dice.one_in(4) {
                pair.event_at_limit(&tables, ignores_yields, &mut dice);
                pair.check(seed);
                continue;
            }
            let next = pair.now.saturating_add(random_time(&mut dice));
            let end = pair.machine.until(CPU);
            pair.now = if pair.running().is_some() { next.min(end.max(pair.now)) } else { next };
            if pair.running().is_some() && end <= pair.now {
                let before = pair.running();
                pair.machine.input(pair.now, Input::Expire { cpu: CPU });
                pair.settle(before, Some(Stop::Checked));
            } else {
                pair.event(&mut dice, ignores_yields);
            }
            pair.check(seed);
        }
    }
}
