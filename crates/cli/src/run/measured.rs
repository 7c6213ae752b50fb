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
    /// The monitor of domains, if the run is monitored.
    monitor: Option<XenMon>,
}

/// Number of the machine of a live run.
const HOST: MachineId = MachineId(0);

impl Measured {
    pub(crate) fn new(is_monitored: bool) -> Measured {
        Measured {
            meter: Meter::new(),
            siblings: Siblings::from(Instant::ZERO),
            monitor: is_monitored.then(XenMon::of_host),
        }
    }

    /// Returns the report of the domains of the host.
    pub(crate) fn xenmon(&self, header: &Header, length: Nanos) -> Option<XenMonReport> {
        let host = MachineHeader { name: "host".to_string(), header: header.clone(), host: None };
        Some(XenMonReport::new(self.monitor.as_ref()?, &WorldHeader { machines: vec![host] }, Nanos::ZERO, length))
    }
}

impl Sink for Measured {
    fn record(&mut self, at: Instant, event: &Event) {
        self.meter.record(at, event);
        self.siblings.record(at, event);
        if let Some(monitor) = &mut self.monitor {
            monitor.record(HOST, at, event);
        }
    }
}
