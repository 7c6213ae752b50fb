//! Operations on a task and all group entities above it: charge, enqueue, dequeue, start and stop.

use super::node::NodeId;
use super::rule::Rule;
use super::runqueue::{Leaving, Placing, Tasks};
use super::{Buddy, Fair};
use sched::{CpuId, Cx, EntityId, Held, Nanos, Running};

impl<R: Rule> Fair<R> {
    // ---- Charging ----

    /// Charges `ran` to `e`, to the group entities above it, and to the quotas of its groups.
    pub(super) fn charge_chain(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            if R::charge(&mut self.queues, id, ran) {
                self.queues.clear_buddies(id);
                cx.kick(self.tasks[e.index()].cpu);
            }
            self.account(self.queues.node(id).queue, ran, cx);
            at = self.queues.above(id);
        }
        self.tasks[e.index()].ran_at = Some(cx.now());
    }

    /// Charges the running task of `cpu` up to now.
    pub(super) fn charge_current(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if let Some((e, ran)) = cx.take_ran(cpu) {
            self.charge_chain(e, ran, cx);
        }
    }

    // ---- Joining and leaving ----

    /// Makes `e` runnable on its CPU. The blocked group entities above `e` wake, too.
    pub(super) fn enqueue(&mut self, e: EntityId, placing: Placing, cx: &mut Cx<'_>) {
        let cpu = self.tasks[e.index()].cpu;
        let id = NodeId::task(e);
        // As in the kernel, a delayed task resumes before any clock is updated: `requeue_delayed_entity` precedes
        // `update_curr`.
        if !self.queues.node(id).delayed {
            self.charge_current(cpu, cx);
        }
        self.recency.push_back(cpu.index(), e);
        let one = Tasks { all: 1, idle: u32::from(self.queues.node(id).idle) };
        self.join_chain(id, placing, one, cx);
        self.count_averages(e, cx.now());
        self.note_task(e, cx.now());
        if self.queues.is_throttled(self.queues.node(id).queue) {
            self.hold(e, cx);
        }
        if self.queues.root(cpu).tasks.all >= 2 || cx.running(cpu) == Running::Above {
            self.arm_tick(cpu, cx);
        }
    }

    /// Adds `id` and the blocked group entities above it to their queues. Adds `tasks` to the runnable tasks of these
    /// queues and all queues above, up to the first throttled queue.
    pub(super) fn join_chain(&mut self, id: NodeId, mut placing: Placing, tasks: Tasks, cx: &mut Cx<'_>) {
        let mut at = Some(id);
        while let Some(id) = at {
            let queue = self.queues.node(id).queue;
            self.queues.update_share(id);
            if self.queues.node(id).delayed {
                R::resume(&mut self.queues, id);
            } else if !self.queues.node(id).queued {
                R::join(&mut self.queues, id, placing);
                if self.queues.queue(queue).nodes == 1 {
                    self.check_enqueue(queue, cx);
                }
            }
            self.queues.add_tasks(queue, tasks);
            if self.queues.queue(queue).throttled {
                return;
            }
            placing = Placing::Credit;
            at = self.queues.above(id);
        }
    }

    /// Makes `e` not runnable. A group entity above `e` blocks, too, if its queue has no other node.
    pub(super) fn dequeue(&mut self, e: EntityId, leaving: Leaving, cx: &mut Cx<'_>) {
        self.charge_current(self.tasks[e.index()].cpu, cx);
        self.recency.remove(e);
        self.release(e, cx);
        let id = NodeId::task(e);
        let one = Tasks { all: 1, idle: u32::from(self.queues.node(id).idle) };
        let stayed = self.leave_chain(id, leaving, one, cx);
        self.note_task(e, cx.now());
        // A task that blocks within its group's time slice leaves the remainder to the group.
        if leaving != Leaving::Move
            && let Some(part) = stayed
            && !self.queues.is_throttled(self.queues.node(part).queue)
        {
            self.queues.set_buddy(Buddy::Next, part);
        }
    }

    /// Removes `id` from its queue, and then each group entity above whose queue becomes empty. A node that the rule
    /// delays stays queued. Subtracts `tasks` from the runnable tasks of these queues and all queues above, up to the
    /// first throttled queue. Returns the lowest group entity that stays because its queue has other nodes, if the walk
    /// reaches it.
    pub(super) fn leave_chain(
        &mut self,
        id: NodeId,
        mut leaving: Leaving,
        tasks: Tasks,
        cx: &mut Cx<'_>,
    ) -> Option<NodeId> {
        let mut at = Some(id);
        let (mut leaves, mut stays) = (true, None);
        while let Some(id) = at {
            let queue = self.queues.node(id).queue;
            if leaves {
                leaves = R::leave(&mut self.queues, id, leaving);
                self.return_quota(queue, cx);
            } else {
                self.queues.update_share(id);
            }
            self.queues.sub_tasks(queue, tasks);
            if self.queues.queue(queue).throttled {
                return stays;
            }
            at = self.queues.above(id);
            if leaves && self.queues.queue(queue).nodes > 0 {
                (leaves, stays) = (false, at);
            }
            if leaving == Leaving::Move {
                leaving = Leaving::Sleep;
            }
        }
        stays
    }

    /// Removes `id`, which is delayed. A group entity above `id` blocks, too, if its queue has no other node.
    pub(super) fn finish(&mut self, id: NodeId, cx: &mut Cx<'_>) {
        self.charge_current(self.queues.queue(self.queues.node(id).queue).cpu, cx);
        let stayed = self.leave_chain(id, Leaving::Sleep, Tasks::default(), cx);
        match id.entity_index() {
            Some(index) => self.note_task(self.tasks[index].id, cx.now()),
            None => self.note_cpu(self.queues.queue(self.queues.node(id).queue).cpu, cx.now()),
        }
        if let Some(part) = stayed
            && !self.queues.is_throttled(self.queues.node(part).queue)
        {
            self.queues.set_buddy(Buddy::Next, part);
        }
    }

    // ---- Running and stopping ----

    /// Returns the next task to run on `cpu`. A delayed node that is next in the order leaves its queue instead.
    pub(super) fn choose(&mut self, cpu: CpuId, turn: u64, cx: &mut Cx<'_>) -> Option<EntityId> {
        while self.queues.root(cpu).nodes > 0 {
            let mut id = R::next_of(&self.queues, cpu.index(), turn);
            while !self.queues.node(id).delayed {
                match id.own_queue() {
                    Some(own) => id = R::next_of(&self.queues, own, turn),
                    None => return Some(self.tasks[id.entity_index().expect("a node without a queue is a task")].id),
                }
            }
            self.finish(id, cx);
        }
        None
    }

    /// Makes `e`, which waits, and the group entities above it current.
    pub(super) fn switch_in_chain(&mut self, e: EntityId, turn: u64) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.clear_buddies(id);
            self.queues.switch_in(id, turn);
            at = self.queues.above(id);
        }
    }

    /// Puts back `e`, which ran, and the group entities above it. Throttles the queues whose quota is used up.
    pub(super) fn switch_out_chain(&mut self, e: EntityId, turn: u64, cx: &mut Cx<'_>) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.switch_out(id, turn);
            self.check_used_up(self.queues.node(id).queue, cx);
            at = self.queues.above(id);
        }
    }

    /// Moves `e`, which keeps running, into another queue of the same CPU and makes `e` current there.
    pub(super) fn switch_queue(&mut self, e: EntityId, queue: usize, cx: &mut Cx<'_>) {
        let cpu = self.tasks[e.index()].cpu;
        self.switch_out_chain(e, 0, cx);
        self.requeue(e, queue, cx);
        let turn = self.cpus[cpu.index()].turn;
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.switch_in(id, turn);
            at = self.queues.above(id);
        }
        cx.kick(cpu);
    }

    /// Moves `e`, which waits, into another queue of the same CPU.
    pub(super) fn requeue(&mut self, e: EntityId, queue: usize, cx: &mut Cx<'_>) {
        self.dequeue(e, Leaving::Move, cx);
        self.queues.node_mut(NodeId::task(e)).queue = queue;
        self.enqueue(e, Placing::Keep, cx);
    }

    /// Moves `e`, which waits, to another CPU.
    pub(super) fn migrate(&mut self, e: EntityId, to: CpuId, cx: &mut Cx<'_>) {
        // The shares of the groups above `e` still include `e`.
        self.uncount_averages(e, cx.now());
        self.dequeue(e, Leaving::Move, cx);
        self.assign(e, to, cx);
        self.enqueue(e, Placing::Keep, cx);
    }

    /// Assigns `e`, which is not runnable, to `cpu`. On that CPU, `e` then counts as not cache-hot. The clock of `e`
    /// must be detached or not set yet.
    pub(super) fn assign(&mut self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) {
        if cpu != self.tasks[e.index()].cpu {
            self.uncount_averages(e, cx.now());
        }
        let queue = self.queues.queue_of(cx.params(e).group, cpu);
        self.queues.node_mut(NodeId::task(e)).queue = queue;
        let task = &mut self.tasks[e.index()];
        task.cpu = cpu;
        task.ran_at = None;
    }

    // ---- Holds ----

    pub(super) fn hold(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.tasks[e.index()].held, true) {
            cx.hold(e, Held::Throttled);
        }
    }

    pub(super) fn release(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.tasks[e.index()].held, false) {
            cx.release(e, Held::Throttled);
        }
    }
}
