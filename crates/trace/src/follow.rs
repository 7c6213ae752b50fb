//! [`Follower`]: follows a trace event by event and tells what the events mean: which state lasted from when to when,
//! what became of a job. It keeps only who is there now, so traces of any length can be followed.

use crate::timeline::{Job, Span, State};
use crate::{Event, Header};
use sched::id::CPUS_MAX;
use sched::{Action, CpuId, CpuSet, EntityId, Input, Instant, Params};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What became clear.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fact<'a> {
    /// An entity is there.
    Attached {
        /// Which.
        entity: EntityId,
        /// Since when.
        at: Instant,
        /// What people call it.
        name: &'a str,
        /// What is asked for it.
        params: &'a Params,
    },
    /// What is asked for an entity changed.
    Adjusted {
        /// Which.
        entity: EntityId,
        /// When.
        at: Instant,
        /// What is asked now.
        params: &'a Params,
    },
    /// An entity left. Its last span follows.
    Detached {
        /// Which.
        entity: EntityId,
        /// When.
        at: Instant,
    },
    /// A blocked entity woke.
    Woken {
        /// Which.
        entity: EntityId,
        /// When.
        at: Instant,
    },
    /// A job was done, or will not be seen any more.
    Job {
        /// Whose.
        entity: EntityId,
        /// What became of it.
        job: Job,
    },
    /// A state came to its end. Those of one entity, and those on one CPU, come in order and do not overlap.
    Span {
        /// Whose.
        entity: EntityId,
        /// What it did.
        span: Span,
        /// When it woke, on the first run after that.
        woken: Option<Instant>,
    },
}

/// An event contradicts those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistent {
    /// Which event, from 1.
    pub number: u64,
    /// When it is said to have happened.
    pub at: Instant,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {}: {}", self.number, self.at, self.reason)
    }
}

impl std::error::Error for Inconsistent {}

/// A state whose end is not known yet. `None`: it is not there any more.
#[derive(Clone, Copy, Debug)]
struct Open {
    state: Option<State>,
    from: Instant,
    woken: Option<Instant>,
}

/// An entity that is there.
#[derive(Debug)]
struct Live {
    /// Where it runs.
    seat: Option<CpuId>,
    /// Whether it wants to run.
    ready: bool,
    /// Why it is held.
    held: u8,
    /// When it woke, until it runs.
    woken: Option<Instant>,
    /// What ended at this instant. It is told when time moves on: until then, what came after it may turn out to have
    /// lasted no time, and it goes on.
    closed: Option<Open>,
    open: Open,
    /// Released and not done: when, and until when it should be.
    jobs: VecDeque<(Instant, Instant)>,
    /// Whether it changed at this instant.
    touched: bool,
}

impl Live {
    fn new(at: Instant) -> Live {
        let open = Open { state: Some(State::Blocked), from: at, woken: None };
        Live {
            seat: None,
            ready: false,
            held: 0,
            woken: None,
            closed: None,
            open,
            jobs: VecDeque::new(),
            touched: false,
        }
    }

    fn state(&self, frozen: &CpuSet) -> State {
        match self.seat {
            Some(cpu) if frozen.contains(cpu) => State::Stolen(cpu),
            Some(cpu) => State::Running(cpu),
            None if !self.ready => State::Blocked,
            None if self.held != 0 => State::Held(self.held),
            None => State::Waiting,
        }
    }

    fn become_at(&mut self, at: Instant, state: Option<State>) {
        if state == self.open.state {
            return;
        }
        if self.open.from < at {
            self.closed = Some(self.open);
        } else {
            self.woken = self.woken.or(self.open.woken);
        }
        // Whoever runs has nothing left of its wake-up, not even where it goes on.
        let woken = if matches!(state, Some(State::Running(_))) { self.woken.take() } else { None };
        match self.closed.take_if(|closed| closed.state == state) {
            Some(closed) => self.open = closed,
            None => self.open = Open { state, from: at, woken },
        }
    }
}

/// Follows a trace.
#[derive(Debug)]
pub struct Follower {
    now: Instant,
    number: u64,
    live: BTreeMap<EntityId, Live>,
    seats: Vec<Option<EntityId>>,
    /// The CPUs that are vCPUs without a CPU.
    frozen: CpuSet,
    touched: Vec<EntityId>,
}

/// Takes what the follower tells.
pub type Tell<'t> = dyn FnMut(Fact<'_>) + 't;

impl Follower {
    /// Nothing has happened yet on the machine of this header.
    #[must_use]
    pub fn new(header: &Header) -> Follower {
        let seats = vec![None; header.cpus.min(CPUS_MAX)];
        let (live, touched) = (BTreeMap::new(), Vec::new());
        Follower { now: Instant::ZERO, number: 0, live, seats, frozen: CpuSet::EMPTY, touched }
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.seats.len()
    }

    /// The instant of the last event.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// One more event; tells what it makes clear.
    ///
    /// # Errors
    /// The event contradicts those before it; the follower is not to be used any more.
    pub fn observe(&mut self, at: Instant, event: &Event, tell: &mut Tell<'_>) -> Result<(), Inconsistent> {
        if at < self.now {
            return Err(self.contradiction(at, format!("time goes back from {}", self.now)));
        }
        self.advance(at, tell);
        self.take(event, tell).map_err(|reason| self.contradiction(at, reason))?;
        self.number += 1;
        Ok(())
    }

    /// Time has come to `at`, if that is not over yet: tells what ended before.
    pub(crate) fn advance(&mut self, at: Instant, tell: &mut Tell<'_>) {
        if at > self.now {
            self.flush(tell);
            self.now = at;
        }
    }

    /// Where `entity` runs, and since when, if it does.
    pub(crate) fn running(&self, entity: EntityId) -> Option<(CpuId, Instant)> {
        let open = self.live.get(&entity)?.open;
        if let Some(State::Running(cpu)) = open.state { Some((cpu, open.from)) } else { None }
    }

    /// Who runs on `cpu`, and since when, if somebody does.
    pub(crate) fn running_on(&self, cpu: CpuId) -> Option<(EntityId, Instant)> {
        let entity = self.seats.get(cpu.index()).copied().flatten()?;
        self.running(entity).map(|(_, from)| (entity, from))
    }

    /// Everything has happened: tells the rest. Says when the last event was.
    pub fn finish(mut self, tell: &mut Tell<'_>) -> Instant {
        self.flush(tell);
        for (&entity, live) in &mut self.live {
            give_up(entity, live, self.now, tell);
            tell_span(entity, live.open, self.now, tell);
        }
        self.now
    }

    /// The event after those observed so far is wrong.
    pub(crate) fn contradiction(&self, at: Instant, reason: String) -> Inconsistent {
        Inconsistent { number: self.number + 1, at, reason }
    }

    /// Time moves on: what ended at this instant did end.
    fn flush(&mut self, tell: &mut Tell<'_>) {
        for entity in self.touched.drain(..) {
            let live = self.live.get_mut(&entity).expect("whoever changed stays until time moves on");
            live.touched = false;
            if let Some(closed) = live.closed.take() {
                tell_span(entity, closed, self.now, tell);
            }
            if live.open.state.is_none() {
                self.live.remove(&entity);
            }
        }
    }

    fn attach(&mut self, entity: EntityId) -> Result<(), String> {
        if self.live.contains_key(&entity) {
            return Err(format!("{entity} is attached already; right would be another id"));
        }
        self.live.insert(entity, Live::new(self.now));
        Ok(())
    }

    fn take(&mut self, event: &Event, tell: &mut Tell<'_>) -> Result<(), String> {
        let at = self.now;
        match *event {
            Event::Input(input) => self.take_input(input, tell)?,
            Event::Action(action) => self.take_action(action)?,
            Event::Attach { entity, ref name, ref params } => {
                self.attach(entity)?;
                tell(Fact::Attached { entity, at, name, params });
            }
            Event::Adjust { entity, ref params } => {
                self.known(entity)?;
                tell(Fact::Adjusted { entity, at, params });
            }
            Event::Detach { entity } => self.detach(entity, tell)?,
            Event::Release { entity, deadline } => self.known(entity)?.jobs.push_back((at, deadline)),
            Event::Complete { entity } => self.complete(entity, tell)?,
            Event::Vcpu { entity, .. } => drop(self.known(entity)?),
            Event::Settled
            | Event::GroupCreated { .. }
            | Event::GroupAdjusted { .. }
            | Event::GroupRemoved { .. }
            | Event::Refused(_)
            | Event::Background { .. }
            | Event::Period { .. }
            | Event::Woke { .. }
            | Event::Irq { .. }
            | Event::Skipped { .. }
            | Event::Sent { .. }
            | Event::SpinWait { .. }
            | Event::Boosted { .. }
            | Event::Served { .. }
            | Event::Arrived { .. }
            | Event::Lost { .. }
            | Event::End => {}
        }
        Ok(())
    }

    fn take_input(&mut self, input: Input, tell: &mut Tell<'_>) -> Result<(), String> {
        match input {
            Input::Wake { entity, .. } => self.wake(entity, tell)?,
            Input::Block { cpu } => {
                self.awake(cpu)?;
                let Some(entity) = self.seat(cpu)? else {
                    return Err(format!("CPU {cpu} blocks, but nobody runs there"));
                };
                self.unready(entity)?;
            }
            Input::Pause { entity } => self.unready(entity)?,
            Input::Freeze { cpu, .. } => self.freeze(cpu)?,
            Input::Thaw { cpu, .. } => self.thaw(cpu)?,
            Input::Yield { cpu } | Input::YieldTo { cpu, .. } | Input::Expire { cpu } | Input::Kicked { cpu } => {
                self.awake(cpu)?;
            }
            Input::Event { .. } | Input::Ran { .. } | Input::Alarm { .. } => {}
        }
        Ok(())
    }

    fn take_action(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Stop { cpu, entity } => self.stop(cpu, entity)?,
            Action::Run { cpu, entity, .. } => self.run(cpu, entity)?,
            // A time slice may be cut from another CPU, whether or not its own goes on just now.
            Action::Extend { cpu, .. } => {
                let Some(entity) = self.seat(cpu)? else {
                    return Err(format!("CPU {cpu} goes on, but nobody runs there"));
                };
                // It may have blocked, woken and been picked again, all at this instant: it just runs on.
                self.known(entity)?.woken = None;
            }
            Action::Held { entity, reasons } => {
                self.known(entity)?.held = reasons;
                self.update(entity);
            }
            Action::Kick { .. } | Action::SetAlarm { .. } | Action::ClearAlarm { .. } => {}
        }
        Ok(())
    }

    fn wake(&mut self, entity: EntityId, tell: &mut Tell<'_>) -> Result<(), String> {
        let at = self.now;
        let live = self.known(entity)?;
        if !live.ready {
            live.ready = true;
            live.woken = Some(at);
            tell(Fact::Woken { entity, at });
            self.update(entity);
        }
        Ok(())
    }

    fn complete(&mut self, entity: EntityId, tell: &mut Tell<'_>) -> Result<(), String> {
        let Some((released, deadline)) = self.known(entity)?.jobs.pop_front() else {
            return Err(format!("{entity} completes a job, but none is released"));
        };
        tell(Fact::Job { entity, job: Job { released, deadline, ended: self.now, completed: true } });
        Ok(())
    }

    fn known(&mut self, entity: EntityId) -> Result<&mut Live, String> {
        let live = self.live.get_mut(&entity).filter(|live| live.open.state.is_some());
        live.ok_or_else(|| format!("{entity} is not attached; right would be an `attach` before"))
    }

    fn seat(&self, cpu: CpuId) -> Result<Option<EntityId>, String> {
        let cpus = self.seats.len();
        self.seats
            .get(cpu.index())
            .copied()
            .ok_or_else(|| format!("there is no CPU {cpu}; right would be one below {cpus}, the header's number"))
    }

    /// Nothing goes on on a frozen CPU.
    fn awake(&self, cpu: CpuId) -> Result<(), String> {
        if self.frozen.contains(cpu) {
            return Err(format!("something happens on CPU {cpu}, but it is frozen; right would be a `thaw` before"));
        }
        Ok(())
    }

    fn freeze(&mut self, cpu: CpuId) -> Result<(), String> {
        let seat = self.seat(cpu)?;
        if !self.frozen.insert(cpu) {
            return Err(format!("CPU {cpu} freezes, but it is frozen; right would be a `thaw` before"));
        }
        seat.into_iter().for_each(|entity| self.update(entity));
        Ok(())
    }

    fn thaw(&mut self, cpu: CpuId) -> Result<(), String> {
        let seat = self.seat(cpu)?;
        if !self.frozen.remove(cpu) {
            return Err(format!("CPU {cpu} thaws, but it is not frozen; right would be a `freeze` before"));
        }
        seat.into_iter().for_each(|entity| self.update(entity));
        Ok(())
    }

    fn run(&mut self, cpu: CpuId, entity: EntityId) -> Result<(), String> {
        if self.frozen.contains(cpu) {
            return Err(format!("{entity} runs on CPU {cpu}, but it is frozen; right would be a `thaw` before"));
        }
        if let Some(other) = self.seat(cpu)? {
            return Err(format!("{entity} runs on CPU {cpu}, but {other} does; right would be a `stop` before"));
        }
        let live = self.known(entity)?;
        if let Some(elsewhere) = live.seat {
            return Err(format!(
                "{entity} runs on CPU {cpu}, but runs on CPU {elsewhere}; right would be a `stop` before"
            ));
        }
        live.seat = Some(cpu);
        live.ready = true;
        self.seats[cpu.index()] = Some(entity);
        self.update(entity);
        Ok(())
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId) -> Result<(), String> {
        match self.seat(cpu)? {
            Some(who) if who == entity => {
                self.awake(cpu)?;
                self.seats[cpu.index()] = None;
                self.known(entity)?.seat = None;
                self.update(entity);
                Ok(())
            }
            // Whoever left while running is told to stop afterwards.
            None if self.known(entity).is_err() => Ok(()),
            _ => Err(format!("{entity} stops on CPU {cpu}, but does not run there")),
        }
    }

    /// `entity` waits for something: at once if it does not run, otherwise when it stops.
    fn unready(&mut self, entity: EntityId) -> Result<(), String> {
        let live = self.known(entity)?;
        live.ready = false;
        live.woken = None;
        self.update(entity);
        Ok(())
    }

    fn detach(&mut self, entity: EntityId, tell: &mut Tell<'_>) -> Result<(), String> {
        let at = self.now;
        let live = self.known(entity)?;
        tell(Fact::Detached { entity, at });
        give_up(entity, live, at, tell);
        let seat = live.seat.take();
        live.become_at(at, None);
        self.touch(entity);
        if let Some(cpu) = seat {
            self.seats[cpu.index()] = None;
        }
        Ok(())
    }

    /// Something about `entity` changed, and perhaps its state.
    fn update(&mut self, entity: EntityId) {
        let now = self.now;
        let live = self.live.get_mut(&entity).expect("only who is there changes");
        live.become_at(now, Some(live.state(&self.frozen)));
        self.touch(entity);
    }

    fn touch(&mut self, entity: EntityId) {
        let live = self.live.get_mut(&entity).expect("only who is there changes");
        if !std::mem::replace(&mut live.touched, true) {
            self.touched.push(entity);
        }
    }
}

/// The jobs of `entity` that are not done will not be seen any more.
fn give_up(entity: EntityId, live: &mut Live, at: Instant, tell: &mut Tell<'_>) {
    for (released, deadline) in live.jobs.drain(..) {
        tell(Fact::Job { entity, job: Job { released, deadline, ended: at, completed: false } });
    }
}

fn tell_span(entity: EntityId, open: Open, to: Instant, tell: &mut Tell<'_>) {
    if let Some(state) = open.state
        && open.from < to
    {
        tell(Fact::Span { entity, span: Span { from: open.from, to, state }, woken: open.woken });
    }
}
