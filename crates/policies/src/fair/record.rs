//! A record of a run, read from the trace alone: the runs of entities, and the idle times of CPUs while tasks waited.

use super::quota::SLACK;
use sched::{Action, Alarm, AlarmOwner, CpuId, EntityId, Input, Instant, Nanos, Params};
use std::cell::RefCell;
use std::rc::Rc;
use trace::{Event, Sink};

/// An entity's run on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) cpu: CpuId,
    pub(crate) entity: EntityId,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

#[derive(Clone, Copy)]
struct Known {
    id: EntityId,
    params: Params,
    /// Whether the entity is waiting or running.
    runnable: bool,
    held: bool,
    ran: Nanos,
    /// Instant from which the entity has waited.
    waits_since: Option<Instant>,
}

pub(crate) struct Record {
    now: Instant,
    running: Vec<Option<(EntityId, Instant)>>,
    known: Vec<Option<Known>>,
    /// Instant from which each CPU has idled while an entity that may run there waited.
    idle_since: Vec<Option<Instant>>,
    /// Longest idle time of a CPU while an entity that may run there waited.
    pub(crate) longest_idle: Nanos,
    /// Longest wait of an entity. A hold ends a wait, and a new wait begins after the hold.
    pub(crate) longest_wait: Nanos,
    pub(crate) turns: Vec<Turn>,
    /// Number of alarms that fired.
    pub(crate) alarms: u64,
    /// Number of slack timers that fired.
    pub(crate) slack_alarms: u64,
}

pub(crate) struct Recorder(pub(crate) Rc<RefCell<Record>>);

impl Sink for Recorder {
    fn record(&mut self, at: Instant, event: &Event) {
        self.0.borrow_mut().note(at, event);
    }
}

impl Record {
    pub(crate) fn new(cpus: usize) -> Record {
        Record {
            now: Instant::ZERO,
            running: vec![None; cpus],
            known: Vec::new(),
            idle_since: vec![None; cpus],
            longest_idle: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
            turns: Vec::new(),
            alarms: 0,
            slack_alarms: 0,
        }
    }

    pub(crate) fn ran(&self, e: EntityId, now: Instant) -> Nanos {
        let turn = self.running.iter().flatten().find(|(id, _)| *id == e);
        let open = turn.map_or(Nanos::ZERO, |&(_, since)| now.since(since));
        self.known[e.index()].expect("attached").ran + open
    }

    fn of(&mut self, e: EntityId) -> &mut Known {
        self.known[e.index()].as_mut().filter(|known| known.id == e).expect("attached")
    }

    fn note(&mut self, at: Instant, event: &Event) {
        if at > self.now {
            self.close_instant(at);
        }
        match *event {
            Event::Attach { entity, ref params, .. } => {
                if self.known.len() <= entity.index() {
                    self.known.resize(entity.index() + 1, None);
                }
                let new = Known {
                    id: entity,
                    params: **params,
                    runnable: false,
                    held: false,
                    ran: Nanos::ZERO,
                    waits_since: None,
                };
                self.known[entity.index()] = Some(new);
            }
            Event::Adjust { entity, ref params } => self.of(entity).params = **params,
            Event::Detach { entity } | Event::Input(Input::Pause { entity }) => self.of(entity).runnable = false,
            Event::Input(Input::Wake { entity, .. }) => self.of(entity).runnable = true,
            Event::Input(Input::Block { cpu }) => {
                let (entity, _) = self.running[cpu.index()].expect("an entity runs there");
                self.of(entity).runnable = false;
            }
            Event::Action(Action::Held { entity, reasons }) => self.of(entity).held = reasons != 0,
            Event::Action(Action::Stop { cpu, entity }) => self.stop(at, cpu, entity),
            Event::Action(Action::Run { cpu, entity, .. }) => {
                self.running[cpu.index()] = Some((entity, at));
                self.of(entity).waits_since = None;
            }
            Event::Input(Input::Alarm { alarm }) => {
                self.alarms += 1;
                self.slack_alarms += u64::from(matches!(alarm, Alarm { owner: AlarmOwner::Group(_), slot: SLACK }));
            }
            _ => {}
        }
    }

    fn stop(&mut self, at: Instant, cpu: CpuId, entity: EntityId) {
        let (id, from) = self.running[cpu.index()].take().expect("an entity runs there");
        assert_eq!(id, entity);
        // By now, a different entity may have the index of `entity`.
        if let Some(known) = self.known[entity.index()].as_mut().filter(|known| known.id == entity) {
            known.ran += at.since(from);
        }
        self.turns.push(Turn { cpu, entity, from, to: at });
    }

    /// Accounts for the time from the last instant to `at`. The state has not changed in this time.
    fn close_instant(&mut self, at: Instant) {
        let runs = |e: EntityId| self.running.iter().flatten().any(|&(id, _)| id == e);
        let waiting: Vec<Known> =
            self.known.iter().flatten().filter(|k| k.runnable && !k.held && !runs(k.id)).copied().collect();
        for cpu in 0..self.running.len() {
            let work = waiting.iter().any(|known| known.params.affinity.contains(CpuId::new(cpu)));
            if self.running[cpu].is_some() || !work {
                self.idle_since[cpu] = None;
                continue;
            }
            let since = *self.idle_since[cpu].get_or_insert(self.now);
            self.longest_idle = self.longest_idle.max(at.since(since));
        }
        for known in &waiting {
            let now = self.now;
            let since = *self.of(known.id).waits_since.get_or_insert(now);
            self.longest_wait = self.longest_wait.max(at.since(since));
        }
        for known in self.known.iter_mut().flatten().filter(|known| !known.runnable || known.held) {
            known.waits_since = None;
        }
        self.now = at;
    }
}
