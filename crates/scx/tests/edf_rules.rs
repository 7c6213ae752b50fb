//! The rules of the port of `edf` against the Rust policy: both follow the same random wake-ups, blocks, yields, ends of slices,
//! ends of periods, some of them late, and changes of the reservation, and their accounts are equal after each.
//!
//! The rules are compiled as an ordinary program (`edf_rules.c`), which needs a C compiler. Without one, the test prints
//! `SKIPPED`.

mod rules;

use fuzz::Dice;
use rules::Port;
use sched::{
    Action, Alarm, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos, Params, Reservation, State, Topology, Wake,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of seeds, and of steps of each.
const SEEDS: u64 = 40;
const STEPS: u32 = 500;

/// Applies an operation. Returns the deadline, the remaining slice, and whether the thread is ahead of others.
fn apply(port: &mut Port, operation: &str) -> (u64, i64, bool) {
    let [deadline, balance, ahead] = port.apply(operation);
    (deadline.parse().unwrap(), balance.parse().unwrap(), ahead == "1")
}

/// A machine with a thread that has a reservation and a hog, and the rules in C beside it.
struct Pair {
    machine: Machine,
    thread: EntityId,
    alarms: BTreeMap<Alarm, Instant>,
    now: Instant,
    charged: Nanos,
    port: Port,
}

impl Pair {
    fn new(program: &Path, reservation: Reservation, now: Instant) -> Pair {
        let edf = policies::find("edf").unwrap();
        let mut machine = Machine::build(edf, Topology::new(1), &knobs(), Kicks::Immediate).unwrap();
        let params = Params { reservation: Some(reservation), ..Params::default() };
        let thread = machine.attach(now, params).expect("it fits");
        let hog = machine.attach(now, Params::default()).expect("it has no reservation");
        machine.input(now, Input::Wake { entity: hog, why: Wake::Interrupt });
        let mut port = Port::start(program, &[]);
        let (slice, period) = (reservation.slice.as_ns(), reservation.period.as_ns());
        apply(&mut port, &format!("open {slice} {period} {}", now.as_ns()));
        let mut pair = Pair { machine, thread, alarms: BTreeMap::new(), now, charged: Nanos::ZERO, port };
        pair.settle();
        pair
    }

    fn cpu(&self) -> Option<sched::CpuId> {
        match self.machine.state(self.thread) {
            State::Running(cpu) => Some(cpu),
            State::Blocked | State::Waiting => None,
        }
    }

    /// Passes what the machine has charged on to the port.
    fn charge(&mut self) {
        let charged = self.machine.charged(self.thread);
        let ran = charged.saturating_sub(self.charged);
        self.charged = charged;
        if !ran.is_zero() {
            apply(&mut self.port, &format!("charge {} 0", ran.as_ns()));
        }
    }

    /// Reports an input to the machine, and its meaning to the port.
    fn input(&mut self, input: Input, operation: &str) {
        self.machine.input(self.now, input);
        self.charge();
        apply(&mut self.port, operation);
    }

    /// Lets the machine decide. A thread that stops without an input is judged by the port as well.
    fn settle(&mut self) {
        self.machine.settle(self.now);
        self.charge();
        for action in self.machine.actions() {
            match *action {
                Action::SetAlarm { alarm, at, .. } => drop(self.alarms.insert(alarm, at)),
                Action::ClearAlarm { alarm } => drop(self.alarms.remove(&alarm)),
                _ => {}
            }
        }
        if self.cpu().is_none() {
            apply(&mut self.port, "stop 0 0");
        }
    }

    /// Reports what is due: the end of the time slice, and the end of the period.
    fn due(&mut self) {
        let cpu = sched::CpuId::new(0);
        if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= self.now {
            let is_thread = self.cpu().is_some();
            self.machine.input(self.now, Input::Expire { cpu });
            self.charge();
            if is_thread {
                apply(&mut self.port, "stop 0 0");
            }
        }
        let due: Vec<Alarm> = self.alarms.iter().filter(|(_, at)| **at <= self.now).map(|(alarm, _)| *alarm).collect();
        for alarm in due {
            self.alarms.remove(&alarm);
            self.input(Input::Alarm { alarm }, &format!("renew {} 0", self.now.as_ns()));
        }
    }

    /// Reports a random event of the thread.
    fn event(&mut self, dice: &mut Dice) {
        let (now, entity) = (self.now.as_ns(), self.thread);
        match self.machine.state(self.thread) {
            State::Blocked => {
                self.input(Input::Wake { entity, why: Wake::Interrupt }, &format!("wake {now} 0"));
            }
            State::Waiting if dice.one_in(4) => self.input(Input::Pause { entity }, &format!("block {now} 0")),
            State::Running(cpu) if dice.one_in(2) => self.input(Input::Block { cpu }, &format!("block {now} 0")),
            State::Running(cpu) if dice.one_in(3) => self.input(Input::Yield { cpu }, "stop 1 0"),
            State::Waiting | State::Running(_) => {}
        }
    }

    /// Changes the reservation.
    fn change(&mut self, dice: &mut Dice) {
        let period = Nanos::us(100 + dice.below(100_000));
        let slice = Nanos::ns(1 + dice.below(period.as_ns() * 9 / 10));
        let params = Params { reservation: Some(Reservation::new(slice, period)), ..*self.machine.params(self.thread) };
        self.machine.adjust(self.now, self.thread, params).expect("it fits");
        self.charge();
        apply(&mut self.port, &format!("change {} {} {}", slice.as_ns(), period.as_ns(), self.now.as_ns()));
    }

    /// Returns the next instant at which something is due.
    fn next(&self) -> Instant {
        let end = self.machine.until(sched::CpuId::new(0));
        self.alarms.values().copied().fold(end, Instant::min)
    }

    fn check(&mut self, seed: u64) {
        let promise = self.machine.promise(self.thread).expect("it has a reservation");
        // An operation without an effect.
        let (deadline, balance, ahead) = apply(&mut self.port, "charge 0 0");
        let of_port = (deadline, balance);
        let log = &self.port.log;
        assert_eq!(of_port, (promise.deadline.as_ns(), promise.remaining), "seed {seed}, at {}:\n{log}", self.now);
        // The hog runs if the thread is not ahead.
        let waits = self.machine.state(self.thread) == State::Waiting;
        assert!(!(waits && ahead), "seed {seed}, at {}: the policy runs the hog\n{log}", self.now);
    }
}

fn knobs() -> Knobs {
    let edf = policies::find("edf").unwrap();
    let settings: Vec<input::knobs::KnobSetting> =
        ["placement=partitioned", "rest=renew", "change=due"].iter().map(|text| text.parse().unwrap()).collect();
    input::knobs::apply_knobs(edf, &settings).unwrap()
}

#[test]
fn the_rules_of_the_port_are_those_of_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rules::compiled(folder.path(), "edf_rules") else {
        eprintln!("SKIPPED: there is no C compiler (cc)");
        return;
    };
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let period = Nanos::us(100 + dice.below(100_000));
        let slice = Nanos::ns(1 + dice.below(period.as_ns() * 9 / 10));
        let begin = Instant::at_ns(1_000_000_000 + dice.below(1_000_000_000));
        let mut pair = Pair::new(&program, Reservation::new(slice, period), begin);
        for _ in 0..STEPS {
            let pause = pair.now.saturating_add(Nanos::ns(1 + dice.below(period.as_ns())));
            let late = if dice.one_in(3) { Nanos::ns(dice.below(period.as_ns() * 3)) } else { Nanos::ZERO };
            pair.now = pair.next().max(pair.now).saturating_add(late).min(pause.saturating_add(late));
            pair.due();
            if dice.one_in(2) {
                pair.event(&mut dice);
            }
            if dice.one_in(10) {
                pair.change(&mut dice);
            }
            pair.settle();
            pair.check(seed);
        }
    }
}
