//! Deadlines of jobs: misses counted from releases and completions.

use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// What became of an entity's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts {
    /// Jobs released.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs completed after their deadline, or not completed although it is past.
    pub missed: u64,
    /// The longest time from a deadline to the completion of its job.
    pub tardiness: Nanos,
}

/// An entity's jobs; the oldest is completed first.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) counts: JobCounts,
    open: VecDeque<Instant>,
}

impl Jobs {
    pub(super) fn release(&mut self, deadline: Instant) {
        self.counts.released += 1;
        self.open.push_back(deadline);
    }

    /// The oldest job is done. `None`: there is none; else by how much it is late.
    pub(super) fn complete(&mut self, now: Instant) -> Option<Nanos> {
        let late = now.saturating_since(self.open.pop_front()?);
        self.counts.completed += 1;
        self.note(late);
        Some(late)
    }

    fn note(&mut self, late: Nanos) {
        self.counts.missed += u64::from(!late.is_zero());
        self.counts.tardiness = self.counts.tardiness.max(late);
    }

    /// The run is over: jobs whose deadline is past will not be completed in time.
    pub(super) fn close(&mut self, now: Instant) {
        while let Some(deadline) = self.open.pop_front() {
            self.note(now.saturating_since(deadline));
        }
    }
}
