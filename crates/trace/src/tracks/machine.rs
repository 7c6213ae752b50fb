//! [`Tracks`]: converts the facts of one machine to slices, instants, arrows and counters.

use super::{Arg, Counter, Pen, Place, Slice, Track};
use crate::Account;
use crate::follow::Fact;
use crate::span::{Job, Span, State};
use crate::text::Reasons;
use sched::{CpuId, EntityId, Instant, Nanos};
use std::collections::BTreeMap;

/// The numbers of a machine's processes and tracks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Number of the process of the CPUs.
    pub(crate) cpus: u32,
    /// Track number of CPU 0. The tracks of the other CPUs follow.
    pub(crate) first_cpu: u64,
    /// Number of the process of the entities.
    pub(crate) entities: u32,
}

/// An attached entity.
#[derive(Debug)]
struct Shown {
    /// Number of the entity's track.
    track: u64,
    name: String,
    /// Number of the track and last value of each counter.
    counters: BTreeMap<Counter, (u64, i64)>,
}

/// The tracks of one machine.
#[derive(Debug)]
pub(crate) struct Tracks {
    pub(crate) places: Places,
    entities: BTreeMap<EntityId, Shown>,
    /// Detached entities with their track numbers. The last slice of a detached entity is written only when time
    /// advances.
    left: Vec<(EntityId, u64)>,
}

impl Tracks {
    pub(crate) fn new(places: Places) -> Tracks {
        Tracks { places, entities: BTreeMap::new(), left: Vec::new() }
    }

    /// Returns the name of an attached entity.
    pub(crate) fn name(&self, entity: EntityId) -> &str {
        &self.entities[&entity].name
    }

    /// Removes and returns the detached entities. The caller passes these entities to [`forget`](Tracks::forget) once
    /// time has advanced.
    pub(crate) fn leaving(&mut self) -> Vec<(EntityId, u64)> {
        std::mem::take(&mut self.left)
    }

    /// Forgets detached entities. An id that has been attached again keeps its new track.
    pub(crate) fn forget(&mut self, left: &[(EntityId, u64)]) {
        for (entity, track) in left {
            if self.entities.get(entity).is_some_and(|shown| shown.track == *track) {
                self.entities.remove(entity);
            }
        }
    }

    /// Writes a fact.
    pub(crate) fn write<P: Pen>(&mut self, pen: &mut P, fact: &Fact<'_>) {
        match *fact {
            Fact::Attached { entity, name, .. } => {
                let track = pen.next_track();
                let name = if name.is_empty() { entity.to_string() } else { name.to_string() };
                let place = Place { process: self.places.entities, track };
                pen.track(&Track { place, name: &shown_name(&name, entity), rank: track, parent: None });
                self.entities.insert(entity, Shown { track, name, counters: BTreeMap::new() });
            }
            Fact::Detached { entity, .. } => {
                let track = self.entities[&entity].track;
                self.left.push((entity, track));
            }
            Fact::Job { entity, job } => self.job(pen, self.entities[&entity].track, job),
            Fact::Span { entity, span, woken } => self.span(pen, entity, span, woken),
            Fact::Adjusted { .. } | Fact::Woken { .. } => {}
        }
    }

    /// Writes the values of an account that have changed. Ignores an entity that is not attached.
    pub(crate) fn account<P: Pen>(&mut self, pen: &mut P, at: Instant, entity: EntityId, account: &Account) {
        for (counter, value) in [(Counter::Remaining, account.remaining), (Counter::Credit, account.credit)] {
            let (Some(value), Some(shown)) = (value, self.entities.get(&entity)) else { continue };
            if shown.counters.get(&counter).is_none_or(|&(_, last)| last != value) {
                self.count(pen, entity, counter, at, value);
            }
        }
    }

    fn count<P: Pen>(&mut self, pen: &mut P, entity: EntityId, counter: Counter, at: Instant, value: i64) {
        let process = self.places.entities;
        let shown = self.entities.get_mut(&entity).expect("the entity is attached");
        let owner = shown_name(&shown.name, entity);
        let of = Place { process, track: shown.track };
        let (track, last) = shown.counters.entry(counter).or_insert_with(|| (pen.counter(of, &owner, counter), 0));
        *last = value;
        pen.count(Place { process, track: *track }, &owner, counter, at, value);
    }

    fn span<P: Pen>(&mut self, pen: &mut P, entity: EntityId, span: Span, woken: Option<Instant>) {
        let Shown { track, name, .. } = &self.entities[&entity];
        let Places { cpus, first_cpu, entities } = self.places;
        let place = Place { process: entities, track: *track };
        self.state(pen, place, span);
        let seat = |cpu: CpuId| Place { process: cpus, track: first_cpu + cpu.index() as u64 };
        let args = &[("entity", Arg::Text(&entity))];
        match span.state {
            State::Running(cpu) => {
                let woken = woken.map(|woken| (place, woken));
                pen.slice(seat(cpu), &Slice { name, category: "run", colour: None, span, args, woken });
            }
            State::Stolen(cpu) => {
                let colour = Some("thread_state_iowait");
                let slice = Slice { name: "frozen", category: "frozen", colour, span, args, woken: None };
                pen.slice(seat(cpu), &slice);
            }
            State::Waiting | State::Held(_) | State::Blocked => {}
        }
        if let (State::Running(_), Some(woken)) = (span.state, woken) {
            let latency = i64::try_from(span.from.since(woken).as_ns()).unwrap_or(i64::MAX);
            self.count(pen, entity, Counter::Latency, span.from, latency);
        }
    }

    /// Writes the state of an entity on its own track.
    fn state<P: Pen>(&self, pen: &mut P, place: Place, span: Span) {
        let reasons = Reasons(if let State::Held(reasons) = span.state { reasons } else { 0 });
        let on = |cpu: CpuId| vec![("cpu", Arg::Number(cpu.index() as u64))];
        let (name, colour, args) = match span.state {
            State::Running(cpu) => ("running", "thread_state_running", on(cpu)),
            State::Stolen(cpu) => ("stolen", "thread_state_iowait", on(cpu)),
            State::Waiting => ("waiting", "thread_state_runnable", Vec::new()),
            State::Held(_) => ("held", "thread_state_uninterruptible", vec![("reasons", Arg::Text(&reasons))]),
            State::Blocked => ("blocked", "thread_state_sleeping", Vec::new()),
        };
        pen.slice(place, &Slice { name, category: "state", colour: Some(colour), span, args: &args, woken: None });
    }

    fn job<P: Pen>(&self, pen: &mut P, track: u64, job: Job) {
        let Job { released, deadline, ended, completed } = job;
        let place = Place { process: self.places.entities, track };
        pen.instant(place, "release", released, &[("deadline", Arg::Text(&deadline))]);
        if completed {
            let took = ended.saturating_since(released);
            pen.instant(place, "complete", ended, &[("response", Arg::Text(&took))]);
        }
        if job.missed() {
            let late: Nanos = ended.since(deadline);
            let args = &[("late", Arg::Text(&late)), ("completed", Arg::Truth(completed))];
            pen.instant(place, "deadline missed", deadline, args);
        }
    }
}

/// Returns the name of an entity's track.
fn shown_name(name: &str, entity: EntityId) -> String {
    format!("{name} ({entity})")
}
