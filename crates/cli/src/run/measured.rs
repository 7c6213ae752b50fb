//! [`Measured`]: the measurements of a live run.

use measure::{Meter, Siblings, XenMon};
use report::XenMonReport;
use sched::{Instant, Nanos};
use trace::{Event, Header, MachineHeader, MachineId, Sink, WorldHeader, WorldSink};

/// Measurements of all entities and gangs of a live run, from its start.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) meter: Meter,
    pub(crate) siblings: Siblings,
    monitor: XenMon,
}

/// Number of the machine of a live run.
const HOST: MachineId = MachineId(0);

impl Measured {
    pub(crate) fn new() -> Measured {
        Measured { meter: Meter::new(), siblings: Siblings::from(Instant::ZERO), monitor: XenMon::new(Instant::ZERO) }
    }

    /// Returns the report of the domains of the host.
    pub(crate) fn xenmon(&self, header: &Header, length: Nanos) -> XenMonReport {
        let host = MachineHeader { name: "host".to_string(), header: header.clone(), host: None };
        XenMonReport::new(&self.monitor, &WorldHeader { machines: vec![host] }, Nanos::ZERO, length)
    }
}

impl Sink for Measured {
    fn record(&mut self, at: Instant, event: &Event) {
        self.meter.record(at, event);
        self.siblings.record(at, event);
        self.monitor.record(HOST, at, event);
    }
}
