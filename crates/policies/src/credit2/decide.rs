//! Decisions: the choice of an entity and its time slice, resets, and the CPUs that a wake-up kicks.

use super::{Credit2, Vcpu};
use crate::credit::cursor::next_in;
use sched::{CpuId, CpuSet, Cx, Decision, EntityId, Nanos, Running, State};

/// Returns `cpu` if `set` contains it, else the next CPU of `set`.
fn this_or_next(cpu: CpuId, set: &CpuSet) -> Option<CpuId> {
    if set.contains(cpu) { Some(cpu) } else { next_in(cpu, set) }
}

impl Credit2 {
    pub(super) fn decide(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Place { queue, siblings } = Place::of(self, cpu);
        self.queues[queue].answers(cpu, &siblings);
        let current = self.current(cpu, cx);
        let chosen = self.candidate(cpu, current, cx);
        let Some(e) = chosen else {
            self.queues[queue].set_idle(cpu, true, &siblings);
            self.hand_off(queue, cx);
            return Decision::IDLE;
        };
        let goes_on = current == Some(e);
        if !goes_on {
            self.waiting.remove(e);
            let now = cx.now();
            self.vcpu(e).begun = now;
        }
        self.queues[queue].set_idle(cpu, false, &siblings);
        let best_waiting = self.waiting.first(queue).map_or(i64::MIN, |(_, first)| self.vcpus[first.index()].credit);
        if self.vcpus[e.index()].credit.max(best_waiting) <= 0 {
            self.reset(queue, e, cx);
            self.balance(queue, cpu, e, cx);
        }
        let compensation = self.settings.migrate_compensation;
        let vcpu = self.vcpu(e);
        vcpu.tickled = None;
        vcpu.yielded = false;
        if vcpu.home != cpu {
            vcpu.credit += compensation;
            vcpu.home = cpu;
        }
        let given_way = current.filter(|_| !goes_on);
        let time = self.turn(e, queue, goes_on, given_way, cx);
        if let Some(stopped) = given_way {
            self.requeue(stopped, cx);
        }
        self.hand_off(queue, cx);
        Decision::until(e, cx.now() + time)
    }

    /// Returns the entity that has just stopped on `cpu`, if it may continue there. Otherwise, the entity is parked, or
    /// is enqueued on its new home.
    fn current(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Option<EntityId> {
        let e = self.cpus[cpu.index()].stopped.take()?;
        if !self.has_budget(e, cx) {
            if self.must_migrate(e, cx) {
                self.move_home(e, cx);
            }
            return None;
        }
        if self.must_migrate(e, cx) {
            self.requeue(e, cx);
            return None;
        }
        Some(e)
    }

    /// Enqueues `e`, which has stopped and waits, and returns its quota. If `e` has to migrate, first chooses its new
    /// home.
    fn requeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.return_budget(e, cx);
        if self.must_migrate(e, cx) {
            self.count_load(e, -1, cx);
            self.move_home(e, cx);
            self.count_load(e, 1, cx);
        }
        self.enqueue(e, cx);
    }

    /// Returns the entity to run on `cpu`: `current`, which ran until now, or a waiting entity.
    fn candidate(&mut self, cpu: CpuId, current: Option<EntityId>, cx: &mut Cx<'_>) -> Option<EntityId> {
        let now = cx.now();
        let mut yields = false;
        // Every entity has more credit than this.
        let mut to_beat = -self.settings.credit - 1;
        if let Some(e) = current {
            let vcpu = &self.vcpus[e.index()];
            (yields, to_beat) = (vcpu.yielded, vcpu.credit);
            if !yields && now.since(vcpu.begun) < self.settings.ratelimit {
                return current;
            }
        }
        let queue = self.cpus[cpu.index()].queue;
        // With hand-off, a CPU without a current entity takes any entity.
        let takes_any = current.is_none() && self.settings.hand_off;
        let mut next = self.waiting.first(queue);
        while let Some((_, e)) = next {
            next = self.waiting.next(e);
            let vcpu = self.vcpus[e.index()];
            if !cx.may_run(e, cpu) || self.is_left_to_another(&vcpu, cpu, queue) {
                continue;
            }
            if vcpu.home != cpu && to_beat + self.settings.migrate_resist > vcpu.credit && !takes_any {
                continue;
            }
            if !(yields || vcpu.credit > to_beat) {
                break;
            }
            if self.has_budget(e, cx) {
                return Some(e);
            }
            if !takes_any {
                break;
            }
        }
        current
    }

    /// Returns whether a CPU other than `cpu` was kicked for `vcpu` and has not picked yet.
    fn is_left_to_another(&self, vcpu: &Vcpu, cpu: CpuId, queue: usize) -> bool {
        vcpu.tickled.is_some_and(|other| other != cpu && self.queues[queue].tickled.contains(other))
    }

    /// Returns the time slice of `e`. `given_way`: the entity that ran before.
    fn turn(&self, e: EntityId, queue: usize, goes_on: bool, given_way: Option<EntityId>, cx: &Cx<'_>) -> Nanos {
        let vcpu = &self.vcpus[e.index()];
        let ran = if goes_on { cx.now().since(vcpu.begun) } else { Nanos::ZERO };
        let least = self.settings.min_timer.max(self.settings.ratelimit.saturating_sub(ran));
        let credit = |e: EntityId| self.vcpus[e.index()].credit;
        let first = self.waiting.first(queue).map(|(_, first)| credit(first));
        let stopped = given_way.filter(|_| self.settings.count_stopped).map(credit);
        let others = first.max(stopped).filter(|&others| others > 0).unwrap_or(0);
        let left = u64::try_from(vcpu.credit - others).unwrap_or(0);
        let mut time = Nanos::ns(left).scale(vcpu.weight, self.queues[queue].max_weight);
        if self.is_capped(e) {
            time = time.min(Nanos::ns(u64::try_from(vcpu.budget).unwrap_or(0)));
        }
        if time < least { least } else { time.min(self.settings.max_timer()) }
    }

    /// Gives every entity of a run queue new credit. `next` is the entity that is about to run.
    fn reset(&mut self, queue: usize, next: EntityId, cx: &mut Cx<'_>) {
        let credit = self.settings.credit;
        let most = credit + self.settings.carry_over;
        // If the credit of `next` was clipped, every entity receives double credit, so that `next` is out of debt, too.
        let given = if self.vcpus[next.index()].credit == -credit { 2 * credit } else { credit };
        let mut member = self.members.first(queue);
        while let Some(e) = member {
            member = self.members.next(e);
            if let State::Running(cpu) = cx.state(e) {
                self.burn_running(cpu, cx);
                self.check_budget(e, cx);
            }
            let vcpu = self.vcpu(e);
            vcpu.credit = (vcpu.credit + given).min(most);
        }
        // The order does not change, even among entities that now have equal credit.
        self.scratch.clear();
        while let Some((_, e)) = self.waiting.pop(queue) {
            self.scratch.push(e);
        }
        for n in 0..self.scratch.len() {
            self.queue(self.scratch[n]);
        }
    }

    // ---- Kicks ----

    /// Kicks `cpu`, and records the kick in its run queue.
    pub(super) fn call(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let Place { queue, siblings } = Place::of(self, cpu);
        self.queues[queue].tickle(cpu, &siblings);
        cx.kick(cpu);
    }

    /// Kicks the best CPU for `e`, which was just queued, if there is a CPU that should run `e` now.
    pub(super) fn tickle(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let home = self.vcpus[e.index()].home;
        let queue = self.cpus[home.index()].queue;
        let allowed = cx.allowed(e);
        let idle = this_or_next(home, &self.queues[queue].smt_idle.and(&allowed));
        let idle = idle.or_else(|| this_or_next(home, &self.queues[queue].free().and(&allowed)));
        if let Some(cpu) = idle.or_else(|| self.find_preempted(e, home, &allowed, cx)) {
            self.call(cpu, cx);
            self.vcpu(e).tickled = Some(cpu);
        }
    }

    /// Returns the busy CPU to preempt for `e`: its home, if the entity there has less credit. Otherwise, returns the
    /// CPU with the largest positive `score`, if any.
    fn find_preempted(&mut self, e: EntityId, home: CpuId, allowed: &CpuSet, cx: &mut Cx<'_>) -> Option<CpuId> {
        let queue = &self.queues[self.cpus[home.index()].queue];
        let mut busy = queue.cpus.minus(&queue.idle).minus(&queue.tickled).and(allowed);
        if busy.remove(home) && self.score(e, home, cx) > 0 {
            return Some(home);
        }
        let mut best = (0, None);
        for cpu in busy.iter() {
            let score = self.score(e, cpu, cx);
            if score > best.0 {
                best = (score, Some(cpu));
            }
        }
        best.1
    }

    /// Returns the credit of `e` minus the credit of the entity that runs on `cpu`. If `cpu` is not the home of `e`,
    /// also subtracts the migration resistance. The result is negative if the running entity has just begun its run, or
    /// if no entity runs.
    fn score(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) -> i64 {
        let Running::Mine { entity, .. } = cx.running(cpu) else { return -1 };
        let spared = self.settings.ratelimit.saturating_sub(self.settings.ratelimit_tolerance);
        if !spared.is_zero() && cx.now().since(self.vcpus[entity.index()].begun) <= spared {
            return -1;
        }
        self.burn_running(cpu, cx);
        let vcpu = &self.vcpus[e.index()];
        let resist = if vcpu.home == cpu { 0 } else { self.settings.migrate_resist };
        vcpu.credit - self.vcpus[entity.index()].credit - resist
    }

    /// Kicks idle CPUs for the entities in `queue`, except entities for which a kicked CPU has not picked yet.
    pub(super) fn hand_off(&mut self, queue: usize, cx: &mut Cx<'_>) {
        if !self.settings.hand_off || self.waiting.is_empty(queue) {
            return;
        }
        let mut free = self.queues[queue].free();
        let mut next = self.waiting.first(queue);
        while let Some((_, e)) = next
            && !free.is_empty()
        {
            next = self.waiting.next(e);
            let vcpu = self.vcpus[e.index()];
            let left = vcpu.tickled.is_some_and(|cpu| self.queues[queue].tickled.contains(cpu) && cx.may_run(e, cpu));
            if let Some(cpu) = this_or_next(vcpu.home, &free.and(&cx.allowed(e))).filter(|_| !left) {
                self.call(cpu, cx);
                self.vcpu(e).tickled = Some(cpu);
                free.remove(cpu);
            }
        }
    }
}

/// The run queue and core of a CPU.
struct Place {
    queue: usize,
    siblings: CpuSet,
}

impl Place {
    fn of(credit2: &Credit2, cpu: CpuId) -> Place {
        let cpu = &credit2.cpus[cpu.index()];
        Place { queue: cpu.queue, siblings: cpu.siblings }
    }
}
