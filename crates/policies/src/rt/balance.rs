//! Where real-time entities run: the place of a wake-up, push and pull. After every decision, nobody waits while
//! a CPU it may use runs somebody less urgent.

use super::Rt;
use super::urgency::{Level, OTHER};
use sched::{CpuId, CpuSet, Cx, EntityId, Running};

impl Rt {
    /// The CPU for `e`, which has just become runnable: the one it was on, unless somebody at least as urgent is there and
    /// another CPU is less urgent. A throttled CPU keeps who was there.
    pub(super) fn place(&self, e: EntityId, cx: &Cx<'_>) -> CpuId {
        let task = &self.tasks[e.index()];
        let allowed = cx.allowed(e);
        let home = if allowed.contains(task.home) { Some(task.home) } else { None };
        let stays = home.filter(|&home| self.urgency.of(home).is_none_or(|there| there > task.level));
        let elsewhere = || self.least_urgent(e, &allowed, cx);
        let anywhere = || home.or_else(|| allowed.first()).expect("every entity may run somewhere");
        stays.or_else(elsewhere).unwrap_or_else(anywhere)
    }

    /// The least urgent CPU of `allowed`, if it is less urgent than `e`: of the idle ones, else of all, the one
    /// `e` was on, else one near to that.
    pub(super) fn least_urgent(&self, e: EntityId, allowed: &CpuSet, cx: &Cx<'_>) -> Option<CpuId> {
        let task = &self.tasks[e.index()];
        let (level, cpus) = self.urgency.least_among(allowed, task.level)?;
        let distance = |cpu: CpuId| {
            let host = cx.host();
            (cpu != task.home, !host.share_core(cpu, task.home), !host.share_cache(cpu, task.home), cpu)
        };
        let idles = |cpu: CpuId| cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        let idle = cpus.iter().filter(|&cpu| level == OTHER && idles(cpu)).min_by_key(|&cpu| distance(cpu));
        idle.or_else(|| cpus.iter().min_by_key(|&cpu| distance(cpu)))
    }

    /// Moves `e`, which waits, to the queue of `to`, last in its list, and calls that CPU.
    fn move_to(&mut self, e: EntityId, to: CpuId, cx: &mut Cx<'_>) {
        self.unqueue(e);
        self.enqueue_on(e, to, cx);
    }

    /// Moves whoever waits on `cpu`, the most urgent first, to CPUs that run somebody less urgent.
    pub(super) fn push(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        loop {
            let Some(least) = self.urgency.least() else { return };
            let Some((e, to)) = self.find_to_push(cpu, least, cx) else { return };
            assert_ne!(to, cpu, "it has just picked somebody more urgent");
            self.move_to(e, to, cx);
        }
    }

    /// The most urgent that waits on `cpu`, is more urgent than `least` and has somewhere to go; and where.
    fn find_to_push(&self, cpu: CpuId, least: Level, cx: &Cx<'_>) -> Option<(EntityId, CpuId)> {
        let mut urgent = self.queues.iter(cpu.index()).take_while(|&e| self.tasks[e.index()].level < least);
        urgent.find_map(|e| Some((e, self.least_urgent(e, &cx.allowed(e), cx)?)))
    }

    /// Gives `e`, which waits and has just become more urgent or more free to move, a CPU that runs somebody less
    /// urgent: its own first.
    pub(super) fn push_one(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Some(cpu) = self.queue_of(e) else { return };
        if self.cpus[cpu.index()].throttled {
            return;
        }
        if self.tasks[e.index()].level < self.running_level(cpu) {
            cx.kick(cpu);
        } else if let Some(to) = self.least_urgent(e, &cx.allowed(e), cx) {
            self.move_to(e, to, cx);
        }
    }

    /// Takes the most urgent that waits elsewhere and may run on `cpu` over to it, if it is more urgent than `than`.
    pub(super) fn pull(&mut self, cpu: CpuId, than: Level, cx: &mut Cx<'_>) {
        let mut best: Option<(Level, EntityId)> = None;
        for other in self.waiting.iter().filter(|&other| other != cpu) {
            if self.cpus[other.index()].throttled {
                continue;
            }
            let bar = best.map_or(than, |(level, _)| level);
            let about_to_run = self.about_to_run(other, cx);
            let mut urgent = self.queues.iter(other.index()).take_while(|&e| self.tasks[e.index()].level < bar);
            if let Some(e) = urgent.find(|&e| Some(e) != about_to_run && cx.may_run(e, cpu)) {
                best = Some((self.tasks[e.index()].level, e));
            }
        }
        if let Some((_, e)) = best {
            self.unqueue(e);
            self.queue_first(e, cpu, cx);
        }
    }

    /// Who has just been queued on `cpu` and will run there as soon as it picks.
    fn about_to_run(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let head = self.queues.first(cpu.index())?;
        (cx.kicked(cpu) && self.tasks[head.index()].level < self.running_level(cpu)).then_some(head)
    }
}
