//! Conversion of a live run to the events of a simulated run. The events come from the records of the daemon and from
//! the job reports of the workers.

use sched::{Action, EntityId, Instant, Nanos, Params, Reservation};
use std::collections::BTreeMap;
use trace::{Event, Job};

/// Returns the events of a client without a promise, which no machine schedules. The client arrived at `came` and
/// received `cpu_time` until `end`. `entity` must not be the id of another client. All instants must come from the
/// clock of the other events.
#[must_use]
pub fn left_to_kernel(
    entity: EntityId,
    name: &str,
    params: &Params,
    (came, end): (Instant, Instant),
    cpu_time: Nanos,
) -> [(Instant, Event); 2] {
    let attach = Event::Attach { entity, name: name.to_string(), params: Box::new(*params) };
    [(came, attach), (end, Event::Background { entity, time: cpu_time })]
}

/// The interval during which an entity was attached.
#[derive(Clone, Copy)]
struct Stay {
    came: Instant,
    left: Instant,
}

/// Returns the events of a run from `start` to `end`, in order of time. They are the events `seen`, and the releases,
/// starts and completions of the jobs in `reported`. Times in the result are relative to `start`. Events before `start`
/// move to `start`, and events after `end` are dropped. Likewise, job events before the attachment of their entity move
/// to the attachment, and job events after the detachment are dropped. The last event is [`Event::End`].
///
/// At one instant, the events of `seen` precede the job events.
#[must_use]
pub fn merged(
    seen: impl IntoIterator<Item = (Instant, Event)>,
    reported: &[(EntityId, Vec<Job>)],
    start: Instant,
    end: Instant,
) -> Vec<(Instant, Event)> {
    let mut all: Vec<(Instant, Event)> = seen
        .into_iter()
        .filter(|(at, event)| *at <= end && *event != Event::End)
        .map(|(at, event)| (at.max(start), event))
        .collect();
    let mut stays: BTreeMap<EntityId, Stay> = BTreeMap::new();
    for (at, event) in &all {
        match event {
            Event::Attach { entity, .. } => drop(stays.insert(*entity, Stay { came: *at, left: end })),
            Event::Detach { entity } => drop(stays.get_mut(entity).map(|stay| stay.left = *at)),
            _ => {}
        }
    }
    for (entity, jobs) in reported {
        if let Some(stay) = stays.get(entity) {
            jobs.iter().for_each(|job| tell(*entity, job, *stay, &mut all));
        }
    }
    // The sort keeps the order of events at the same instant.
    all.sort_by_key(|&(at, _)| at);
    all.push((end, Event::End));
    let from = |at: Instant| Instant::ZERO + at.saturating_since(start);
    all.into_iter().map(|(at, event)| (from(at), relative(event, start))).collect()
}

/// Returns the event with its instants relative to `start`. Instants before `start` move to `start`.
#[must_use]
pub fn relative(event: Event, start: Instant) -> Event {
    match event {
        Event::Action(Action::Run { cpu, entity, until }) => {
            Event::Action(Action::Run { cpu, entity, until: moment(until, start) })
        }
        Event::Action(Action::Extend { cpu, until }) => {
            Event::Action(Action::Extend { cpu, until: moment(until, start) })
        }
        Event::Action(Action::SetAlarm { alarm, on, at }) => {
            Event::Action(Action::SetAlarm { alarm, on, at: moment(at, start) })
        }
        Event::Release { entity, deadline } => Event::Release { entity, deadline: moment(deadline, start) },
        Event::Attach { entity, name, params } => Event::Attach { entity, name, params: moved_params(params, start) },
        Event::Adjust { entity, params } => Event::Adjust { entity, params: moved_params(params, start) },
        other => other,
    }
}

/// Returns `at` relative to `start`.
fn moment(at: Instant, start: Instant) -> Instant {
    if at == Instant::NEVER { at } else { Instant::ZERO + at.saturating_since(start) }
}

/// Returns `params` with the start of the reservation relative to `start`. If the reservation starts earlier, its first
/// period in the run is its start, so that its periods stay in phase.
fn moved_params(mut params: Box<sched::Params>, start: Instant) -> Box<sched::Params> {
    if let Some(Reservation { start: Some(at), period, .. }) = &mut params.reservation {
        let passed = start.saturating_since(*at).as_ns().div_ceil(period.as_ns().max(1));
        *at = moment(at.saturating_add(period.saturating_mul(passed)), start);
    }
    params
}

/// Adds the events of `job`.
fn tell(entity: EntityId, job: &Job, stay: Stay, to: &mut Vec<(Instant, Event)>) {
    if job.released >= stay.left {
        return;
    }
    to.push((job.released.max(stay.came), Event::Release { entity, deadline: job.deadline }));
    let in_time = |at: &Instant| *at <= stay.left;
    if let Some(woke) = job.woke.filter(in_time) {
        to.push((woke.max(stay.came), Event::Woke { entity, late: woke.saturating_since(job.released) }));
    }
    if let Some(done) = job.done.filter(in_time) {
        to.push((done.max(stay.came), Event::Complete { entity }));
    }
}
