//! Where entities run: whom a wake-up calls, what an idle or less urgent CPU steals, and which idle CPU is better.

use crate::credit::Credit;
use crate::credit::runqueue::Priority;
use sched::{CpuId, CpuSet, Cx, EntityId, Running};

/// The CPUs of `set` in cyclic order, beginning with the next higher number after `cpu`.
fn cycle(cpu: CpuId, set: &CpuSet) -> impl Iterator<Item = CpuId> + '_ {
    let after = set.iter().filter(move |&other| other > cpu);
    after.chain(set.iter().take_while(move |&other| other <= cpu))
}

/// The first of `set` in that order.
fn next_in(cpu: CpuId, set: &CpuSet) -> Option<CpuId> {
    cycle(cpu, set).next()
}

impl Credit {
    /// Calls those who may want to run `e`, which has just been queued on `cpu`: that CPU if it idles or runs
    /// somebody less urgent; and if it does not idle, all idle CPUs that `e` may run on.
    pub(crate) fn tickle(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.idlers.contains(cpu) {
            self.cpus[cpu.index()].queued_while_idle = true;
            cx.kick(cpu);
            return;
        }
        if let Running::Mine { entity, .. } = cx.running(cpu)
            && self.queues.priority(e) > self.queues.priority(entity)
        {
            cx.kick(cpu);
        }
        if !self.idlers.is_empty() {
            for idle in self.idlers.and(&cx.allowed(e)).iter() {
                cx.kick(idle);
            }
        }
    }

    /// Finds work for `cpu` in the queues of CPUs that do not idle: of the first queue that has some, the first entity
    /// that is more urgent than `than` (`None`: that there is) and may come over.
    pub(crate) fn find_to_steal(&self, cpu: CpuId, than: Option<Priority>, cx: &Cx<'_>) -> Option<EntityId> {
        let mut peers = self.queues.occupied().minus(&self.idlers);
        peers.remove(cpu);
        cycle(cpu, &peers).find_map(|peer| {
            let mut more_urgent = self.queues.iter(peer).take_while(|&e| Some(self.queues.priority(e)) > than);
            more_urgent.find(|&e| cx.may_run(e, cpu) && !self.is_hot(e, cx))
        })
    }

    /// Whether what `e` left in its CPU's cache is still worth staying for.
    pub(crate) fn is_hot(&self, e: EntityId, cx: &Cx<'_>) -> bool {
        match self.vcpus[e.index()].stopped {
            Some(stopped) => cx.now().since(stopped) < self.settings.migration_delay,
            None => false,
        }
    }

    /// The best CPU for `e`: its own (or the next one it may run on), unless an idle one has more idle neighbours, by
    /// cache and, within one cache, by core. `Commit::Yes` turns the cursor that spreads such choices.
    pub(crate) fn pick_cpu(&mut self, e: EntityId, commit: Commit, cx: &Cx<'_>) -> CpuId {
        let allowed = cx.allowed(e);
        let home = self.vcpus[e.index()].home;
        let mut best = if allowed.contains(home) {
            home
        } else {
            next_in(home, &allowed).expect("every entity may run somewhere")
        };
        let host = *cx.host();
        if host.smt == 1 && host.llc >= host.cpus {
            return best; // No idle CPU has more neighbours than another.
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

    /// Hands `e`, which is queued and was left waiting, over to an idle CPU that may run it and that nobody has
    /// called, if there is one.
    pub(crate) fn hand_off(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.is_hot(e, cx) {
            return;
        }
        let idle = self.idlers.and(&cx.allowed(e));
        let uncalled = cycle(self.vcpus[e.index()].home, &idle).find(|&cpu| !cx.kicked(cpu));
        if let Some(idle) = uncalled {
            self.queues.remove(e);
            self.set_home(e, idle);
            self.queues.insert(idle, e);
            cx.kick(idle);
        }
    }

    /// Hands over whoever in the queue of `cpu` an idle CPU may run.
    pub(crate) fn hand_off_queue(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let mut next = self.queues.first(cpu);
        while let Some(e) = next {
            next = self.queues.next(e);
            self.hand_off(e, cx);
        }
    }
}

/// Whether a choice of CPU is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commit {
    Yes,
    No,
}
