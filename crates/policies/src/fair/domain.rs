//! [`Level`]: the scheduling domains of a host, and the state of their balancing.

use super::tunables::SMT_IMBALANCE;
use sched::{CpuId, Instant, Nanos, Topology};

/// A level of scheduling domains. Each domain has `span` consecutive CPUs and is balanced between groups of `group`
/// CPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) span: usize,
    pub(super) group: usize,
    pub(super) imbalance: u64,
}

impl Level {
    /// Returns the scheduling domains of a host, nearest first: core, cache, machine. Domains with a single group are
    /// omitted.
    pub(super) fn all(host: &Topology, imbalance: u64) -> Vec<Level> {
        let levels = [(host.smt, 1, SMT_IMBALANCE), (host.llc, host.smt, imbalance), (host.cpus, host.llc, imbalance)];
        let levels = levels.into_iter().filter(|&(span, group, _)| span > group);
        levels.map(|(span, group, imbalance)| Level { span, group, imbalance }).collect()
    }

    /// Returns the minimum balancing interval of a CPU, before the multiplication by `busy-factor`.
    pub(super) const fn interval(&self) -> Nanos {
        Nanos::ms(self.span as u64)
    }
}

/// The interval below which it doubles after a balance that found only pinned tasks. Source: `MAX_PINNED_INTERVAL`,
/// kernel/sched/fair.c, v5.13.
pub(super) const PINNED_MOST: Nanos = Nanos::ms(512);

/// The balancing state of a CPU for one of its domains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balancing {
    pub(super) last: Instant,
    pub(super) interval: Nanos,
    /// Number of successive balances that moved no task although an imbalance was found. A balance that moves a task,
    /// or finds no imbalance or only pinned tasks, resets the number. The number does not grow if an idle CPU, or a
    /// busy CPU in v3.17, leaves no task that was cache-hot or too heavy.
    pub(super) failed: u32,
}

impl Balancing {
    pub(super) const fn new(level: &Level) -> Balancing {
        Balancing { last: Instant::ZERO, interval: level.interval(), failed: 0 }
    }

    /// Records a balance that found no imbalance, or only pinned tasks. The interval doubles while it is below `most`.
    pub(super) fn balanced(&mut self, most: Nanos) {
        self.failed = 0;
        if self.interval < most {
            self.interval = self.interval.saturating_mul(2);
        }
    }

    /// Records a balance that found an imbalance. `failed`: no task has moved.
    pub(super) fn unbalanced(&mut self, shortest: Nanos, failed: bool) {
        self.interval = shortest;
        self.failed = if failed { self.failed + 1 } else { 0 };
    }
}

/// Returns the group of `size` CPUs that contains `cpu`.
pub(super) fn span(host: &Topology, cpu: CpuId, size: usize) -> impl Iterator<Item = CpuId> + Clone + use<> {
    let start = cpu.index() / size * size;
    (start..(start + size).min(host.cpus)).map(CpuId::new)
}
