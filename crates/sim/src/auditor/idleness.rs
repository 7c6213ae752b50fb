//! Law 11: no CPU idles longer than the slack while an entity that may run on the CPU waits.
//!
//! A pair (idle CPU, waiting entity) breaks the law once both states have lasted longer than the slack. Pairs are not
//! stored. The auditor keeps a lower bound on the instant of the earliest breach. The auditor examines pairs only when
//! a CPU has become idle or an entity has begun to wait, or when the bound has passed.

use super::{Entities, Entity};
use sched::{Conserving, CpuId, CpuSet, EntityId, Instant, Nanos, Topology};

/// A CPU that idled too long while an entity waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breach {
    pub(super) cpu: CpuId,
    pub(super) idle_since: Instant,
    pub(super) entity: EntityId,
}

#[derive(Debug)]
pub(super) struct Idleness {
    host: Topology,
    scope: Conserving,
    slack: Nanos,
    idle: CpuSet,
    /// Instant since which each CPU idles, or instant of the last reported breach on the CPU.
    since: Vec<Instant>,
    /// Instant up to which no pair breaks the law.
    bound: Instant,
    new_idle: Vec<CpuId>,
    new_waiters: Vec<EntityId>,
}

impl Idleness {
    pub(super) fn new(host: Topology, scope: Conserving, allowance: Nanos) -> Idleness {
        let slack = match scope {
            Conserving::Never => Nanos::ZERO,
            Conserving::PerCpu { slack } | Conserving::Domain { slack } | Conserving::Global { slack } => slack,
        };
        Idleness {
            host,
            scope,
            slack: slack + allowance,
            idle: host.all(),
            since: vec![Instant::ZERO; host.cpus],
            bound: Instant::NEVER,
            new_idle: Vec::new(),
            new_waiters: Vec::new(),
        }
    }

    pub(super) fn slack(&self) -> Nanos {
        self.slack
    }

    pub(super) fn begin(&mut self, cpu: CpuId, now: Instant) {
        self.idle.insert(cpu);
        self.since[cpu.index()] = now;
        self.new_idle.push(cpu);
    }

    pub(super) fn end(&mut self, cpu: CpuId) {
        self.idle.remove(cpu);
    }

    pub(super) fn waits(&mut self, e: EntityId) {
        self.new_waiters.push(e);
    }

    /// Returns the instant after which the pair breaks the law if both states last. `None`: the law permits the pair.
    fn breach_at(&self, cpu: CpuId, e: &Entity) -> Option<Instant> {
        let near = match self.scope {
            Conserving::Never => false,
            Conserving::PerCpu { .. } => e.last == Some(cpu),
            Conserving::Domain { .. } => e.last.is_some_and(|last| self.host.share_cache(last, cpu)),
            Conserving::Global { .. } => true,
        };
        let pair = near && e.params.affinity.contains(cpu);
        pair.then(|| self.since[cpu.index()].max(e.waits_since).saturating_add(self.slack))
    }

    /// Advances to `now`. The current states have lasted since the last call. Returns one breach, if any.
    pub(super) fn elapse(&mut self, now: Instant, entities: &Entities) -> Option<Breach> {
        if self.scope == Conserving::Never {
            self.new_idle.clear();
            self.new_waiters.clear();
            return None;
        }
        self.look_at_new(entities);
        if self.bound >= now {
            return None;
        }
        self.bound = Instant::NEVER;
        let mut breach = None;
        for cpu in self.idle.iter() {
            for e in entities.waiting() {
                let Some(at) = self.breach_at(cpu, e) else { continue };
                if at >= now {
                    self.bound = self.bound.min(at);
                } else if breach.is_none() {
                    breach = Some(Breach { cpu, idle_since: self.since[cpu.index()], entity: e.id });
                }
            }
        }
        if let Some(breach) = breach {
            // Each call reports one breach. The idle time of the CPU is then measured from `now`. Later calls report
            // further breaches.
            self.since[breach.cpu.index()] = now;
            self.bound = now.saturating_add(self.slack);
        }
        breach
    }

    fn look_at_new(&mut self, entities: &Entities) {
        if entities.waiting().next().is_some() {
            for i in 0..self.new_idle.len() {
                let cpu = self.new_idle[i];
                if self.idle.contains(cpu) {
                    let soonest = entities.waiting().filter_map(|e| self.breach_at(cpu, e)).min();
                    self.bound = self.bound.min(soonest.unwrap_or(Instant::NEVER));
                }
            }
            if !self.idle.is_empty() {
                for i in 0..self.new_waiters.len() {
                    let Some(e) = entities.get(self.new_waiters[i]).filter(|e| e.is_waiting()) else { continue };
                    let soonest = self.idle.iter().filter_map(|cpu| self.breach_at(cpu, e)).min();
                    self.bound = self.bound.min(soonest.unwrap_or(Instant::NEVER));
                }
            }
        }
        self.new_idle.clear();
        self.new_waiters.clear();
    }
}
