//! Deadlines of jobs: counts misses from releases and completions.

use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// Counts of an entity's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts {
    /// Number of released jobs.
    pub released: u64,
    /// Number of completed jobs.
    pub completed: u64,
    /// Number of jobs that missed their deadline, completed or not.
    pub missed: u64,
    /// Maximum time from a deadline to the completion of its job. For a job that is open at the end of the run, the
    /// time to this end.
    pub tardiness: Nanos,
}

/// The open jobs of an entity. The oldest job is completed first.
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

    /// Completes the oldest job and returns its tardiness. `None`: no job is open.
    pub(super) fn complete(&mut self, now: Instant) -> Option<Nanos> {
        let late = now.saturating_since(self.open.pop_front()?);
        self.counts.completed += 1;
        self.note(late);
        Some(late)
    }

    /// Aborts the oldest job, which misses its deadline. Returns false if no job is open.
    pub(super) fn abort(&mut self) -> bool {
        let is_open = self.open.pop_front().is_some();
        self.counts.missed += u64::from(is_open);
        is_open
    }

    fn note(&mut self, late: Nanos) {
        self.counts.missed += u64::from(!late.is_zero());
        self.counts.tardiness = self.counts.tardiness.max(late);
    }

    /// Ends the run: open jobs whose deadline has passed count as missed.
    pub(super) fn close(&mut self, now: Instant) {
        while let Some(deadline) = self.open.pop_front() {
            self.note(now.saturating_since(deadline));
        }
    }
}
