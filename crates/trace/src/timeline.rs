//! [`Timeline`]: a trace as intervals in which each entity ran, waited, was held, was blocked, or occupied a frozen
//! CPU. Pictures show timelines.

use crate::event::{Event, Header, Sink, Trace};
use crate::follow::{Fact, Follower, Inconsistent};
pub use crate::span::{Job, Span, State};
use rustc_hash::FxHashMap;
use sched::{EntityId, Instant, Nanos, Params};

/// An interval in which an entity had a CPU, frozen or not, from `from` (inclusive) to `to` (exclusive). `to` is later
/// than `from`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Start of the interval.
    pub from: Instant,
    /// End of the interval.
    pub to: Instant,
    /// The entity that had the CPU.
    pub entity: EntityId,
}

/// The states of one entity, from its attachment to its detachment.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Id of the entity.
    pub entity: EntityId,
    /// Name of the entity.
    pub name: String,
    /// Instant at which the entity was attached.
    pub attached: Instant,
    /// Instant at which the entity was detached. `None`: the entity was still attached at the end of the trace.
    pub detached: Option<Instant>,
    /// Instant of the entity's first wake-up. A scheduler regards this wake-up as the arrival of the entity.
    pub arrived: Option<Instant>,
    /// Successive parameters of the entity, each set with the instant from which it applied. Never empty.
    pub asked: Vec<(Instant, Params)>,
    /// States of the entity from its attachment to its detachment, without a gap. Adjacent spans have different states.
    pub spans: Vec<Span>,
    /// Jobs of the entity, in the order of their release.
    pub jobs: Vec<Job>,
}

impl Row {
    /// Returns the parameters of the entity at `at`. For an instant before the attachment, returns the first
    /// parameters.
    #[must_use]
    pub fn asked_at(&self, at: Instant) -> &Params {
        let after = self.asked.partition_point(|(since, _)| *since <= at);
        &self.asked[after.saturating_sub(1)].1
    }

    /// Returns whether the entity was attached at any time within `from..to`.
    #[must_use]
    pub fn is_in(&self, from: Instant, to: Instant) -> bool {
        self.attached < to && self.detached.is_none_or(|detached| detached > from)
    }

    /// Returns the spans that overlap `from..to`. The spans are not clipped to this interval.
    #[must_use]
    pub fn spans_in(&self, from: Instant, to: Instant) -> &[Span] {
        let first = self.spans.partition_point(|span| span.to <= from);
        let after = self.spans.partition_point(|span| span.from < to);
        &self.spans[first..after.max(first)]
    }

    /// Returns the time for which the entity ran within `from..to`.
    #[must_use]
    pub fn ran_in(&self, from: Instant, to: Instant) -> Nanos {
        let running = self.spans_in(from, to).iter().filter(|span| matches!(span.state, State::Running(_)));
        running.map(|span| span.to.min(to).since(span.from.max(from))).sum()
    }
}

/// A trace as intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// Header of the trace.
    pub header: Header,
    /// Instant of the first event. Zero if there is no event.
    pub from: Instant,
    /// Instant of the last event. Zero if there is no event.
    pub to: Instant,
    /// Rows of all entities that were ever attached, in order of their ids.
    pub rows: Vec<Row>,
    /// Runs on each CPU in order of time, indexed by CPU.
    pub cpus: Vec<Vec<Run>>,
    /// Intervals in which an entity had a frozen CPU and made no progress, in order of time, indexed by CPU.
    pub stolen: Vec<Vec<Run>>,
}

impl Timeline {
    /// Returns the timeline of a whole trace.
    ///
    /// # Errors
    /// The error of the first event that contradicts earlier events.
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

    /// Returns the row of `entity`. `None`: `entity` was never attached.
    #[must_use]
    pub fn row(&self, entity: EntityId) -> Option<&Row> {
        self.rows.binary_search_by_key(&entity, |row| row.entity).ok().map(|index| &self.rows[index])
    }

    /// Returns the row of the first entity, by id, with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Builds a [`Timeline`] from events as they arrive, without storing the events.
#[derive(Debug)]
pub struct TimelineBuilder {
    header: Header,
    follower: Follower,
    facts: Facts,
    from: Option<Instant>,
    error: Option<Inconsistent>,
}

impl TimelineBuilder {
    /// Creates a builder that has not received any event.
    #[must_use]
    pub fn new(header: &Header) -> TimelineBuilder {
        let follower = Follower::new(header);
        let facts = Facts {
            rows: Vec::new(),
            places: FxHashMap::default(),
            last: Vec::new(),
            cpus: vec![Vec::new(); follower.cpus()],
            stolen: vec![Vec::new(); follower.cpus()],
        };
        TimelineBuilder { header: header.clone(), follower, facts, from: None, error: None }
    }

    /// Ends the trace and returns the timeline.
    ///
    /// # Errors
    /// The error of the first event that contradicted earlier events.
    pub fn finish(mut self) -> Result<Timeline, Inconsistent> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let facts = &mut self.facts;
        let to = self.follower.finish(&mut |fact| facts.take(&fact));
        let Facts { mut rows, cpus, stolen, .. } = self.facts;
        rows.sort_unstable_by_key(|row| row.entity);
        Ok(Timeline { header: self.header, from: self.from.unwrap_or_default(), to, rows, cpus, stolen })
    }

    /// Returns the error of the first contradiction.
    pub(crate) fn error(&self) -> Option<&Inconsistent> {
        self.error.as_ref()
    }

    /// Returns whether `entity` was ever attached.
    pub(crate) fn knows(&self, entity: EntityId) -> bool {
        self.facts.places.contains_key(&entity)
    }
}

impl Sink for TimelineBuilder {
    #[inline]
    fn record(&mut self, at: Instant, event: &Event) {
        if self.error.is_some() {
            return;
        }
        self.from.get_or_insert(at);
        // Each entity has an id of its own, so an id must not be attached twice.
        if let Event::Attach { entity, .. } = event
            && self.knows(*entity)
        {
            self.error = Some(self.follower.contradiction(at, format!("{entity} has been attached before")));
            return;
        }
        let facts = &mut self.facts;
        if let Err(error) = self.follower.observe(at, event, &mut |fact| facts.take(&fact)) {
            self.error = Some(error);
        }
    }
}

/// The contents of the timeline, from the facts so far.
#[derive(Debug)]
struct Facts {
    /// Rows in the order in which the entities were attached.
    rows: Vec<Row>,
    /// Index in `rows` of each entity.
    places: FxHashMap<EntityId, usize>,
    /// For each entity index, the index in `rows` of the last attached entity with this entity index. Most facts are
    /// about these entities.
    last: Vec<usize>,
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
                self.attach(row);
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

    fn attach(&mut self, row: Row) {
        let (entity, place) = (row.entity, self.rows.len());
        self.places.insert(entity, place);
        if self.last.len() <= entity.index() {
            self.last.resize(entity.index() + 1, place);
        }
        self.last[entity.index()] = place;
        self.rows.push(row);
    }

    #[inline]
    fn of(&mut self, entity: EntityId) -> &mut Row {
        let last = self.last[entity.index()];
        let place = if self.rows[last].entity == entity { last } else { self.earlier(entity) };
        &mut self.rows[place]
    }

    /// Returns the index in `rows` of a detached entity whose entity index was reused at the instant of the detachment.
    #[cold]
    fn earlier(&self, entity: EntityId) -> usize {
        self.places[&entity]
    }
}
