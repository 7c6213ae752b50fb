//! [`Driver`]: a small driver of a machine in virtual time. The driver acts late on purpose, and passes every event to
//! an auditor.

use super::dice::Dice;
use sched::{Action, Alarm, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Machine, Nanos, Params, Refused};
use sim::Auditor;
use std::fmt::Write;
use trace::{Event, Sink};

/// A wrapper around the calls in which a policy must not allocate. The wrapper makes each call exactly once.
pub type Meter<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// The largest delays of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// The largest delay of a kick.
    pub kick: Nanos,
    /// The largest delay of an alarm.
    pub alarm: Nanos,
    /// The largest delay of the end of a time slice.
    pub slice: Nanos,
}

/// Maximum number of turns between two rounds of inputs, which are at most 30 ms apart. A policy that sets its alarms a
/// few nanoseconds ahead breaks no law, but its run would take hours. The registered policies need fewer than 30,000
/// turns.
const TURNS_MOST: u64 = 1_000_000;

/// A pending alarm.
#[derive(Clone, Copy, Debug)]
struct Pending {
    alarm: Alarm,
    due: Instant,
    delivered: Instant,
}

/// A driver of a machine. The driver passes inputs to the machine, carries out actions, and delivers due events late.
pub struct Driver<'a> {
    machine: Machine,
    auditor: Auditor,
    now: Instant,
    lateness: Lateness,
    dice: Dice,
    /// For each CPU, the instant at which the driver delivers the end of the time slice.
    ends: Vec<Instant>,
    /// Kicks in flight. The reason for a kick may no longer apply when the kick arrives.
    kicks: Vec<(Instant, CpuId)>,
    /// Pending alarms, by alarm number.
    alarms: Vec<Option<Pending>>,
    /// Alarms that were cleared or postponed after they fired and before their delivery.
    strays: Vec<(Instant, Alarm)>,
    meter: Option<Meter<'a>>,
    log: Vec<(Instant, Action)>,
    accepted: u64,
    refused: u64,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("now", &self.now).field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl<'a> Driver<'a> {
    /// Returns a driver of a new machine; `seed` determines the delays.
    #[must_use]
    pub fn new(machine: Machine, auditor: Auditor, lateness: Lateness, seed: u64) -> Driver<'a> {
        let cpus = machine.topology().cpus;
        Driver {
            machine,
            auditor,
            now: Instant::ZERO,
            lateness,
            dice: Dice::new(seed),
            ends: vec![Instant::NEVER; cpus],
            kicks: Vec::new(),
            alarms: Vec::new(),
            strays: Vec::new(),
            meter: None,
            log: Vec::new(),
            accepted: 0,
            refused: 0,
        }
    }

    /// Wraps `meter` around every call in which the policy must not allocate.
    #[must_use]
    pub fn metered(mut self, meter: Option<Meter<'a>>) -> Driver<'a> {
        self.meter = meter;
        self
    }

    /// Returns the current instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the auditor with its observations of the run.
    #[must_use]
    pub fn auditor(&self) -> &Auditor {
        &self.auditor
    }

    /// Returns the number of accepted inputs and changes.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of refused requests.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Ends the driver, and returns every action with its instant.
    #[must_use]
    pub fn into_log(self) -> Vec<(Instant, Action)> {
        self.log
    }

    fn show(&mut self, event: &Event) {
        self.auditor.record(self.now, event);
    }

    fn metered_call(&mut self, mut call: impl FnMut(&mut Machine)) {
        let machine = &mut self.machine;
        match self.meter.as_mut() {
            Some(meter) => meter(&mut || call(machine)),
            None => call(machine),
        }
    }

    // ---- Inputs ----

    /// Passes an input to the machine. The input must be true: see [`Machine::input`].
    pub fn input(&mut self, input: Input) {
        self.show(&input.into());
        self.accepted += 1;
        let now = self.now;
        self.metered_call(|machine| machine.input(now, input));
    }

    /// Adds an entity. Returns `None` if the machine refuses the entity.
    pub fn attach(&mut self, params: Params) -> Option<EntityId> {
        let before = self.snapshot();
        let answer = self.machine.attach(self.now, params);
        let entity = self.note(answer, &before)?;
        self.show(&Event::Attach { entity, name: entity.to_string(), params: Box::new(params) });
        Some(entity)
    }

    /// Removes an entity in any state.
    pub fn detach(&mut self, entity: EntityId) {
        self.check_charge(entity);
        self.accepted += 1;
        self.machine.detach(self.now, entity);
        self.show(&Event::Detach { entity });
    }

    /// Changes the parameters of an entity. Returns whether the machine accepts them.
    pub fn adjust(&mut self, entity: EntityId, params: Params) -> bool {
        let before = self.snapshot();
        let answer = self.machine.adjust(self.now, entity, params);
        let accepted = self.note(answer, &before).is_some();
        if accepted {
            self.show(&Event::Adjust { entity, params: Box::new(params) });
        }
        accepted
    }

    /// Adds a group. Returns `None` if the machine refuses the group.
    pub fn create_group(&mut self, params: GroupParams, parent: GroupId) -> Option<GroupId> {
        let before = self.snapshot();
        let answer = self.machine.create_group(self.now, params, parent);
        let group = self.note(answer, &before)?;
        self.show(&Event::GroupCreated { group, name: group.to_string(), parent, params: Box::new(params) });
        Some(group)
    }

    /// Changes the parameters of a group. Returns whether the machine accepts them.
    pub fn adjust_group(&mut self, group: GroupId, params: GroupParams) -> bool {
        let before = self.snapshot();
        let answer = self.machine.adjust_group(self.now, group, params);
        let accepted = self.note(answer, &before).is_some();
        if accepted {
            self.show(&Event::GroupAdjusted { group, params: Box::new(params) });
        }
        accepted
    }

    /// Removes a group. Returns whether the machine accepts the removal.
    pub fn remove_group(&mut self, group: GroupId) -> bool {
        let before = self.snapshot();
        let answer = self.machine.remove_group(self.now, group);
        let accepted = self.note(answer, &before).is_some();
        if accepted {
            self.show(&Event::GroupRemoved { group });
        }
        accepted
    }

    /// Counts an accepted or refused request. Asserts that a refused request has changed nothing.
    fn note<T>(&mut self, answer: Result<T, Refused>, before: &str) -> Option<T> {
        match answer {
            Ok(value) => {
                self.accepted += 1;
                Some(value)
            }
            Err(refused) => {
                self.refused += 1;
                let after = self.snapshot();
                assert_eq!(before, after, "a request was refused ({refused}), but it changed something");
                None
            }
        }
    }

    /// Returns the states and parameters of the attached entities as a string. While every CPU is idle, the string
    /// includes the state of the policy. Otherwise that state is omitted, because a running entity may have uncharged
    /// time.
    fn snapshot(&self) -> String {
        let mut text = String::new();
        let is_idle = self.machine.topology().iter().all(|cpu| self.machine.running(cpu).is_none());
        for e in self.auditor.attached() {
            let _ = write!(text, "{e} {:?} {:?}", self.machine.state(e), self.machine.params(e));
            if is_idle {
                let _ = write!(text, " held={}", self.machine.is_held(e));
                self.machine.inspect_all(e, &mut |name, value| {
                    let _ = write!(text, " {name}={value}");
                });
            }
            text.push('\n');
        }
        text
    }

    /// Checks law 5, unless the entity runs: all its CPU time has been charged.
    pub fn check_charge(&mut self, e: EntityId) {
        if !matches!(self.machine.state(e), sched::State::Running(_)) {
            self.auditor.check_charge(e, self.machine.charged(e));
        }
    }

    // ---- Time ----

    /// Returns the instant at which the next event is delivered.
    #[must_use]
    pub fn next(&self) -> Instant {
        let ends = self.ends.iter().copied();
        let kicks = self.kicks.iter().map(|&(at, _)| at);
        let alarms = self.alarms.iter().flatten().map(|pending| pending.delivered);
        let strays = self.strays.iter().map(|&(at, _)| at);
        ends.chain(kicks).chain(alarms).chain(strays).min().unwrap_or(Instant::NEVER)
    }

    /// Delivers all events before `end` and advances to `end`. Events due at `end` are not delivered yet.
    ///
    /// # Panics
    /// The alarms, kicks and time slices of the policy cause a million turns before `end`.
    pub fn pass(&mut self, end: Instant) {
        let (start, mut turns) = (self.now, 0);
        while self.next() < end {
            self.now = self.next();
            self.deliver();
            self.settle();
            turns += 1;
            assert!(
                turns < TURNS_MOST,
                "the policy does not let time pass: {turns} turns from {start} to {}",
                self.now
            );
        }
        self.now = end;
    }

    /// Delivers the due events, except ends of time slices that no longer apply.
    pub fn deliver(&mut self) {
        let now = self.now;
        for cpu in self.machine.topology().iter() {
            if self.ends[cpu.index()] <= now {
                self.ends[cpu.index()] = Instant::NEVER;
                // An earlier input of this instant may have stopped or extended the entity.
                if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= now {
                    self.input(Input::Expire { cpu });
                }
            }
        }
        while let Some(at) = self.kicks.iter().position(|&(at, _)| at <= now) {
            let (_, cpu) = self.kicks.remove(at);
            self.input(Input::Kicked { cpu });
        }
        while let Some(at) = self.strays.iter().position(|&(at, _)| at <= now) {
            let (_, alarm) = self.strays.remove(at);
            self.input(Input::Alarm { alarm });
        }
        for number in 0..self.alarms.len() {
            if let Some(Pending { alarm, .. }) = self.alarms[number].take_if(|pending| pending.delivered <= now) {
                self.input(Input::Alarm { alarm });
            }
        }
    }

    /// Settles the machine and carries out its actions.
    pub fn settle(&mut self) {
        let now = self.now;
        self.metered_call(|machine| {
            machine.settle(now);
        });
        for i in 0..self.machine.actions().len() {
            let action = self.machine.actions()[i];
            self.log.push((now, action));
            self.show(&action.into());
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Stop { cpu, .. } => self.ends[cpu.index()] = Instant::NEVER,
            Action::Run { cpu, until, .. } | Action::Extend { cpu, until } => {
                let late = self.dice.span(self.lateness.slice);
                self.ends[cpu.index()] = until.saturating_add(late);
            }
            Action::Kick { cpu } => {
                let delay = self.dice.span(self.lateness.kick);
                self.kicks.push((self.now + delay, cpu));
            }
            Action::Held { .. } => {}
            Action::SetAlarm { alarm, at, .. } => {
                let number = self.machine.alarm_number(alarm);
                self.clear_alarm(number);
                if self.alarms.len() <= number {
                    self.alarms.resize(number + 1, None);
                }
                let delivered = at.saturating_add(self.dice.span(self.lateness.alarm));
                self.alarms[number] = Some(Pending { alarm, due: at, delivered });
            }
            Action::ClearAlarm { alarm } => self.clear_alarm(self.machine.alarm_number(alarm)),
        }
    }

    /// Clears an alarm. An alarm that has already fired is still delivered.
    fn clear_alarm(&mut self, number: usize) {
        if let Some(pending) = self.alarms.get_mut(number).and_then(Option::take)
            && pending.due <= self.now
        {
            self.strays.push((pending.delivered, pending.alarm));
        }
    }

    /// Ends the run: stops and charges every entity.
    pub fn finish(&mut self) {
        for entity in self.auditor.attached() {
            self.input(Input::Pause { entity });
        }
        self.settle();
        for entity in self.auditor.attached() {
            self.check_charge(entity);
        }
        self.show(&Event::End);
    }
}
