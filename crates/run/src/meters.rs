//! [`Meters`]: all measurements of a run on one machine, in a single sink.

use crate::readings::{measured, measured_outside};
use crate::samples::Sampler;
use measure::{Meter, Siblings};
use scenario::{GuestSpec, Scenario};
use sched::Instant;
use std::cell::RefCell;
use std::rc::Rc;
use trace::{Event, Sink};
use workloads::metrics::{FlowNames, Metrics};

/// All measurements of a run on one machine. A single sink receives all events, so that an event costs one dynamic
/// call.
#[derive(Debug)]
pub(crate) struct Meters {
    /// Measurements of each entity.
    pub(crate) meter: Meter,
    /// Metrics of applications, if any.
    pub(crate) metrics: Option<Metrics>,
    /// Sibling delays, if the scenario has gangs.
    pub(crate) siblings: Option<Siblings>,
    /// CPU time per interval, if the scenario requests samples.
    pub(crate) sampler: Option<Sampler>,
}

/// Meters that are a sink of a world during the run, and are read after the run.
type SharedMeters = Rc<RefCell<Meters>>;

/// The meters of all machines. The default measures nothing.
#[derive(Debug, Default)]
pub(crate) struct AllMeters {
    /// Meters of the hosts, by host.
    pub(crate) hosts: Vec<SharedMeters>,
    /// Meters of the guests, by guest.
    pub(crate) guests: Vec<SharedMeters>,
    /// Metrics of the applications that are measured outside, if any.
    pub(crate) outside: Option<Rc<RefCell<Metrics>>>,
    pub(crate) flow_owners: FlowOwners,
}

/// The application and link of each flow, for the metrics of applications on each host and in each guest.
#[derive(Debug, Default)]
pub(crate) struct FlowOwners {
    pub(crate) hosts: Vec<FlowNames>,
    pub(crate) guests: Vec<FlowNames>,
}

impl AllMeters {
    /// Creates the meters of `scenario`. The meters measure from the end of the warm-up.
    pub(crate) fn of(scenario: &Scenario) -> AllMeters {
        let from = scenario.measured_from();
        let on = |host| measured(scenario.applications.iter().filter(move |it| it.host == host)).from(from);
        let within = |guest: &GuestSpec| measured(guest.applications.iter()).from(from);
        let (hosts, guests) = ((0..scenario.hosts).map(on), scenario.guests.iter().map(within));
        let (hosts, guests): (Vec<Metrics>, Vec<Metrics>) = (hosts.collect(), guests.collect());
        let flow_owners = FlowOwners {
            hosts: hosts.iter().map(Metrics::flow_names).collect(),
            guests: guests.iter().map(Metrics::flow_names).collect(),
        };
        let has_gangs = scenario.groups.iter().any(|group| group.params.gang);
        let of_host = |metrics| Meters {
            siblings: has_gangs.then(|| Siblings::from(from)),
            sampler: scenario.samples.map(Sampler::new),
            ..Meters::new(from, metrics)
        };
        let outside = measured_outside(scenario).from(from);
        AllMeters {
            hosts: hosts.into_iter().map(|metrics| of_host(metrics).shared()).collect(),
            guests: guests.into_iter().map(|metrics| Meters::new(from, metrics).shared()).collect(),
            outside: (!outside.is_empty()).then(|| Rc::new(RefCell::new(outside))),
            flow_owners,
        }
    }
}

impl Meters {
    /// Creates meters of entities and applications that measure from `from` on.
    fn new(from: Instant, metrics: Metrics) -> Meters {
        let metrics = (!metrics.is_empty()).then_some(metrics);
        Meters { meter: Meter::from(from), metrics, siblings: None, sampler: None }
    }

    fn shared(self) -> SharedMeters {
        Rc::new(RefCell::new(self))
    }
}

/// Returns the content of `shared`. The world that shared it must have been dropped.
pub(crate) fn unshare<T>(shared: Rc<RefCell<T>>) -> T {
    Rc::into_inner(shared).expect("the world, which shared it, is gone").into_inner()
}

impl Sink for Meters {
    #[inline]
    fn record(&mut self, at: Instant, event: &Event) {
        if !self.meter.take(at, event) {
            return;
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.record(at, event);
        }
        if let Some(siblings) = &mut self.siblings {
            siblings.record(at, event);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.record(at, event);
        }
    }
}
