//! The loads of run queues, the assignment of entities to them, and load balancing between them.

use super::Credit2;
use super::runqueue::clock;
use crate::credit::cursor::next_in;
use sched::{CpuId, Cx, EntityId, State};

/// A candidate move of balancing, and the load difference that the move would leave.
#[derive(Clone, Copy, Debug)]
struct Move {
    left: i64,
    push: Option<EntityId>,
    pull: Option<EntityId>,
}

impl Credit2 {
    /// Counts `e` as runnable (`change` 1) or not (−1).
    pub(super) fn count_load(&mut self, e: EntityId, change: i64, cx: &Cx<'_>) {
        self.count_queue_load(self.queue_of(e), change, cx);
        self.update_load(e, clock(cx));
        self.vcpu(e).load.now += change;
    }

    fn count_queue_load(&mut self, queue: usize, change: i64, cx: &Cx<'_>) {
        let record = &mut self.queues[queue];
        record.load.update(&mut record.planned, clock(cx), &self.settings);
        record.load.now += change;
    }

    fn update_load(&mut self, e: EntityId, at: u64) {
        self.vcpus[e.index()].load.update(&mut 0, at, &self.settings);
    }

    // ---- Membership ----

    /// Recomputes the maximum weight in a run queue.
    pub(super) fn find_heaviest(&mut self, queue: usize) {
        let weights = self.members.iter(queue).map(|e| self.vcpus[e.index()].weight);
        self.queues[queue].max_weight = weights.max().unwrap_or(1);
    }

    /// Assigns `e`, which has no run queue, to the CPU `home` and its run queue.
    pub(super) fn assign(&mut self, e: EntityId, home: CpuId) {
        self.vcpu(e).home = home;
        let queue = self.queue_of(e);
        self.members.push_back(queue, e);
        let vcpu = &self.vcpus[e.index()];
        let record = &mut self.queues[queue];
        record.max_weight = record.max_weight.max(vcpu.weight);
        record.planned += vcpu.load.average;
    }

    /// Removes `e` from its run queue.
    pub(super) fn deassign(&mut self, e: EntityId) {
        let queue = self.queue_of(e);
        self.members.remove(e);
        let vcpu = &self.vcpus[e.index()];
        let record = &mut self.queues[queue];
        record.planned = (record.planned - vcpu.load.average).max(0);
        if vcpu.weight == record.max_weight {
            self.find_heaviest(queue);
        }
    }

    /// Chooses the home of `e`. `at` is its current run queue, if any. The home is in the run queue that balancing
    /// chose for `e`. Without such a queue, it is in the queue with the least expected load, excluding the load of `e`.
    pub(super) fn pick_home(&mut self, e: EntityId, at: Option<usize>, cx: &Cx<'_>) -> CpuId {
        let allowed = cx.allowed(e);
        let vcpu = &mut self.vcpus[e.index()];
        let own = vcpu.load.average;
        let asked = vcpu.migrate_to.take().filter(|&queue| !self.queues[queue].cpus.and(&allowed).is_empty());
        let expected = |queue: usize| {
            let planned = self.queues[queue].planned;
            if at == Some(queue) { (planned - own).max(0) } else { planned }
        };
        let open = (0..self.queues.len()).filter(|&queue| !self.queues[queue].cpus.and(&allowed).is_empty());
        let queue = asked.or_else(|| open.min_by_key(|&queue| expected(queue)));
        self.take_turn(queue.expect("an affinity contains a CPU"), e, cx)
    }

    /// Returns the next CPU of `queue`, in cyclic order, on which `e` may run.
    fn take_turn(&mut self, queue: usize, e: EntityId, cx: &Cx<'_>) -> CpuId {
        let record = &mut self.queues[queue];
        let cpu = next_in(record.cursor, &record.cpus.and(&cx.allowed(e))).expect("it may run in this run queue");
        record.cursor = cpu;
        cpu
    }

    /// Moves `e`, which is neither queued nor running nor counted as load, to the best CPU for `e`.
    pub(super) fn move_home(&mut self, e: EntityId, cx: &Cx<'_>) {
        let at = self.queue_of(e);
        let home = self.pick_home(e, Some(at), cx);
        self.settle_in(e, home);
    }

    fn settle_in(&mut self, e: EntityId, home: CpuId) {
        self.vcpu(e).tickled = None;
        if self.cpus[home.index()].queue == self.queue_of(e) {
            self.vcpu(e).home = home;
        } else {
            self.deassign(e);
            self.assign(e, home);
        }
    }

    /// Follows a change of the affinity of `e`: moves `e` if the affinity excludes its home. Otherwise, offers a queued
    /// `e` to idle CPUs.
    pub(super) fn follow_affinity(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let queued = self.waiting.contains(e);
        if cx.may_run(e, self.vcpus[e.index()].home) {
            // A wider affinity may contain an idle CPU.
            if queued {
                self.hand_off(self.queue_of(e), cx);
            }
        } else if queued {
            self.waiting.remove(e);
            self.count_load(e, -1, cx);
            self.move_home(e, cx);
            self.count_load(e, 1, cx);
            self.enqueue(e, cx);
        } else if !matches!(cx.state(e), State::Running(_)) && !self.is_about_to_be_queued(e) {
            self.move_home(e, cx);
        }
    }

    // ---- Balancing ----

    /// Balances `queue` with the queue whose load differs most from its own, by moving one entity or swapping two.
    /// `cpu` is about to run `chosen`.
    pub(super) fn balance(&mut self, queue: usize, cpu: CpuId, chosen: EntityId, cx: &mut Cx<'_>) {
        self.count_queue_load(queue, 0, cx);
        let mut furthest: Option<(usize, i64)> = None;
        for other in (0..self.queues.len()).filter(|&other| other != queue) {
            self.count_queue_load(other, 0, cx);
            let differs = (self.queues[queue].planned - self.queues[other].planned).abs();
            if differs > furthest.map_or(0, |(_, most)| most) {
                furthest = Some((other, differs));
            }
        }
        let Some((other, differs)) = furthest.filter(|&(other, differs)| self.is_worth_it(queue, other, differs))
        else {
            return;
        };
        let best = self.best_move(queue, other, differs, cx);
        let moves = [(best.push, other), (best.pull, queue)];
        for (e, to) in moves.into_iter().filter_map(|(e, to)| Some((e?, to))) {
            self.migrate(e, to, (cpu, chosen), cx);
        }
    }

    /// Returns whether the loads differ by at least the tolerance. The tolerance follows from `balance_over` if the
    /// higher load is at least the number of CPUs of the larger queue, and otherwise from `balance_under`.
    fn is_worth_it(&self, one: usize, other: usize, differs: i64) -> bool {
        let [one, other] = [one, other].map(|queue| &self.queues[queue]);
        let cpus = i64::try_from(one.cpus.len().max(other.cpus.len())).expect("few");
        let spare = one.planned.max(other.planned) < cpus << self.settings.precision_shift;
        let shift = if spare { self.settings.balance_under } else { self.settings.balance_over };
        differs >= self.settings.tolerance(shift)
    }

    fn best_move(&mut self, queue: usize, other: usize, differs: i64, cx: &Cx<'_>) -> Move {
        let at = clock(cx);
        for queue in [queue, other] {
            let mut member = self.members.first(queue);
            while let Some(e) = member {
                member = self.members.next(e);
                self.update_load(e, at);
            }
        }
        let difference = self.queues[queue].planned - self.queues[other].planned;
        let load = |e: Option<EntityId>| e.map_or(0, |e| self.vcpus[e.index()].load.average);
        let mut best = Move { left: differs, push: None, pull: None };
        let mut consider = |push: Option<EntityId>, pull: Option<EntityId>| {
            let left = (difference - 2 * load(push) + 2 * load(pull)).abs();
            if left < best.left {
                best = Move { left, push, pull };
            }
        };
        let movable = |e: &EntityId, to: usize| self.is_movable(*e, to, cx);
        for push in self.members.iter(queue).filter(|e| movable(e, other)) {
            for pull in self.members.iter(other).filter(|e| movable(e, queue)) {
                consider(Some(push), Some(pull));
            }
            consider(Some(push), None);
        }
        for pull in self.members.iter(other).filter(|e| movable(e, queue)) {
            consider(None, Some(pull));
        }
        best
    }

    fn is_movable(&self, e: EntityId, to: usize, cx: &Cx<'_>) -> bool {
        self.vcpus[e.index()].migrate_to.is_none()
            && (cx.may_run_anywhere(e) || !self.queues[to].cpus.and(&cx.allowed(e)).is_empty())
    }

    /// Moves `e` to another run queue: at once if `e` is blocked, queued or parked, and otherwise when it next stops or
    /// is queued.
    fn migrate(&mut self, e: EntityId, to: usize, (cpu, chosen): (CpuId, EntityId), cx: &mut Cx<'_>) {
        let queued = self.waiting.contains(e);
        let state = cx.state(e);
        if state == State::Blocked || queued || self.vcpus[e.index()].parked {
            let from = self.queue_of(e);
            if queued {
                self.waiting.remove(e);
                self.count_queue_load(from, -1, cx);
            }
            let home = self.take_turn(to, e, cx);
            self.settle_in(e, home);
            if queued {
                self.count_queue_load(to, 1, cx);
                self.enqueue(e, cx);
            }
            return;
        }
        self.vcpu(e).migrate_to = Some(to);
        match state {
            State::Running(there) => self.call(there, cx),
            _ if e == chosen => self.call(cpu, cx),
            _ => {} // The entity has stopped at this instant and is about to be queued.
        }
    }
}
