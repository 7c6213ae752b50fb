//! A machine that a test drives: it has the clock, and delivers the ends of slices and the alarms.

use sched::{Action, Alarm, CpuId, EntityId, Input, Instant, Kicks, Machine, Policy, Topology};
use std::collections::BTreeMap;

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
