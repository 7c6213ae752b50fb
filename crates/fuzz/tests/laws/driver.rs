//! An exact driver of a machine in virtual time: a table of alarms and the kicks in flight.

use sched::{Action, Alarm, CpuId, EntityId, Input, Instant, Machine};
use std::fmt::Debug;

/// The wrapper around a named call of the machine. The wrapper makes the call, and may observe it.
pub(crate) type Around = fn(&dyn Debug, &mut dyn FnMut());

/// A machine, the current instant, and the machine's pending alarms and kicks.
pub(crate) struct Driver {
    pub(crate) machine: Machine,
    pub(crate) now: Instant,
    /// Pending alarms, by alarm number.
    alarms: Vec<Option<(Instant, Alarm)>>,
    /// Running entity of each CPU, from the actions of the machine.
    seats: Vec<Option<EntityId>>,
    /// Kicks in flight, the oldest first.
    pub(crate) kicks: Vec<CpuId>,
    around: Around,
}

impl Driver {
    pub(crate) fn new(machine: Machine, around: Around) -> Driver {
        let seats = vec![None; machine.topology().cpus];
        Driver { now: machine.now(), machine, alarms: Vec::new(), seats, kicks: Vec::new(), around }
    }

    pub(crate) fn input(&mut self, input: Input) {
        let Driver { machine, now, .. } = self;
        (self.around)(&input, &mut || machine.input(*now, input));
    }

    pub(crate) fn settle(&mut self) {
        let Driver { machine, now, .. } = self;
        (self.around)(&"settle", &mut || {
            machine.settle(*now);
        });
        for &action in self.machine.actions() {
            match action {
                Action::Stop { cpu, entity } => {
                    assert_eq!(
                        self.seats[cpu.index()].take(),
                        Some(entity),
                        "the entity that stops on {cpu:?} ran there"
                    );
                }
                Action::Run { cpu, entity, .. } => {
                    assert_eq!(self.seats[cpu.index()].replace(entity), None, "{cpu:?} was empty for {entity}");
                }
                Action::SetAlarm { alarm, at, .. } => {
                    let number = self.machine.alarm_number(alarm);
                    if self.alarms.len() <= number {
                        self.alarms.resize(number + 1, None);
                    }
                    self.alarms[number] = Some((at, alarm));
                }
                Action::ClearAlarm { alarm } => self.alarms[self.machine.alarm_number(alarm)] = None,
                Action::Extend { .. } | Action::Held { .. } => {}
                Action::Kick { cpu } => self.kicks.push(cpu),
            }
        }
        for cpu in self.machine.topology().iter() {
            assert_eq!(self.seats[cpu.index()], self.machine.running(cpu), "what was said of {cpu:?} is so");
        }
    }

    /// Returns the instant and the number of the next alarm. If several alarms are due at one instant, returns the
    /// lowest number.
    pub(crate) fn next_alarm(&self) -> Option<(Instant, usize)> {
        let set = self.alarms.iter().enumerate();
        set.filter_map(|(number, alarm)| alarm.map(|(at, _)| (at, number))).min()
    }

    /// Delivers the alarm with this number, which must be due.
    pub(crate) fn ring(&mut self, number: usize) {
        let (at, alarm) = self.alarms[number].take().expect("it is set");
        assert!(at <= self.now, "{alarm:?} is due at {at}, not at {}", self.now);
        self.input(Input::Alarm { alarm });
    }

    /// Delivers the oldest kick in flight.
    pub(crate) fn kick(&mut self) {
        let cpu = self.kicks.remove(0);
        self.input(Input::Kicked { cpu });
    }

    /// Returns the instant of the next event: arrival of a kick, end of a time slice or alarm. [`Instant::NEVER`]: no
    /// pending event.
    pub(crate) fn due(&self) -> Instant {
        let kick = (!self.kicks.is_empty()).then_some(self.now);
        let ends = self.machine.topology().iter().map(|cpu| self.machine.until(cpu)).min();
        let alarm = self.next_alarm().map(|(at, _)| at);
        kick.into_iter().chain(ends).chain(alarm).min().unwrap_or(Instant::NEVER).max(self.now)
    }

    /// Advances to the next event, delivers all events of that instant, and settles.
    pub(crate) fn turn(&mut self) {
        self.now = self.due();
        assert_ne!(self.now, Instant::NEVER, "something is due");
        for cpu in self.machine.topology().iter() {
            if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= self.now {
                self.input(Input::Expire { cpu });
            }
        }
        while !self.kicks.is_empty() {
            self.kick();
        }
        while let Some((_, number)) = self.next_alarm().filter(|&(at, _)| at <= self.now) {
            self.ring(number);
        }
        self.settle();
    }
}
