//! [`Timeline`]: a trace as intervals: when each entity ran, waited, was held or was blocked. Pictures are drawn from it.

use crate::event::{Event, Header, Sink, Trace};
use crate::follow::{Fact, Follower, Inconsistent};
pub use crate::span::{Job, Span, State};
use rustc_hash::FxHashMap;
use sched::{EntityId, Instant, Nanos, Params};

/// An interval in which one entity had a CPU: from `from` up to but without `to`, which is later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// The entity that ran.
    pub entity: EntityId,
}

/// One entity, from attach to detach.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its id.
    pub entity: EntityId,
    /// Its name.
    pub name: String,
    /// When it was attached.
    pub attached: Instant,
    /// When it was detached. `None`: not before the end.
    pub detached: Option<Instant>,
    /// When it first woke: its arrival for a scheduler.
    pub arrived: Option<Instant>,
    /// Its parameters, each with the instant from which it held. Never empty; in order.
    pub asked: Vec<(Instant, Params)>,
    /// Its states from attach to detach, without a gap; neighbours differ.
    pub spans: Vec<Span>,
    /// Its jobs, in the order of their release.
    pub jobs: Vec<Job>,
}

impl Row {
    /// Its parameters at `at`; its first ones before it was attached.
    #[must_use]
    pub fn asked_at(&self, at: Instant) -> &Params {
        let after = self.asked.partition_point(|(since, _)| *since <= at);
        &self.asked[after.saturating_sub(1)].1
    }

    /// Whether it was attached at some time within `from..to`.
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

    /// The time it ran within `from..to`.
    #[must_use]
    pub fn ran_in(&self, from: Instant, to: Instant) -> Nanos {
        let running = self.spans_in(from, to).iter().filter(|span| matches!(span.state, State::Running(_)));
        running.map(|span| span.to.min(to).since(span.from.max(from))).sum()
    }
}

/// A trace as intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// The header.
    pub header: Header,
    /// The instant of the first event; zero if there is none.
    pub from: Instant,
    /// The instant of the last event; zero if there is none.
    pub to: Instant,
    /// Every entity that was ever attached, by id.
    pub rows: Vec<Row>,
    /// The runs on each CPU, in order, by CPU.
    pub cpus: Vec<Vec<Run>>,
    /// The intervals in which an entity had a frozen CPU and made no progress, in order, by CPU.
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

    /// The row of `entity`. `None`: it was never attached.
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

/// Builds a [`Timeline`] from events as they happen, without keeping them.
#[derive(Debug)]
pub struct TimelineBuilder {
    header: Header,
    follower: Follower,
    facts: Facts,
    from: Option<Instant>,
    error: Option<Inconsistent>,
}

impl TimelineBuilder {
    /// A builder before the first event.
    #[must_use]
    pub fn new(header: &Header) -> TimelineBuilder {
        let follower = Follower::new(header);
        let facts = Facts {
            rows: FxHashMap::default(),
            cpus: vec![Vec::new(); follower.cpus()],
            stolen: vec![Vec::new(); follower.cpus()],
        };
        TimelineBuilder { header: header.clone(), follower, facts, from: None, error: None }
    }

    /// Ends the trace.
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
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_unstable_by_key(|row| row.entity);
        Ok(Timeline { header: self.header, from: self.from.unwrap_or_default(), to, rows, cpus, stolen })
    }

    /// The first contradiction.
    pub(crate) fn error(&self) -> Option<&Inconsistent> {
        self.error.as_ref()
    }

    /// Whether `entity` was ever attached.
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
        // Ids are unique: a second attach of one id is another entity.
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

/// The facts so far.
#[derive(Debug)]
struct Facts {
    rows: FxHashMap<EntityId, Row>,
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
        self.rows.get_mut(&entity).expect("a fact is about an attached entity")
    }
}
