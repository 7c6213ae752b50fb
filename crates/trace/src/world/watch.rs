//! [`WorldWatch`]: the start of a run as a timeline, in constant memory.

use super::{MachineId, WorldHeader, WorldSink, WorldTimeline, WorldTimelineBuilder};
use crate::{Event, Inconsistent};
use sched::Instant;

/// Records a world up to an instant and ignores later events. The memory use does not depend on the length of the rest
/// of the run.
#[derive(Debug)]
pub struct WorldWatch {
    builder: WorldTimelineBuilder,
    to: Instant,
    over: bool,
}

impl WorldWatch {
    /// Creates a watch that has not received any event. The watch ignores events from `to` on.
    #[must_use]
    pub fn new(header: &WorldHeader, to: Instant) -> WorldWatch {
        WorldWatch { builder: WorldTimelineBuilder::new(header), to, over: false }
    }

    /// Ends the trace and returns the timeline.
    ///
    /// # Errors
    /// The header is invalid, or an event contradicted earlier events. The first such error is returned.
    pub fn finish(self) -> Result<WorldTimeline, Inconsistent> {
        self.builder.finish()
    }
}

impl WorldSink for WorldWatch {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if self.over {
            return;
        }
        if at >= self.to {
            self.over = true;
            self.builder.record(machine, self.to, &Event::End);
        } else {
            self.builder.record(machine, at, event);
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
