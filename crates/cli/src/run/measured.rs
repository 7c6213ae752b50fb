//! [`Measured`]: the measurements of a live run.

use measure::{Meter, Siblings};
use sched::Instant;
use trace::{Event, Sink};

/// Measurements of all entities and gangs of a live run, from its start.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) meter: Meter,
    pub(crate) siblings: Siblings,
}

impl Measured {
    pub(crate) fn new() -> Measured {
        Measured { meter: Meter::new(), siblings: Siblings::from(Instant::ZERO) }
    }
}

impl Sink for Measured {
    fn record(&mut self, at: Instant, event: &Event) {
        self.meter.record(at, event);
        self.siblings.record(at, event);
    }
}
