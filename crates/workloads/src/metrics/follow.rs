//! [`Metrics`]: assigns the events of a machine to its applications.

use super::Metric;
use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use sched::{Action, EntityId, Input, Instant};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use trace::{Event, Sink};

/// The link of each flow that belongs to a measured application, by the number of the flow: the application's name and
/// the number of the link. The code that creates the links adds the entries.
pub type FlowNames = Rc<RefCell<BTreeMap<u32, (String, u32)>>>;

/// Measures the applications of one machine, as a [`Sink`] of its events.
#[derive(Debug, Default)]
pub struct Metrics {
    gauges: Vec<(String, Metric, Box<dyn Gauge>)>,
    /// Index of the gauge of each application, by name.
    places: BTreeMap<String, usize>,
    /// Entity, application and role of each task, by entity index.
    tasks: Vec<Option<(EntityId, usize, String)>>,
    /// Entity that runs on each CPU, by CPU.
    running: Vec<Option<EntityId>>,
    flow_names: FlowNames,
    /// Instant at which the metrics start to count. `None`: the metrics already count.
    from: Option<Instant>,
}

impl Metrics {
    /// Creates the metrics of applications, each with a name that is unique on this machine.
    #[must_use]
    pub fn new<'a>(applications: impl IntoIterator<Item = (&'a str, Metric)>) -> Metrics {
        let mut metrics = Metrics::default();
        for (name, metric) in applications {
            metrics.places.insert(name.to_string(), metrics.gauges.len());
            metrics.gauges.push((name.to_string(), metric, metric.gauge()));
        }
        metrics
    }

    /// Returns metrics that count from `start` on. Earlier events only establish the state at `start`.
    #[must_use]
    pub fn from(self, start: Instant) -> Metrics {
        Metrics { from: Some(start), ..self }
    }

    /// Starts to count, if `now` has reached the start.
    fn begin(&mut self, now: Instant) {
        if let Some(start) = self.from.take_if(|start| *start <= now) {
            self.gauges.iter_mut().for_each(|(_, _, gauge)| gauge.begin(start));
        }
    }

    /// Returns whether no application is measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gauges.is_empty()
    }

    /// Returns the name, metric and reading of each application at the `end` of the run, in the order of creation.
    #[must_use]
    pub fn read(mut self, end: Instant) -> Vec<(String, Metric, Reading)> {
        self.begin(end);
        let read = |(name, metric, gauge): &mut (String, Metric, Box<dyn Gauge>)| {
            (std::mem::take(name), *metric, gauge.read(end))
        };
        self.gauges.iter_mut().map(read).collect()
    }

    /// Returns the table of flows and links, to which the code that creates the links adds entries.
    #[must_use]
    pub fn flow_names(&self) -> FlowNames {
        Rc::clone(&self.flow_names)
    }

    /// Records that a packet of `flow` has arrived or was lost.
    fn packet(&mut self, at: Instant, flow: u32, fact: impl FnOnce(u32) -> Fact) {
        let flow_names = self.flow_names.borrow();
        if let Some((name, link)) = flow_names.get(&flow)
            && let Some(&place) = self.places.get(name)
        {
            self.gauges[place].2.note(at, "", fact(*link));
        }
    }

    fn attach(&mut self, at: Instant, entity: EntityId, name: &str) {
        let (of, role) = name.rsplit_once('/').unwrap_or((name, ""));
        if self.tasks.len() <= entity.index() {
            self.tasks.resize_with(entity.index() + 1, || None);
        }
        self.tasks[entity.index()] = self.places.get(of).map(|&place| (entity, place, role.to_string()));
        self.note(at, entity, Fact::Came);
    }

    fn note(&mut self, at: Instant, entity: EntityId, fact: Fact) {
        if let Some(Some((attached, place, role))) = self.tasks.get(entity.index())
            && *attached == entity
        {
            self.gauges[*place].2.note(at, role, fact);
        }
    }
}

impl Sink for Metrics {
    fn record(&mut self, at: Instant, event: &Event) {
        self.begin(at);
        match *event {
            Event::Attach { entity, ref name, .. } => self.attach(at, entity, name),
            Event::Detach { entity } => {
                self.note(at, entity, Fact::Left);
                if let Some(task) = self.tasks.get_mut(entity.index()) {
                    *task = None;
                }
            }
            Event::Action(Action::Run { cpu, entity, .. }) => {
                if self.running.len() <= cpu.index() {
                    self.running.resize(cpu.index() + 1, None);
                }
                self.running[cpu.index()] = Some(entity);
            }
            Event::Input(Input::Block { cpu }) => {
                if let Some(&Some(entity)) = self.running.get(cpu.index()) {
                    self.note(at, entity, Fact::Asleep);
                }
            }
            Event::Input(Input::Wake { entity, .. }) => self.note(at, entity, Fact::Awake),
            Event::Release { entity, .. } => self.note(at, entity, Fact::Begins),
            Event::Complete { entity } => self.note(at, entity, Fact::Done),
            Event::Woke { entity, late } => self.note(at, entity, Fact::Late(late)),
            Event::Arrived { flow, took, .. } => self.packet(at, flow, |link| Fact::Arrived { link, took }),
            Event::Lost { flow, .. } => self.packet(at, flow, |link| Fact::Lost { link }),
            Event::Skipped { entity, beats } => self.note(at, entity, Fact::LeftOut(beats)),
            _ => {}
        }
    }
}
