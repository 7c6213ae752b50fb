//! [`Follower`]: turns a trace into facts, event by event: the states of entities with their start and end, and the
//! outcomes of jobs. The follower stores only attached entities and their open jobs, so its memory use does not grow
//! with the length of the trace.

use crate::span::{Job, Span, State};
use crate::{Event, Header};
use sched::id::CPUS_MAX;
use sched::{Action, CpuId, CpuSet, EntityId, Input, Instant, Params};
use std::collections::VecDeque;
use std::fmt;

/// A fact that the events imply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fact<'a> {
    /// An entity was attached.
    Attached {
        /// The entity.
        entity: EntityId,
        /// The instant.
        at: Instant,
        /// Name of the entity.
        name: &'a str,
        /// Parameters of the entity.
        params: &'a Params,
    },
    /// The parameters of an entity changed.
    Adjusted {
        /// The entity.
        entity: EntityId,
        /// The instant.
        at: Instant,
        /// New parameters of the entity.
        params: &'a Params,
    },
    /// An entity was detached. Facts about its unfinished jobs and its last span follow.
    Detached {
        /// The entity.
        entity: EntityId,
        /// The instant.
        at: Instant,
    },
    /// A blocked entity woke.
    Woken {
        /// The entity.
        entity: EntityId,
        /// The instant.
        at: Instant,
    },
    /// A job was completed or aborted, or remained incomplete when its entity was detached or the trace ended.
    Job {
        /// The entity.
        entity: EntityId,
        /// The job and its outcome.
        job: Job,
    },
    /// A state ended, or lasted until the end of the trace. The spans of one entity, and the spans on one CPU, are in
    /// order and do not overlap.
    Span {
        /// The entity.
        entity: EntityId,
        /// State and interval of the entity.
        span: Span,
        /// Instant of the entity's last wake-up. Present only for the first run after this wake-up.
        woken: Option<Instant>,
    },
}

/// An error: an event contradicts earlier events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistent {
    /// Number of the event, from 1. 0: the header of a world is invalid.
    pub number: u64,
    /// The instant of the event.
    pub at: Instant,
    /// Description of the contradiction. In most cases, a remedy follows after `help:`.
    pub reason: String,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {}: {}", self.number, self.at, self.reason)
    }
}

impl std::error::Error for Inconsistent {}

/// A state of an entity and its start. `state` is `None` once the entity is detached.
#[derive(Clone, Copy, Debug)]
struct Open {
    state: Option<State>,
    from: Instant,
    woken: Option<Instant>,
}

/// An entity that is attached, or was detached at the current instant.
#[derive(Debug)]
struct Live {
    entity: EntityId,
    /// CPU that the entity occupies, even while the CPU is frozen.
    seat: Option<CpuId>,
    /// Whether the entity is ready to run, even if it is held.
    ready: bool,
    /// Reasons why the entity is held, as [`sched::Held`] bits.
    held: u8,
    /// Instant of the entity's last wake-up. `None` once the entity runs.
    woken: Option<Instant>,
    /// State that ended at the current instant. The follower emits this state when time advances. If the entity returns
    /// to this state at the same instant, the state continues instead.
    closed: Option<Open>,
    open: Open,
    /// Release and deadline of each job that is released and not completed.
    jobs: VecDeque<(Instant, Instant)>,
    /// Whether the entity changed at the current instant.
    touched: bool,
}

impl Live {
    fn new(entity: EntityId, at: Instant) -> Live {
        let open = Open { state: Some(State::Blocked), from: at, woken: None };
        Live {
            entity,
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

    /// Marks the entity as changed at this instant. Returns whether the mark is new.
    fn touch(&mut self) -> bool {
        !std::mem::replace(&mut self.touched, true)
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
        // Only the first run after a wake-up stores the instant of this wake-up.
        let woken = if matches!(state, Some(State::Running(_))) { self.woken.take() } else { None };
        match self.closed.take_if(|closed| closed.state == state) {
            Some(closed) => self.open = closed,
            None => self.open = Open { state, from: at, woken },
        }
    }
}

/// Turns the events of a trace into facts.
#[derive(Debug)]
pub struct Follower {
    now: Instant,
    number: u64,
    /// Attached entities, and the entities that were detached at the current instant. The index of an entity does not
    /// change.
    live: Vec<Live>,
    /// Indices in `live` without an entity.
    free: Vec<usize>,
    /// For each entity index, the index in `live` of the last attached entity with this entity index.
    places: Vec<Option<usize>>,
    /// Index in `live` of the entity on each CPU.
    seats: Vec<Option<usize>>,
    /// Frozen CPUs: vCPUs without a physical CPU.
    frozen: CpuSet,
    /// Indices in `live` of the entities that changed at the current instant.
    touched: Vec<usize>,
}

/// A receiver of facts.
pub type Emit<'t> = dyn FnMut(Fact<'_>) + 't;

impl Follower {
    /// Creates a follower of the machine with this header. The follower has not received any events.
    #[must_use]
    pub fn new(header: &Header) -> Follower {
        let seats = vec![None; header.cpus.min(CPUS_MAX)];
        Follower {
            now: Instant::ZERO,
            number: 0,
            live: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            seats,
            frozen: CpuSet::EMPTY,
            touched: Vec::new(),
        }
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.seats.len()
    }

    /// Returns the instant of the last event.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Processes the next event, and emits the facts that the event implies.
    ///
    /// # Errors
    /// The event contradicts earlier events. The follower must not be used afterwards.
    #[inline]
    pub fn observe(&mut self, at: Instant, event: &Event, emit: &mut Emit<'_>) -> Result<(), Inconsistent> {
        if at < self.now {
            return Err(self.contradiction(at, format!("time goes back from {}", self.now)));
        }
        self.advance(at, emit);
        self.take(event, emit).map_err(|reason| self.contradiction(at, reason))?;
        self.number += 1;
        Ok(())
    }

    /// Advances the time to `at`, unless `at` has passed, and emits the states that ended before `at`.
    pub(crate) fn advance(&mut self, at: Instant, emit: &mut Emit<'_>) {
        if at > self.now {
            self.flush(emit);
            self.now = at;
        }
    }

    /// Returns the CPU that `entity` runs on, and the start of the run. `None`: `entity` does not run.
    pub(crate) fn running(&self, entity: EntityId) -> Option<(CpuId, Instant)> {
        let open = self.live[self.place(entity)?].open;
        if let Some(State::Running(cpu)) = open.state { Some((cpu, open.from)) } else { None }
    }

    /// Returns the entity that runs on `cpu`, and the start of the run. `None`: the CPU is idle or frozen.
    pub(crate) fn running_on(&self, cpu: CpuId) -> Option<(EntityId, Instant)> {
        let Live { entity, open, .. } = &self.live[self.seats.get(cpu.index()).copied().flatten()?];
        if let Some(State::Running(_)) = open.state { Some((*entity, open.from)) } else { None }
    }

    /// Ends the trace: emits the remaining facts, and returns the instant of the last event.
    pub fn finish(mut self, emit: &mut Emit<'_>) -> Instant {
        self.flush(emit);
        // An element of `live` without an entity has neither jobs nor a state.
        self.live.sort_unstable_by_key(|live| live.entity);
        for live in &mut self.live {
            give_up(live, self.now, emit);
            emit_span(live.entity, live.open, self.now, emit);
        }
        self.now
    }

    /// Returns an error about the next event.
    #[cold]
    pub(crate) fn contradiction(&self, at: Instant, reason: String) -> Inconsistent {
        Inconsistent { number: self.number + 1, at, reason }
    }

    /// Emits the states that ended at the current instant, before time advances.
    fn flush(&mut self, emit: &mut Emit<'_>) {
        for place in self.touched.drain(..) {
            let live = &mut self.live[place];
            live.touched = false;
            if let Some(closed) = live.closed.take() {
                emit_span(live.entity, closed, self.now, emit);
            }
            if live.open.state.is_none() {
                self.free.push(place);
                self.places[live.entity.index()].take_if(|last| *last == place);
            }
        }
    }

    fn attach(&mut self, entity: EntityId) -> Result<(), String> {
        if self.place(entity).is_some() {
            return Err(format!("{entity} is attached already; help: use another id"));
        }
        let live = Live::new(entity, self.now);
        let place = self.free.pop().unwrap_or(self.live.len());
        if place == self.live.len() {
            self.live.push(live);
        } else {
            self.live[place] = live;
        }
        if self.places.len() <= entity.index() {
            self.places.resize(entity.index() + 1, None);
        }
        self.places[entity.index()] = Some(place);
        Ok(())
    }

    /// Returns the index of `entity` in `live`. `None`: the entity is not attached, and was not detached at the current
    /// instant.
    #[inline]
    fn place(&self, entity: EntityId) -> Option<usize> {
        let place = (*self.places.get(entity.index())?)?;
        (self.live[place].entity == entity).then_some(place)
    }

    fn take(&mut self, event: &Event, emit: &mut Emit<'_>) -> Result<(), String> {
        let at = self.now;
        match *event {
            Event::Input(input) => self.take_input(input, emit)?,
            Event::Action(action) => self.take_action(action)?,
            Event::Attach { entity, ref name, ref params } => {
                self.attach(entity)?;
                emit(Fact::Attached { entity, at, name, params });
            }
            Event::Adjust { entity, ref params } => {
                self.known(entity)?;
                emit(Fact::Adjusted { entity, at, params });
            }
            Event::Detach { entity } => self.detach(entity, emit)?,
            Event::Release { entity, deadline } => self.known(entity)?.jobs.push_back((at, deadline)),
            Event::Complete { entity } => self.end_job(entity, true, emit)?,
            Event::Aborted { entity, .. } => self.end_job(entity, false, emit)?,
            Event::Vcpu { entity, .. } => drop(self.known(entity)?),
            Event::Settled
            | Event::GroupCreated { .. }
            | Event::GroupAdjusted { .. }
            | Event::GroupRemoved { .. }
            | Event::Refused(_)
            | Event::Background { .. }
            | Event::Period { .. }
            | Event::Kept { .. }
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

    fn take_input(&mut self, input: Input, emit: &mut Emit<'_>) -> Result<(), String> {
        match input {
            Input::Wake { entity, .. } => self.wake(entity, emit)?,
            Input::Block { cpu } => {
                self.awake(cpu)?;
                let Some(place) = self.seat(cpu)? else {
                    return Err(format!("CPU {cpu} blocks, but no entity runs there"));
                };
                self.unready(place);
            }
            Input::Pause { entity } => {
                let place = self.known_place(entity)?;
                self.unready(place);
            }
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
            // The CPU may be frozen: a policy called on another CPU may shorten the time slice.
            Action::Extend { cpu, .. } => {
                let Some(place) = self.seat(cpu)? else {
                    return Err(format!("CPU {cpu} continues, but no entity runs there"));
                };
                // The entity may have blocked, woken and been picked again at this instant. Its run then continues
                // without a wake-up.
                self.live[place].woken = None;
            }
            Action::Held { entity, reasons } => {
                let place = self.known_place(entity)?;
                self.live[place].held = reasons;
                self.update(place);
            }
            Action::Kick { .. } | Action::SetAlarm { .. } | Action::ClearAlarm { .. } => {}
        }
        Ok(())
    }

    fn wake(&mut self, entity: EntityId, emit: &mut Emit<'_>) -> Result<(), String> {
        let at = self.now;
        let place = self.known_place(entity)?;
        let live = &mut self.live[place];
        if !live.ready {
            live.ready = true;
            live.woken = Some(at);
            emit(Fact::Woken { entity, at });
            self.update(place);
        }
        Ok(())
    }

    fn end_job(&mut self, entity: EntityId, completed: bool, emit: &mut Emit<'_>) -> Result<(), String> {
        let Some((released, deadline)) = self.known(entity)?.jobs.pop_front() else {
            let verb = if completed { "completes" } else { "aborts" };
            return Err(format!("{entity} {verb} a job, but none is released"));
        };
        emit(Fact::Job { entity, job: Job { released, deadline, ended: self.now, completed } });
        Ok(())
    }

    fn known(&mut self, entity: EntityId) -> Result<&mut Live, String> {
        self.known_place(entity).map(|place| &mut self.live[place])
    }

    /// Returns the index in `live` of `entity`, which must be attached.
    fn known_place(&self, entity: EntityId) -> Result<usize, String> {
        let place = self.place(entity).filter(|&place| self.live[place].open.state.is_some());
        place.ok_or_else(|| format!("{entity} is not attached; help: record an `attach` before it"))
    }

    /// Returns the index in `live` of the entity on `cpu`.
    fn seat(&self, cpu: CpuId) -> Result<Option<usize>, String> {
        let cpus = self.seats.len();
        self.seats
            .get(cpu.index())
            .copied()
            .ok_or_else(|| format!("there is no CPU {cpu}; help: use a CPU below {cpus}, the number in the header"))
    }

    /// Returns an error if `cpu` is frozen.
    fn awake(&self, cpu: CpuId) -> Result<(), String> {
        if self.frozen.contains(cpu) {
            return Err(format!("something happens on CPU {cpu}, but it is frozen; help: record a `thaw` before it"));
        }
        Ok(())
    }

    fn freeze(&mut self, cpu: CpuId) -> Result<(), String> {
        let seat = self.seat(cpu)?;
        if !self.frozen.insert(cpu) {
            return Err(format!("CPU {cpu} freezes, but it is frozen; help: record a `thaw` before it"));
        }
        seat.into_iter().for_each(|place| self.update(place));
        Ok(())
    }

    fn thaw(&mut self, cpu: CpuId) -> Result<(), String> {
        let seat = self.seat(cpu)?;
        if !self.frozen.remove(cpu) {
            return Err(format!("CPU {cpu} thaws, but it is not frozen; help: record a `freeze` before it"));
        }
        seat.into_iter().for_each(|place| self.update(place));
        Ok(())
    }

    fn run(&mut self, cpu: CpuId, entity: EntityId) -> Result<(), String> {
        if self.frozen.contains(cpu) {
            return Err(format!("{entity} runs on CPU {cpu}, but it is frozen; help: record a `thaw` before it"));
        }
        if let Some(other) = self.seat(cpu)? {
            let other = self.live[other].entity;
            return Err(format!("{entity} runs on CPU {cpu}, but {other} does; help: record a `stop` before it"));
        }
        let place = self.known_place(entity)?;
        let live = &mut self.live[place];
        if let Some(elsewhere) = live.seat {
            return Err(format!(
                "{entity} runs on CPU {cpu}, but runs on CPU {elsewhere}; help: record a `stop` before it"
            ));
        }
        live.seat = Some(cpu);
        live.ready = true;
        self.seats[cpu.index()] = Some(place);
        self.update(place);
        Ok(())
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId) -> Result<(), String> {
        match self.seat(cpu)? {
            Some(place) if self.live[place].entity == entity => {
                self.awake(cpu)?;
                self.seats[cpu.index()] = None;
                self.live[place].seat = None;
                self.update(place);
                Ok(())
            }
            // If a running entity is detached, its stop follows the detachment.
            None if self.known(entity).is_err() => Ok(()),
            _ => Err(format!("{entity} stops on CPU {cpu}, but does not run there")),
        }
    }

    /// Blocks the entity at `place`: immediately, or at its stop if the entity runs.
    fn unready(&mut self, place: usize) {
        let live = &mut self.live[place];
        live.ready = false;
        live.woken = None;
        self.update(place);
    }

    fn detach(&mut self, entity: EntityId, emit: &mut Emit<'_>) -> Result<(), String> {
        let at = self.now;
        let place = self.known_place(entity)?;
        let live = &mut self.live[place];
        emit(Fact::Detached { entity, at });
        give_up(live, at, emit);
        let seat = live.seat.take();
        live.become_at(at, None);
        if live.touch() {
            self.touched.push(place);
        }
        if let Some(cpu) = seat {
            self.seats[cpu.index()] = None;
        }
        Ok(())
    }

    /// Recomputes the state of the attached entity at `place`.
    fn update(&mut self, place: usize) {
        let live = &mut self.live[place];
        live.become_at(self.now, Some(live.state(&self.frozen)));
        if live.touch() {
            self.touched.push(place);
        }
    }
}

/// Emits the unfinished jobs of an entity at its detachment or at the end of the trace.
fn give_up(live: &mut Live, at: Instant, emit: &mut Emit<'_>) {
    let entity = live.entity;
    for (released, deadline) in live.jobs.drain(..) {
        emit(Fact::Job { entity, job: Job { released, deadline, ended: at, completed: false } });
    }
}

fn emit_span(entity: EntityId, open: Open, to: Instant, emit: &mut Emit<'_>) {
    if let Some(state) = open.state
        && open.from < to
    {
        emit(Fact::Span { entity, span: Span { from: open.from, to, state }, woken: open.woken });
    }
}
