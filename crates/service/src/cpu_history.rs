//! [`CpuHistory`]: which threads ran on a CPU, over the latest time.

use sched::{Instant, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// Time in which one thread ran on a CPU.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    tid: u32,
    from: Instant,
    until: Instant,
}

/// What ran on a CPU.
#[derive(Debug)]
pub(crate) struct CpuHistory {
    /// Number of stretches that are remembered. The oldest are forgotten.
    most: usize,
    /// The running thread, and since when it runs.
    running: Option<(u32, Instant)>,
    past: VecDeque<Stretch>,
}

impl CpuHistory {
    pub(crate) fn new(most: usize) -> CpuHistory {
        CpuHistory { most, running: None, past: VecDeque::new() }
    }

    /// A thread runs from `at` on; the idle thread has the tid 0.
    pub(crate) fn begin(&mut self, tid: u32, at: Instant) {
        self.running = Some((tid, at));
    }

    /// The running thread, if it is known, leaves the CPU at `at`. Returns its tid.
    pub(crate) fn end(&mut self, at: Instant) -> Option<u32> {
        let (tid, from) = self.running.take()?;
        if at < from {
            return Some(tid);
        }
        if self.past.len() == self.most {
            self.past.pop_front();
        }
        self.past.push_back(Stretch { tid, from, until: at });
        Some(tid)
    }

    /// Forgets what ended before `at`.
    pub(crate) fn forget(&mut self, at: Instant) {
        while self.past.front().is_some_and(|it| it.until < at) {
            self.past.pop_front();
        }
    }

    /// Adds how long each thread ran between `from` and `until` to `sums`.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<u32, Nanos>, from: Instant, until: Instant) {
        let present = self.running.map(|(tid, since)| Stretch { tid, from: since, until });
        let first = self.past.partition_point(|it| it.until <= from);
        for stretch in self.past.range(first..).copied().chain(present).take_while(|it| it.from < until) {
            *sums.entry(stretch.tid).or_default() += stretch.until.min(until).saturating_since(stretch.from.max(from));
        }
    }
}
