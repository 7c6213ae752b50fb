//! The placement of entities: the CPUs that a wake-up kicks, the entities that a CPU steals, and each entity's home.

use crate::credit::Credit;
use crate::credit::cursor::{Commit, cycle, next_in};
use crate::credit::runqueue::Priority;
use crate::credit::settings::Steal;
use sched::{CpuId, CpuSet, Cx, EntityId, Running};

/// Predicate: whether an entity may be stolen by a CPU that the affinity of the entity excludes.
pub(crate) type MayLeave<'a> = &'a dyn Fn(EntityId, &Cx<'_>) -> bool;

impl Credit {
    /// Returns the entity to run on `cpu`: the head of its queue. If the head is OVER, a more urgent entity of another
    /// queue is preferred. If the queue is empty, the CPU takes any entity of another queue. `None`: the CPU idles.
    pub(crate) fn choose(&mut self, cpu: CpuId, may_leave: MayLeave<'_>, cx: &Cx<'_>) -> Option<EntityId> {
        let head = self.queues.first(cpu);
        let priority = head.map(|e| self.queues.priority(e));
        let stolen = match priority {
            Some(Priority::Under | Priority::Boost | Priority::RealTime) => None,
            Some(Priority::Over) | None => self.steal(cpu, priority, may_leave, cx),
        };
        let chosen = stolen.or(head);
        if stolen.is_some() && head.is_some() {
            // This CPU runs a stolen entity, so the entities in its own queue still wait. It is possible that no other
            // CPU was kicked for them.
            self.cpus[cpu.index()].queued_while_idle = true;
        }
        if chosen.is_none() {
            self.called.remove(cpu);
            self.idlers.insert(cpu);
            self.cpus[cpu.index()].queued_while_idle = false;
        }
        chosen
    }

    /// Returns whether `cpu` found no entity to run and has not picked an entity since.
    pub(crate) fn idles(&self, cpu: CpuId) -> bool {
        self.idlers.contains(cpu) || self.called.contains(cpu)
    }

    /// Returns whether a hand-off is possible: `idlers` is not empty, or a CPU of `called` may skip an entity.
    pub(crate) fn any_idles(&self) -> bool {
        !self.idlers.is_empty() || (self.settings.passes_over() && !self.called.is_empty())
    }

    /// Kicks the idle `cpu`. In versions where a wake-up kicks one CPU only, the CPU moves from `idlers` to `called`.
    fn call_idle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.settings.tickle_one && self.idlers.remove(cpu) {
            self.called.insert(cpu);
        }
        cx.kick(cpu);
    }

    /// Kicks CPUs for `e`, which has just been queued on `cpu`. Kicks `cpu` itself if `cpu` idles, or runs a parked
    /// entity or an entity less urgent than `e`. If `cpu` does not idle, also kicks all idle CPUs on which `e` may run.
    /// In versions where a wake-up kicks one CPU only, kicks one of these idle CPUs instead of `cpu`, if there is one.
    pub(crate) fn tickle(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.idles(cpu) {
            self.cpus[cpu.index()].queued_while_idle = true;
            self.call_idle(cpu, cx);
            return;
        }
        let idle = if self.idlers.is_empty() { CpuSet::EMPTY } else { self.idlers.and(&cx.allowed(e)) };
        if self.settings.tickle_one && !idle.is_empty() {
            self.tickle_one_of(&idle, cx);
            return;
        }
        if let Running::Mine { entity, .. } = cx.running(cpu)
            && (self.queues.priority(e) > self.queues.priority(entity) || self.vcpus[entity.index()].parked)
        {
            if self.settings.tickle_one && !self.idlers.and(&cx.allowed(entity)).is_empty() {
                self.vcpus[entity.index()].migrating = true;
            }
            cx.kick(cpu);
        }
        for idle in idle.iter() {
            cx.kick(idle);
        }
    }

    /// Kicks the CPU of `idle` that follows the last choice in cyclic order.
    fn tickle_one_of(&mut self, idle: &CpuSet, cx: &mut Cx<'_>) {
        let here = &mut self.cpus[cx.here().index()];
        let Some(next) = next_in(here.called, idle) else { return };
        here.called = next;
        self.call_idle(next, cx);
    }

    /// Steals work for `cpu` from other queues, unless the last attempt of `cpu` was at most the steal interval ago.
    fn steal(&mut self, cpu: CpuId, than: Option<Priority>, may_leave: MayLeave<'_>, cx: &Cx<'_>) -> Option<EntityId> {
        if self.has_just_tried(cpu, cx) {
            return None;
        }
        if !self.settings.steal_interval.is_zero() {
            self.cpus[cpu.index()].tried_to_steal = Some(cx.now());
        }
        let stolen = self.find_to_steal(cpu, than, may_leave, cx)?;
        let from = self.vcpus[stolen.index()].home;
        let first = CpuId::new(from.index() / cx.topology().llc * cx.topology().llc);
        self.cpus[first.index()].stolen_from = from;
        Some(stolen)
    }

    /// Returns whether `cpu` must not try to steal now, because its last attempt was recent.
    fn has_just_tried(&self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let interval = self.settings.steal_interval;
        let tried = self.cpus[cpu.index()].tried_to_steal;
        !interval.is_zero() && tried.is_some_and(|tried| cx.now().since(tried) <= interval)
    }

    /// Returns whether the idle `cpu` may steal `e`, which is queued on another CPU and is not cache-hot.
    fn may_steal(&self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        !self.has_just_tried(cpu, cx) && !self.is_bound_by_yield(e)
    }

    /// Finds work for `cpu` in the queues of other CPUs: the first entity that may migrate and is more urgent than
    /// `than` (`None`: any entity).
    fn find_to_steal(
        &self,
        cpu: CpuId,
        than: Option<Priority>,
        may_leave: MayLeave<'_>,
        cx: &Cx<'_>,
    ) -> Option<EntityId> {
        let mut peers = *self.queues.occupied();
        peers.remove(cpu);
        if self.settings.steal != Steal::Any {
            peers = peers.minus(&self.idlers).minus(&self.called);
        }
        let from = |peer: CpuId| {
            let mut more_urgent = self.queues.iter(peer).take_while(|&e| Some(self.queues.priority(e)) > than);
            let comes = |e| cx.may_run(e, cpu) || may_leave(e, cx);
            let stays = |e: EntityId| self.awaits_parking(e) || self.is_hot(e, cx) || self.is_bound_by_yield(e);
            more_urgent.find(|&e| comes(e) && !stays(e))
        };
        if self.settings.steal != Steal::Near {
            return cycle(cpu, &peers).find_map(from);
        }
        let llc = cx.topology().llc;
        let domains = cx.topology().cpus.div_ceil(llc);
        (0..domains).find_map(|step| {
            let first = (cpu.index() / llc + step) % domains * llc;
            let near: CpuSet =
                peers.iter().filter(|peer| peer.index() / llc == first / llc && self.has_two(*peer, cx)).collect();
            cycle(self.cpus[first].stolen_from, &near).find_map(from)
        })
    }

    /// Returns whether `cpu`, whose queue is not empty, has at least two entities to run. A running or just stopped
    /// entity counts.
    fn has_two(&self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let running = matches!(cx.running(cpu), Running::Mine { .. }) || self.cpus[cpu.index()].stopped.is_some();
        running || self.queues.iter(cpu).nth(1).is_some()
    }

    /// Returns whether `e`, which is queued, must receive its last time slice before parking on its own CPU. With
    /// hand-off, an idle CPU may run `e` instead.
    fn awaits_parking(&self, e: EntityId) -> bool {
        self.vcpus[e.index()].parked && !self.settings.hand_off
    }

    /// Returns whether `e` has yielded and therefore must not be stolen.
    fn is_bound_by_yield(&self, e: EntityId) -> bool {
        self.settings.yield_behind && self.vcpus[e.index()].yielded
    }

    /// Returns whether `e` is still cache-hot on its CPU.
    pub(crate) fn is_hot(&self, e: EntityId, cx: &Cx<'_>) -> bool {
        match self.vcpus[e.index()].stopped {
            Some(stopped) => cx.now().since(stopped) < self.settings.migration_delay,
            None => false,
        }
    }

    /// Returns the best CPU for `e`: its own CPU, unless an idle CPU has more idle neighbours. If the affinity of `e`
    /// excludes its own CPU, the next allowed CPU counts as its own. In versions where a wake-up kicks one CPU only,
    /// the next allowed idle CPU counts as its own if another entity uses its own CPU. Neighbours are counted by cache
    /// and, within one cache, by core. `Commit::Yes` advances the cursor that spreads these choices.
    pub(crate) fn pick_cpu(&mut self, e: EntityId, commit: Commit, cx: &Cx<'_>) -> CpuId {
        let allowed = cx.allowed(e);
        let home = self.vcpus[e.index()].home;
        let mut best =
            if allowed.contains(home) { home } else { next_in(home, &allowed).expect("an affinity contains a CPU") };
        if self.settings.tickle_one {
            best = self.idle_rather_than(best, e, &allowed, cx);
        }
        let host = *cx.topology();
        if host.smt == 1 && host.llc >= host.cpus {
            return best; // No idle CPU has more idle neighbours than another.
        }
        let mut candidates = allowed.and(&self.idlers);
        candidates.remove(best);
        let mut idle = self.idlers;
        idle.insert(best);
        while let Some(next) = next_in(best, &candidates) {
            let near = |cpu: CpuId, other: CpuId| match host.share_cache(best, next) {
                true => host.share_core(cpu, other),
                false => host.share_cache(cpu, other),
            };
            let neighbours = |cpu: CpuId| -> CpuSet { idle.iter().filter(|&other| near(cpu, other)).collect() };
            let theirs = neighbours(next);
            if neighbours(best).len() < theirs.len() {
                let cursor = self.cpus[next.index()].cursor;
                let fresh = theirs.and(&candidates);
                best = cursor.map_or(fresh.first(), |cursor| next_in(cursor, &fresh)).expect("`next` is one");
                if commit == Commit::Yes {
                    self.cpus[next.index()].cursor = Some(best);
                }
                let threads: CpuSet = host.iter().filter(|&cpu| host.share_core(cpu, best)).collect();
                candidates = candidates.minus(&threads);
            } else {
                candidates = candidates.minus(&theirs);
            }
        }
        best
    }

    /// Returns `best` if no entity other than `e` waits for or runs on it. Otherwise returns the next idle CPU of
    /// `allowed`, or `best` if none of them idles.
    fn idle_rather_than(&self, best: CpuId, e: EntityId, allowed: &CpuSet, cx: &Cx<'_>) -> CpuId {
        let alone = match cx.running(best) {
            Running::Mine { entity, .. } => entity == e,
            Running::Idle => self.idlers.contains(best) || self.cpus[best.index()].stopped == Some(e),
            Running::Above | Running::Below => false,
        };
        if alone && self.queues.first(best).is_none() {
            return best;
        }
        next_in(best, &allowed.and(&self.idlers)).unwrap_or(best)
    }

    /// Moves the queued `e` to an idle CPU in its affinity, if there is one and `e` is not cache-hot. The idle CPU has
    /// not been kicked, or would skip `e` when it steals.
    pub(crate) fn hand_off(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.is_hot(e, cx) {
            return;
        }
        let (home, allowed) = (self.vcpus[e.index()].home, cx.allowed(e));
        let idle = self.idlers.and(&allowed);
        let uncalled = cycle(home, &idle).find(|&cpu| !cx.kicked(cpu));
        let skips = |&cpu: &CpuId| cpu != home && self.idles(cpu) && !self.may_steal(e, cpu, cx);
        let to = match self.settings.passes_over() {
            true => uncalled.or_else(|| cycle(home, &allowed).find(skips)),
            false => uncalled,
        };
        if let Some(idle) = to {
            self.queues.remove(e);
            self.set_home(e, idle);
            self.queues.insert(idle, e);
            self.cpus[idle.index()].queued_while_idle = true;
            self.call_idle(idle, cx);
        }
    }

    /// Offers each waiting entity to the idle CPUs. A wake-up kicks one CPU only, and that CPU may run another entity.
    pub(crate) fn offer_all(&mut self, cx: &mut Cx<'_>) {
        if !self.settings.hand_off || !self.any_idles() {
            return;
        }
        let busy = self.queues.occupied().minus(&self.idlers).minus(&self.called);
        for cpu in busy.iter() {
            self.hand_off_queue(cpu, cx);
        }
    }

    /// Hands off each entity in the queue of `cpu` for which an idle CPU exists.
    pub(crate) fn hand_off_queue(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let mut next = self.queues.first(cpu);
        while let Some(e) = next
            && self.any_idles()
        {
            next = self.queues.next(e);
            self.hand_off(e, cx);
        }
    }
}
