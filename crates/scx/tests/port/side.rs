//! A machine that a test drives: it has the clock, and delivers the ends of slices and the alarms.

use crate::program::SEED;
use fuzz::Dice;
use sched::{Action, Alarm, CpuId, EntityId, Input, Instant, Kicks, Machine, Nanos, Policy, Topology};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A machine with its pending alarms.
pub(crate) struct Side {
    pub(crate) machine: Machine,
    alarms: BTreeMap<Alarm, Instant>,
    /// The end of the last period whose slice a thread gave up by a yield.
    given_up: BTreeMap<EntityId, Instant>,
}

impl Side {
    pub(crate) fn new(policy: Box<dyn Policy>, alarms: sched::AlarmSlots, host: Topology) -> Side {
        Side {
            machine: Machine::new(policy, alarms, host, Kicks::Immediate),
            alarms: BTreeMap::new(),
            given_up: BTreeMap::new(),
        }
    }

    pub(crate) fn settle(&mut self, now: Instant) {
        for action in self.machine.settle(now) {
            match *action {
                Action::SetAlarm { alarm, at, .. } => drop(self.alarms.insert(alarm, at)),
                Action::ClearAlarm { alarm } => drop(self.alarms.remove(&alarm)),
                _ => {}
            }
        }
    }

    /// Reports the ends of slices and the alarms that are due.
    pub(crate) fn deliver(&mut self, now: Instant) {
        for cpu in self.machine.topology().iter() {
            if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= now {
                self.machine.input(now, Input::Expire { cpu });
            }
        }
        let due: Vec<Alarm> = self.alarms.iter().filter(|(_, at)| **at <= now).map(|(alarm, _)| *alarm).collect();
        for alarm in due {
            self.alarms.remove(&alarm);
            self.machine.input(now, Input::Alarm { alarm });
        }
        self.settle(now);
    }

    /// Returns the next instant at which something is due.
    pub(crate) fn next(&self) -> Instant {
        let ends = self.machine.topology().iter().map(|cpu| self.machine.until(cpu));
        ends.chain(self.alarms.values().copied()).min().unwrap_or(Instant::NEVER)
    }

    /// Returns whether `e` has a slice left in its period, as of the last charge.
    pub(crate) fn is_ahead(&self, e: EntityId) -> bool {
        let promise = self.machine.promise(e).filter(|promise| promise.remaining > 0);
        promise.is_some_and(|promise| self.given_up.get(&e) != Some(&promise.deadline))
    }

    /// Lets the thread of `cpu` give up its slice.
    pub(crate) fn yields(&mut self, cpu: CpuId, now: Instant) {
        let e = self.machine.running(cpu).expect("it yields");
        let promise = self.machine.promise(e).expect("it has a slice");
        self.given_up.insert(e, promise.deadline);
        self.machine.input(now, Input::Yield { cpu });
    }

    /// Returns the promised thread with a slice that runs on `cpu`.
    pub(crate) fn ahead_on(&self, cpu: CpuId) -> Option<EntityId> {
        self.machine.running(cpu).filter(|&e| self.is_ahead(e))
    }
}

/// Returns the next instant of a random trace: when something is due on one of the sides, or earlier, and sometimes late.
pub(crate) fn next_instant(sides: [&Side; 2], now: Instant, is_late: bool, dice: &mut Dice) -> Instant {
    let pause = now + Nanos::ns(1 + dice.below(4_000_000));
    let late = if is_late && dice.one_in(4) { Nanos::ns(dice.below(20_000_000)) } else { Nanos::ZERO };
    let [one, other] = sides;
    let next = one.next().min(other.next()).max(now);
    next.min(pause).saturating_add(late)
}

/// Returns what `run` returns; a panic is a failure with its text.
pub(crate) fn without_panic(run: impl FnOnce() -> Result<u64, String>) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("a panic").to_string())
    })
}

/// Returns the message of a failure: the line that repeats it, and the last events of the trace.
pub(crate) fn message(port: &str, seed: u64, what: &str, log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(25)..].join("\n");
    let test = port.replace('-', "_");
    format!("replay: {SEED}={seed} cargo test -p scx --test port decisions_of_{test}\n{what}\n{last}")
}
