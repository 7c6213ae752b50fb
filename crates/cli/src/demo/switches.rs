//! The schedule of a demo run from the kernel's records of context switches. These records exist under any scheduler,
//! so both runs are comparable.

use crate::run::plan::Plan;
use crate::run::play::Played;
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Params, Wake};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use sys::attributes::{self, Attributes};
use sys::switches::{Record, Switch, Switches, Turn};
use sys::{affinity, clock, thread};
use trace::Event;

/// Interval between reads of the kernel's records. The buffer of records takes longer than this to fill.
const READ: Nanos = Nanos::ms(5);
/// Maximum number of stored switches.
const MOST: usize = 2_000_000;
/// Pause between two runs in one trace.
const PAUSE: Nanos = Nanos::ms(100);
/// First entity number for processes of the second run, in a trace of both runs.
const SECOND: u32 = 1_000;

/// Recorder of the context switches of all CPUs.
pub(super) struct Watcher {
    over: Arc<AtomicBool>,
    /// Thread that reads the records. `None`: the host does not report switches.
    reader: Option<JoinHandle<Vec<Switch>>>,
}

impl Watcher {
    pub(super) fn begin() -> Watcher {
        let over = Arc::new(AtomicBool::new(false));
        let cpus = affinity::get(thread::current()).ok();
        let watched = cpus.map(|cpus| cpus.iter().map(Switches::on_cpu).collect::<sys::Result<Vec<Switches>>>());
        let Some(Ok(mut watched)) = watched else { return Watcher { over, reader: None } };
        let until = Arc::clone(&over);
        let read = move || {
            // At this real-time priority, ordinary processes of the demo do not delay the reads. The reads take little
            // CPU time.
            let _ = attributes::apply(thread::current(), Attributes::raised(1));
            let mut all = Vec::new();
            while !until.load(Ordering::Relaxed) {
                clock::sleep(READ);
                for switches in &mut watched {
                    while let Some(record) = switches.next_record() {
                        match record {
                            Record::Switch(switch) if all.len() < MOST => all.push(switch),
                            Record::Switch(_) | Record::Lost(_) => {}
                        }
                    }
                }
            }
            all
        };
        let reader = std::thread::Builder::new().name("tactus-switches".to_string()).spawn(read).ok();
        Watcher { over, reader }
    }

    /// Returns the recorded switches, in order; `None` where the host does not report switches.
    pub(super) fn end(self) -> Option<Vec<Switch>> {
        self.over.store(true, Ordering::Relaxed);
        let mut all = self.reader?.join().ok()?;
        all.sort_by_key(|switch| switch.at);
        Some(all)
    }
}

/// State of one process during the conversion of switches.
#[derive(Clone, Copy)]
struct State {
    entity: EntityId,
    runnable: bool,
    on: Option<CpuId>,
}

/// Returns the events of the run: context switches from the kernel's records, and jobs as reported by workers and guests.
/// `thread` returns the thread that is drawn for a process.
pub(super) fn events(
    plan: &Plan,
    played: &Played,
    switches: &[Switch],
    thread: impl Fn(u32) -> u32,
) -> Vec<(Instant, Event)> {
    let end = Instant::ZERO + played.length;
    let mut all = Vec::with_capacity(switches.len() + 64);
    let mut states: BTreeMap<u32, State> = BTreeMap::new();
    let mut entities: BTreeMap<EntityId, EntityId> = BTreeMap::new();
    for (index, (planned, came)) in plan.processes.iter().zip(&played.ends).enumerate() {
        let entity = EntityId::new(u32::try_from(index).expect("processes are few"), 0);
        let params =
            Params { reservation: planned.request.as_ref().map(|request| request.reservation), ..Params::default() };
        all.push((Instant::ZERO, Event::Attach { entity, name: planned.name.clone(), params: Box::new(params) }));
        states.insert(thread(came.pid), State { entity, runnable: false, on: None });
        entities.extend(came.entities.iter().map(|&theirs| (theirs, entity)));
    }
    let mut seats: BTreeMap<CpuId, u32> = BTreeMap::new();
    for switch in switches {
        let at = Instant::ZERO + switch.at.saturating_since(played.start);
        if switch.at >= played.start && at < end {
            step(switch, at, &mut states, &mut seats, &mut all);
        }
    }
    let of_jobs = played.events.iter().filter_map(|(at, event)| {
        let entity = |theirs: &EntityId| entities.get(theirs).copied();
        Some((
            *at,
            match event {
                Event::Release { entity: e, deadline } => Event::Release { entity: entity(e)?, deadline: *deadline },
                Event::Complete { entity: e } => Event::Complete { entity: entity(e)? },
                Event::Woke { entity: e, late } => Event::Woke { entity: entity(e)?, late: *late },
                Event::Background { .. } | Event::Input(Input::Ran { .. }) => return None,
                _ => return None,
            },
        ))
    });
    all.extend(of_jobs);
    all.sort_by_key(|&(at, _)| at);
    all.push((end, Event::End));
    all
}

/// Converts one switch of a process of the demo. Ignores other switches.
fn step(
    switch: &Switch,
    at: Instant,
    states: &mut BTreeMap<u32, State>,
    seats: &mut BTreeMap<CpuId, u32>,
    all: &mut Vec<(Instant, Event)>,
) {
    let Some(state) = states.get_mut(&switch.tid) else { return };
    let (entity, cpu) = (state.entity, switch.cpu);
    match switch.turn {
        Turn::In if state.on.is_none() && !seats.contains_key(&cpu) => {
            if !std::mem::replace(&mut state.runnable, true) {
                all.push((at, Event::Input(Input::Wake { entity, why: Wake::Resumed })));
            }
            all.push((at, Event::Action(Action::Run { cpu, entity, until: Instant::NEVER })));
            state.on = Some(cpu);
            seats.insert(cpu, switch.tid);
        }
        Turn::Blocked | Turn::Preempted if state.on == Some(cpu) => {
            if switch.turn == Turn::Blocked {
                state.runnable = false;
                all.push((at, Event::Input(Input::Block { cpu })));
            }
            all.push((at, Event::Action(Action::Stop { cpu, entity })));
            state.on = None;
            seats.remove(&cpu);
        }
        // The records start while processes already run, so a switch may not match the known state of its process.
        _ => {}
    }
}

/// Joins both runs in one trace: the second run follows the first after a pause.
pub(super) fn chained(first: &[(Instant, Event)], second: &[(Instant, Event)]) -> Vec<(Instant, Event)> {
    let over = first.last().map_or(Instant::ZERO, |(at, _)| *at);
    let mut all: Vec<(Instant, Event)> = first.iter().filter(|(_, event)| *event != Event::End).cloned().collect();
    let attached = first.iter().filter_map(|(_, event)| match event {
        Event::Attach { entity, .. } => Some(*entity),
        _ => None,
    });
    all.extend(attached.collect::<Vec<_>>().into_iter().map(|entity| (over, Event::Detach { entity })));
    let begun = over.saturating_add(PAUSE);
    let later = |at: Instant| if at == Instant::NEVER { at } else { begun.saturating_add(at.since(Instant::ZERO)) };
    let theirs = |entity: EntityId| EntityId::new(SECOND + u32::try_from(entity.index()).unwrap_or(0), 0);
    all.extend(second.iter().map(|(at, event)| (later(*at), renamed(event, &theirs, &later))));
    all
}

/// Returns `event` with its entity mapped by `of` and its instants mapped by `at`. The name of an attached entity
/// receives the suffix ` (promised)`.
fn renamed(event: &Event, of: &impl Fn(EntityId) -> EntityId, at: &impl Fn(Instant) -> Instant) -> Event {
    match event.clone() {
        Event::Attach { entity, name, params } => {
            Event::Attach { entity: of(entity), name: name + " (promised)", params }
        }
        Event::Input(Input::Wake { entity, why }) => Event::Input(Input::Wake { entity: of(entity), why }),
        Event::Action(Action::Run { cpu, entity, until }) => {
            Event::Action(Action::Run { cpu, entity: of(entity), until: at(until) })
        }
        Event::Action(Action::Stop { cpu, entity }) => Event::Action(Action::Stop { cpu, entity: of(entity) }),
        Event::Release { entity, deadline } => Event::Release { entity: of(entity), deadline: at(deadline) },
        Event::Complete { entity } => Event::Complete { entity: of(entity) },
        Event::Woke { entity, late } => Event::Woke { entity: of(entity), late },
        Event::Detach { entity } => Event::Detach { entity: of(entity) },
        other => other,
    }
}
