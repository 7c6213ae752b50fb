//! [`Timeline`]: a trace turned into intervals: who ran where, and when each entity waited, was held or was blocked.
//! Every picture is drawn from it.

use crate::follow::{Fact, Follower, Inconsistent};
use crate::{Event, Header, Sink, Trace};
use sched::{CpuId, EntityId, Instant, Nanos, Params};
use std::collections::BTreeMap;

/// What an entity does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It runs on this CPU.
    Running(CpuId),
    /// Its machine, a guest, runs it on this CPU, but that is frozen: it gets nothing.
    Stolen(CpuId),
    /// It could run, and waits for a CPU.
    Waiting,
    /// It could run, and is kept from it, for these reasons ([`sched::Held`] bits, not 0).
    Held(u8),
    /// It waits for something other than a CPU.
    Blocked,
}

/// A state and how long it lasted: from `from` until just before `to`, which is later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// What the entity did.
    pub state: State,
}

/// A time for which one entity had a CPU: from `from` until just before `to`, which is later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// Who ran.
    pub entity: EntityId,
}

/// A piece of work and what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// When it could begin.
    pub released: Instant,
    /// When it should be done.
    pub deadline: Instant,
    /// When it was done, or when it was last seen undone: when its entity left, or the trace ended.
    pub ended: Instant,
    /// Whether it was done.
    pub completed: bool,
}

impl Job {
    /// Whether it was not done by its deadline, as far as the trace tells: a deadline at the end of the trace is not missed.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.ended > self.deadline
    }
}

/// One entity's life.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its id.
    pub entity: EntityId,
    /// What people call it.
    pub name: String,
    /// When it was attached.
    pub attached: Instant,
    /// When it was detached; `None`: it was there to the end.
    pub detached: Option<Instant>,
    /// When it first woke: its arrival, as a scheduler sees it.
    pub arrived: Option<Instant>,
    /// What was asked for it, and from when on. Never empty; in order.
    pub asked: Vec<(Instant, Params)>,
    /// What it did, from attach to detach without a gap; neighbours differ.
    pub spans: Vec<Span>,
    /// Its jobs, in the order of their release.
    pub jobs: Vec<Job>,
}

impl Row {
    /// What was asked for it at `at`, or first, where that is before it was attached.
    #[must_use]
    pub fn asked_at(&self, at: Instant) -> &Params {
        let after = self.asked.partition_point(|(since, _)| *since <= at);
        &self.asked[after.saturating_sub(1)].1
    }

    /// Whether it was there at some time within `from..to`.
    #[must_use]
    pub fn is_in(&self, from: Instant, to: Instant) -> bool {
        self.attached < to && self.detached.is_none_or(|detached| detached > from)
    }

    /// The spans that overlap `from..to`, whole.
    #[must_use]
    pub fn spans_in(&self, from: Instant, to: Instant) -> &[Span] {
        let first = self.spans.partition_point(|span| span.to <= from);
        let after = self.spans.partition_point(|span| span.from < to);
        &self.spans[first..after.max(first)]
    }

    /// How long it ran within `from..to`.
    #[must_use]
    pub fn ran_in(&self, from: Instant, to: Instant) -> Nanos {
        let running = self.spans_in(from, to).iter().filter(|span| matches!(span.state, State::Running(_)));
        running.map(|span| span.to.min(to).since(span.from.max(from))).sum()
    }
}

/// A trace as intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// What is true of all of it.
    pub header: Header,
    /// The instant of the first event; zero if there is none.
    pub from: Instant,
    /// The instant of the last event; zero if there is none.
    pub to: Instant,
    /// Every entity that was ever there, by id.
    pub rows: Vec<Row>,
    /// Who had each CPU, in order, by CPU.
    pub cpus: Vec<Vec<Run>>,
    /// Who had each CPU while it was frozen, and got nothing, in order, by CPU.
    pub stolen: Vec<Vec<Run>>,
}

impl Timeline {
    /// The intervals of a whole trace.
    ///
    /// # Errors
    /// The first event that contradicts those before it.
    pub fn of(trace: &Trace) -> Result<Timeline, Inconsistent> {
        let mut builder = TimelineBuilder::new(&trace.header);
        for (at, event) in &trace.events {
            builder.record(*at, event);
            if builder.error.is_some() {
                break;
            }
        }
        builder.finish()
    }

    /// The row of `entity`, if it was ever there.
    #[must_use]
    pub fn row(&self, entity: EntityId) -> Option<&Row> {
        self.rows.binary_search_by_key(&entity, |row| row.entity).ok().map(|index| &self.rows[index])
    }

    /// The row of the first entity with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Makes a [`Timeline`] from events as they happen, without keeping the events.
#[derive(Debug)]
pub struct TimelineBuilder {
    header: Header,
    follower: Follower,
    facts: Facts,
    from: Option<Instant>,
    error: Option<Inconsistent>,
}

impl TimelineBuilder {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(header: &Header) -> TimelineBuilder {
        let follower = Follower::new(header);
        let facts = Facts {
            rows: BTreeMap::new(),
            cpus: vec![Vec::new(); follower.cpus()],
            stolen: vec![Vec::new(); follower.cpus()],
        };
        TimelineBuilder { header: header.clone(), follower, facts, from: None, error: None }
    }

    /// Everything has happened.
    ///
    /// # Errors
    /// The first event that contradicted those before it.
    pub fn finish(mut self) -> Result<Timeline, Inconsistent> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let facts = &mut self.facts;
        let to = self.follower.finish(&mut |fact| facts.take(&fact));
        let Facts { rows, cpus, stolen } = self.facts;
        let rows = rows.into_values().collect();
        Ok(Timeline { header: self.header, from: self.from.unwrap_or_default(), to, rows, cpus, stolen })
    }

    /// Whether an event has contradicted those before it.
    pub(crate) fn error(&self) -> Option<&Inconsistent> {
        self.error.as_ref()
    }

    /// Whether `entity` is there or was.
    pub(crate) fn knows(&self, entity: EntityId) -> bool {
        self.facts.rows.contains_key(&entity)
    }
}

impl Sink for TimelineBuilder {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.error.is_some() {
            return;
        }
        self.from.get_or_insert(at);
        // Ids are never used again: whoever comes a second time is not who came first.
        if let Event::Attach { entity, .. } = event
            && self.knows(*entity)
        {
            self.error = Some(self.follower.contradiction(at, format!("{entity} has been attached before")));
            return;
        }
        let facts = &mut self.facts;
        self.error = self.follower.observe(at, event, &mut |fact| facts.take(&fact)).err();
    }
}

/// What the follower has told.
#[derive(Debug)]
struct Facts {
    rows: BTreeMap<EntityId, Row>,
    cpus: Vec<Vec<Run>>,
    stolen: Vec<Vec<Run>>,
}

impl Facts {
    fn take(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Attached { entity, at, name, params } => {
                let row = Row {
                    entity,
                    name: name.to_string(),
                    attached: at,
                    detached: None,
                    arrived: None,
                    asked: vec![(at, *params)],
                    spans: Vec::new(),
                    jobs: Vec::new(),
                };
                self.rows.insert(entity, row);
            }
            Fact::Adjusted { entity, at, params } => self.of(entity).asked.push((at, *params)),
            Fact::Detached { entity, at } => self.of(entity).detached = Some(at),
            Fact::Woken { entity, at } => drop(self.of(entity).arrived.get_or_insert(at)),
            Fact::Job { entity, job } => self.of(entity).jobs.push(job),
            Fact::Span { entity, span, .. } => {
                self.of(entity).spans.push(span);
                let run = Run { from: span.from, to: span.to, entity };
                match span.state {
                    State::Running(cpu) => self.cpus[cpu.index()].push(run),
                    State::Stolen(cpu) => self.stolen[cpu.index()].push(run),
                    State::Waiting | State::Held(_) | State::Blocked => {}
                }
            }
        }
    }

    fn of(&mut self, entity: EntityId) -> &mut Row {
        self.rows.get_mut(&entity).expect("whoever is spoken of was attached")
    }
}
