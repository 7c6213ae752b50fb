//! MuQSS: the choice among the run queues.

use super::Bfs;
use super::shape::{Parts, Shape, Yields};
use sched::{CpuId, Cx, EntityId, Instant, Running};

impl Bfs {
    /// Returns the entity to run on `cpu`. An entity whose yield on `cpu` was ignored takes precedence. With
    /// `interactive`, compares the first eligible entities of all queues and returns the most urgent. On a tie, the
    /// CPU's own queue takes precedence, then the queues that follow it. Without `interactive`, returns the first
    /// eligible entity of the CPU's own queue, or of the next queue with an eligible entity.
    pub(super) fn best_of_parts(&self, parts: &Parts, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        if let Some(e) = parts.ignored_yields[cpu.index()].filter(|&e| self.queue.contains(e) && cx.may_run(e, cpu)) {
            return Some(e);
        }
        let own = parts.queue_of[cpu.index()];
        let queues = self.accounts.len();
        let mut best: Option<((u8, Instant), EntityId)> = None;
        for step in 0..queues {
            let queue = (own + step) % queues;
            let fits = |e: EntityId| cx.may_run(e, cpu) && !self.is_kept_off(e, cpu, cx);
            if let Some(e) = self.queue.first(queue, fits) {
                let key = (self.rank(e, queue).0, self.tasks[e.index()].deadline);
                if best.is_none_or(|(other, _)| key < other) {
                    best = Some((key, e));
                }
                if !parts.interactive {
                    break;
                }
            }
        }
        best.map(|(_, e)| e)
    }

    /// Returns whether `e` must not run on `cpu` because of an entity that runs on a sibling thread. That entity has a
    /// more urgent rank, or an equal rank and a nice level lower by at least `smt_nice`. A real-time `e` may always
    /// run.
    pub(super) fn is_kept_off(&self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let Shape::Parts(Parts { smt_nice: Some(levels), .. }) = self.shape else { return false };
        let host = cx.topology();
        let first = cpu.index() / host.smt * host.smt;
        let mut siblings = (first..(first + host.smt).min(host.cpus)).map(CpuId::new).filter(|&other| other != cpu);
        let mine = self.rank(e, self.queue_of(cpu));
        siblings.any(|sibling| {
            let theirs = self.current[sibling.index()];
            let runs = matches!(cx.running(sibling), Running::Mine { .. });
            let better_nice =
                theirs.rank == mine && mine.tree().is_some() && theirs.nice + levels <= self.tasks[e.index()].nice;
            runs && (theirs.rank < mine && mine.tree().is_some() || better_nice)
        })
    }

    /// Handles a yield of `e` on `cpu`.
    pub(super) fn yielded(&mut self, e: EntityId, cpu: CpuId, now: Instant) {
        let Shape::Parts(parts) = &mut self.shape else { return };
        match parts.yields {
            Yields::Ignored => parts.ignored_yields[cpu.index()] = Some(e),
            Yields::ToBetter => {}
            Yields::Expire => self.refill(e, now),
        }
    }

    /// Forgets an ignored yield of `e`, which blocks before the CPU on which `e` yielded has picked again. This covers
    /// a detached entity, which blocks first.
    pub(super) fn forget_yield(&mut self, e: EntityId) {
        if let Shape::Parts(parts) = &mut self.shape {
            parts.ignored_yields.iter_mut().filter(|yielded| **yielded == Some(e)).for_each(|yielded| *yielded = None);
        }
    }
}
