//! Progress of the simulation.

use crate::progress::Progress;
use sched::{Instant, Nanos};
use trace::{Event, Sink};

/// Follows a run by its events.
#[derive(Debug)]
pub(super) struct Follow {
    progress: Progress,
    policy: &'static str,
    length: Nanos,
    /// When to update the display next.
    next: Instant,
}

impl Follow {
    /// A run of `length` under `policy`.
    pub(super) fn new(policy: &'static str, length: Nanos) -> Follow {
        Follow { progress: Progress::new(format!("simulating {policy}"), length), policy, length, next: Instant::ZERO }
    }

    /// The run is over.
    pub(super) fn finish(self) {
        self.progress.finish(&format!("simulated {} under {}", self.length, self.policy));
    }
}

impl Sink for Follow {
    fn record(&mut self, at: Instant, _event: &Event) {
        if at >= self.next {
            self.progress.passed(at.since(Instant::ZERO));
            self.next = at.saturating_add(Nanos::ns(self.length.as_ns().div_ceil(200)));
        }
    }
}
