//! [`PortSource`]: a port as the source of a machine's policy.

use crate::{Port, PortPolicy};
use sched::{AlarmKind, AlarmSlots, Conserving, Knobs, LoadBounds, Policy, PolicySource, Refused, Topology};
use std::path::PathBuf;

/// A port as a [`PolicySource`]: each machine has a process of its own.
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
pub struct PortSource {
    port: &'static Port,
    program: PathBuf,
    name: String,
}

impl PortSource {
    /// The prefix of the names of ports in options and reports.
    pub const PREFIX: &str = "scx:";

    /// Alarm slots of a port: the next timer of each CPU.
    pub const ALARMS: AlarmSlots = AlarmSlots { cpu: &[AlarmKind::Timer], ..AlarmSlots::NONE };

    /// Creates a source of this port in `program`.
    #[must_use]
    pub fn new(port: &'static Port, program: PathBuf) -> PortSource {
        PortSource { port, program, name: format!("{}{}", PortSource::PREFIX, port.name) }
    }
}

impl PolicySource for PortSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn alarms(&self) -> AlarmSlots {
        PortSource::ALARMS
    }

    fn build(&self, host: &Topology, _knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
        Ok(Box::new(PortPolicy::start(self.port, &self.program, host)?))
    }

    fn conserving(&self, load: &LoadBounds<'_>) -> Conserving {
        (self.port.conserving)(load)
    }
}
