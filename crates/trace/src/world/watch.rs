//! [`WorldWatch`]: the beginning of a run as a timeline, however long it goes on.

use super::{MachineId, WorldHeader, WorldSink, WorldTimeline, WorldTimelineBuilder};
use crate::{Event, Inconsistent};
use sched::Instant;

/// Follows a world up to a moment, and no further, so that a long run takes no more memory.
#[derive(Debug)]
pub struct WorldWatch {
    builder: WorldTimelineBuilder,
    to: Instant,
    over: bool,
}

impl WorldWatch {
    /// Nothing has happened yet; what happens from `to` on is not followed.
    #[must_use]
    pub fn new(header: &WorldHeader, to: Instant) -> WorldWatch {
        WorldWatch { builder: WorldTimelineBuilder::new(header), to, over: false }
    }

    /// Everything has happened.
    ///
    /// # Errors
    /// The first event that contradicted those before it.
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
