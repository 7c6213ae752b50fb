//! Placement of woken entities, stealing by idle CPUs, and balancing of whole cores.

use super::rule::Rule;
use super::{Cpu, Engine};
use sched::{CpuId, CpuSet, Cx, EntityId, Topology};

/// Maximum number of entities in one queue that a CPU examines before it idles. Source: SCHED_RQ_NR_MIGRATION,
/// alt_core.c.
pub(crate) const STEAL_MOST: usize = 32;

/// Returns the CPUs of the machine in rings around `cpu`: the CPU itself, its core, its cache, all CPUs.
fn rings(cpu: CpuId, host: &Topology) -> [core::ops::Range<usize>; 4] {
    let block = |size: usize| {
        let first = cpu.index() / size * size;
        first..(first + size).min(host.cpus)
    };
    [block(1), block(host.smt), block(host.llc), 0..host.cpus]
}

/// Returns the CPU of `set` that is nearest to `cpu`. If several CPUs are equally near, returns the CPU with the lowest
/// index.
fn nearest(cpu: CpuId, set: &CpuSet, host: &Topology) -> Option<CpuId> {
    let [itself, core, cache, _] = rings(cpu, host);
    let within = |ring: core::ops::Range<usize>| ring.map(CpuId::new).find(|&other| set.contains(other));
    within(itself).or_else(|| within(core)).or_else(|| within(cache)).or_else(|| set.first())
}

impl<R: Rule> Engine<R> {
    /// Returns the CPU for `e`, which has just become runnable, within its affinity: the nearest CPU of an idle core,
    /// else the nearest idle CPU. If no CPU idles, returns the nearest CPU whose best level is worse than the level of
    /// `e`, else the nearest CPU. With `place-one-better`, the same level and the next better level are sufficient,
    /// too.
    pub(super) fn place(&self, e: EntityId, cx: &Cx<'_>) -> CpuId {
        let home = self.tasks[e.index()].home;
        let allowed = cx.allowed(e);
        let host = cx.topology();
        let near = |set: &CpuSet| nearest(home, &allowed.and(set), host);
        if !self.queues.idle().is_empty()
            && let Some(idle) = near(self.queues.idle_cores()).or_else(|| near(self.queues.idle()))
        {
            return idle;
        }
        let level = self.level(e, cx.now());
        let least = if self.settings.one_better { level.saturating_sub(1) } else { level + 1 };
        let less_urgent = |&cpu: &CpuId| self.queues.watermark(cpu) >= least;
        if allowed.contains(home) && less_urgent(&home) {
            return home;
        }
        let less_urgent: CpuSet = allowed.iter().filter(less_urgent).collect();
        nearest(home, &less_urgent, host).or_else(|| nearest(home, &allowed, host)).expect("an affinity contains a CPU")
    }

    /// Steals waiting entities for `cpu`, which is about to idle, from one other CPU with waiting entities. Nearer CPUs
    /// are tried first. Returns whether an entity was stolen.
    pub(super) fn steal(&mut self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        if self.queues.pending().is_empty() {
            return false;
        }
        let mut looked = CpuSet::one(cpu);
        for ring in rings(cpu, cx.topology()).into_iter().skip(1) {
            for source in ring.map(CpuId::new) {
                if self.queues.pending().contains(source) && looked.insert(source) && self.steal_from(source, cpu, cx) {
                    return true;
                }
            }
        }
        false
    }

    /// Steals entities behind the entity that runs, or is about to run, on `source`. Examines at most half of the queue
    /// and at most [`STEAL_MOST`] entities. Steals only entities that may run on `cpu`.
    fn steal_from(&mut self, source: CpuId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let mut tries = (self.queues.len(source) / 2).min(STEAL_MOST);
        let runs = self.cpus[source.index()].running.or_else(|| self.queues.first(source));
        let mut next = runs.and_then(|e| self.queues.next(e));
        let mut any = false;
        while let Some(e) = next.filter(|_| tries > 0) {
            tries -= 1;
            next = self.queues.next(e);
            if cx.may_run(e, cpu) {
                self.queues.dequeue(e);
                self.enqueue(e, cpu, cx);
                any = true;
            }
        }
        any
    }

    // ---- Races ----

    /// Records that `cpu` found no entity, if another CPU is about to pick and may leave an entity waiting.
    pub(super) fn look_again_later(&mut self, cpu: CpuId, cx: &Cx<'_>) {
        if self.queues.pending().iter().any(|other| cx.kicked(other)) {
            self.lookers.insert(cpu);
        }
    }

    /// Kicks the CPUs that searched too early, if `cpu` leaves entities waiting after its pick.
    pub(super) fn let_look_again(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.lookers.is_empty() {
            return;
        }
        self.lookers.remove(cpu);
        if self.queues.pending().contains(cpu) {
            for looker in core::mem::replace(&mut self.lookers, CpuSet::EMPTY).and(self.queues.idle()).iter() {
                cx.kick(looker);
            }
        } else if !self.queues.pending().iter().any(|other| cx.kicked(other)) {
            self.lookers = CpuSet::EMPTY;
        }
    }

    // ---- Cores ----

    /// Starts the move of an entity to an idle core, if the whole core of `cpu` idles. Searches upward from `cpu`, then
    /// from CPU 0, for a core whose threads each run a single entity. Kicks one of these threads, which then pushes its
    /// entity.
    pub(super) fn balance_cores(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let host = *cx.topology();
        if host.smt == 1 || !self.queues.idle_cores().contains(cpu) {
            return;
        }
        let single = host.all().minus(self.queues.idle()).minus(self.queues.pending());
        let from_here = single.iter().filter(|&other| other >= cpu);
        let crowded = from_here.chain(single.iter().take_while(|&other| other < cpu)).find_map(|other| {
            let all_single = self.queues.core(other).all(|sibling| single.contains(sibling));
            let Cpu { running, push, .. } = self.cpus[other.index()];
            let e = running.filter(|_| all_single && push.is_none())?;
            (!cx.allowed(e).and(self.queues.idle_cores()).is_empty()).then_some((other, e))
        });
        if let Some((other, e)) = crowded {
            self.cpus[other.index()].push = Some(e);
            cx.kick(other);
        }
    }

    /// Moves `e`, which has just stopped on `cpu`, to the nearest idle core on which `e` may run. Returns whether `e`
    /// was moved.
    pub(super) fn push(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) -> bool {
        let Some(to) = nearest(cpu, &cx.allowed(e).and(self.queues.idle_cores()), cx.topology()) else { return false };
        self.move_to(e, to, cx);
        true
    }
}
