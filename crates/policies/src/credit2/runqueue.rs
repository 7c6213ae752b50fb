//! Run queues: the CPUs that share a run queue, and the state of the run queue.

use super::settings::{Settings, Share};
use sched::{CpuId, CpuSet, Cx, Topology};

/// The state of a run queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunQueue {
    /// CPUs that share the run queue.
    pub(super) cpus: CpuSet,
    /// CPUs of the queue that idle.
    pub(super) idle: CpuSet,
    /// CPUs that were kicked and have not picked yet.
    pub(super) tickled: CpuSet,
    /// CPUs on cores whose threads all idle and were not kicked.
    pub(super) smt_idle: CpuSet,
    /// CPU to which the last joining entity was assigned.
    pub(super) cursor: CpuId,
    /// Maximum weight of all entities assigned to the queue; at least 1.
    pub(super) max_weight: u64,
    pub(super) load: Load,
    /// Expected load once the average fully includes the migrations.
    pub(super) planned: i64,
}

/// Returns the current time in the unit of load averages, 1,024 ns. Source: `LOADAVG_GRANULARITY_SHIFT`.
pub(super) fn clock(cx: &Cx<'_>) -> u64 {
    cx.now().as_ns() >> 10
}

/// A load: the number of runnable entities, and its average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Current number of runnable entities.
    pub(super) now: i64,
    /// Average number of runnable entities, in fixed point with `precision_shift` bits.
    pub(super) average: i64,
    /// Time at which the average was computed, in units of 1,024 ns.
    updated: u64,
}

impl Load {
    /// Returns the load of an entity that is new at `at`. A new entity is assumed to be runnable half of the time.
    pub(super) fn of_newcomer(at: u64, settings: &Settings) -> Load {
        Load { now: 0, average: 1 << (settings.precision_shift - 1), updated: at }
    }

    /// Updates the average and `planned` to the time `at`.
    pub(super) fn update(&mut self, planned: &mut i64, at: u64, settings: &Settings) {
        let Settings { window_shift, precision_shift, .. } = *settings;
        let full = self.now << precision_shift;
        let passed = at.saturating_sub(self.updated);
        if passed > 1 << window_shift {
            (self.average, *planned) = (full, full);
        } else {
            let part = |of: i64| {
                let moved = (i128::from(passed) * i128::from(of)) >> window_shift;
                i64::try_from(moved).expect("no more than the whole")
            };
            self.average += part(full) - part(self.average);
            *planned += part(full) - part(*planned);
        }
        self.updated = at;
    }
}

impl RunQueue {
    fn new(first: CpuId) -> RunQueue {
        RunQueue {
            cpus: CpuSet::one(first),
            idle: CpuSet::EMPTY,
            tickled: CpuSet::EMPTY,
            smt_idle: CpuSet::EMPTY,
            cursor: first,
            max_weight: 1,
            load: Load::default(),
            planned: 0,
        }
    }

    /// Returns the CPUs that idle and were not kicked.
    pub(super) fn free(&self) -> CpuSet {
        self.idle.minus(&self.tickled)
    }

    /// Records that `cpu` was kicked.
    pub(super) fn tickle(&mut self, cpu: CpuId, siblings: &CpuSet) {
        self.tickled.insert(cpu);
        self.core_is_taken(cpu, siblings);
    }

    /// Records that `cpu` picks.
    pub(super) fn answers(&mut self, cpu: CpuId, siblings: &CpuSet) {
        if self.tickled.remove(cpu) {
            self.core_may_be_free(siblings);
        }
    }

    /// Records whether `cpu` idles.
    pub(super) fn set_idle(&mut self, cpu: CpuId, idle: bool, siblings: &CpuSet) {
        if idle {
            if self.idle.insert(cpu) {
                self.core_may_be_free(siblings);
            }
        } else if self.idle.remove(cpu) {
            self.core_is_taken(cpu, siblings);
        }
    }

    fn core_may_be_free(&mut self, siblings: &CpuSet) {
        if siblings.minus(&self.free()).is_empty() {
            for cpu in siblings.iter() {
                self.smt_idle.insert(cpu);
            }
        }
    }

    fn core_is_taken(&mut self, cpu: CpuId, siblings: &CpuSet) {
        if self.smt_idle.contains(cpu) {
            self.smt_idle = self.smt_idle.minus(siblings);
        }
    }
}

/// Returns the hardware threads of the core of `cpu`.
pub(super) fn siblings(host: &Topology, cpu: CpuId) -> CpuSet {
    host.iter().filter(|&other| host.share_core(cpu, other)).collect()
}

/// Returns the run queues of `host`. The knob `runqueue` states which CPUs share a run queue: none, or all CPUs of a
/// core, of a cache or of the machine. Beyond the maximum per queue, these CPUs are spread evenly over several queues.
pub(super) fn partition(host: &Topology, settings: &Settings) -> Vec<RunQueue> {
    let together = |a: CpuId, b: CpuId| match settings.share {
        Share::Cpu => false,
        Share::Core => host.share_core(a, b),
        Share::Socket => host.share_cache(a, b),
        Share::All => true,
    };
    let most = host.cpus / host.cpus.div_ceil(settings.most_cpus);
    let mut queues: Vec<RunQueue> = Vec::new();
    for cpu in host.iter() {
        let threads = siblings(host, cpu);
        let fits = |queue: &RunQueue| {
            // The queue must have room for the other threads of all its cores.
            let cores = queue.cpus.iter().filter(|&cpu| siblings(host, cpu).first() == Some(cpu)).count();
            queue.cpus.len() < most && (cores + 1) * threads.len() <= most
        };
        let mut chosen: Option<usize> = None;
        for (n, queue) in queues.iter().enumerate().filter(|(_, queue)| together(queue.cursor, cpu)) {
            if !queue.cpus.and(&threads).is_empty() {
                chosen = Some(n);
                break;
            }
            if fits(queue) && chosen.is_none_or(|best| queue.cpus.len() < queues[best].cpus.len()) {
                chosen = Some(n);
            }
        }
        if let Some(n) = chosen {
            queues[n].cpus.insert(cpu);
        } else {
            queues.push(RunQueue::new(cpu));
        }
    }
    for queue in &mut queues {
        queue.idle = queue.cpus;
        queue.smt_idle = queue.cpus;
    }
    queues
}
