//! What concerns a task and all the parts above it at once: joining, leaving, running, stopping.

use super::node::NodeId;
use super::rule::Rule;
use super::runqueue::{Leaving, Placing, Tasks};
use super::{Buddy, Fair};
use sched::{CpuId, Cx, EntityId, Held, Nanos, Running};

impl<R: Rule> Fair<R> {
    // ---- Charging ----

    /// `e`, which runs, ran for so long: so did the parts above it, and its groups' quotas are the smaller for it.
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

    /// Charges whoever runs on `cpu` up to now.
    pub(super) fn charge_current(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if let Some((e, ran)) = cx.take_ran(cpu) {
            self.charge_chain(e, ran, cx);
        }
    }

    // ---- Joining and leaving ----

    /// Makes `e` runnable on the CPU it is on. Its parts above wake with it, where they slept.
    pub(super) fn enqueue(&mut self, e: EntityId, placing: Placing, cx: &mut Cx<'_>) {
        let cpu = self.tasks[e.index()].cpu;
        let id = NodeId::task(e);
        // Who is still queued goes on before anybody's clock is read: `requeue_delayed_entity` comes before `update_curr`.
        if !self.queues.node(id).delayed {
            self.charge_current(cpu, cx);
        }
        self.recency.push_back(cpu.index(), e);
        let one = Tasks { all: 1, idle: u32::from(self.queues.node(id).idle) };
        self.join_chain(id, placing, one, cx);
        if self.queues.is_throttled(self.queues.node(id).queue) {
            self.hold(e, cx);
        }
        if self.queues.root(cpu).tasks.all >= 2 || cx.running(cpu) == Running::Above {
            self.arm_tick(cpu, cx);
        }
    }

    /// `id` and the parts above it that sleep join their queues; `tasks` more are runnable in these and in all
    /// above, up to the first throttled one.
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

    /// Makes `e` not runnable any more. Its parts above sleep with it, where nobody else is left.
    pub(super) fn dequeue(&mut self, e: EntityId, leaving: Leaving, cx: &mut Cx<'_>) {
        self.charge_current(self.tasks[e.index()].cpu, cx);
        self.recency.remove(e);
        self.release(e, cx);
        let id = NodeId::task(e);
        let one = Tasks { all: 1, idle: u32::from(self.queues.node(id).idle) };
        let stayed = self.leave_chain(id, leaving, one, cx);
        // Who sleeps within its group's slice leaves the rest of it to the group.
        if leaving != Leaving::Move
            && let Some(part) = stayed
            && !self.queues.is_throttled(self.queues.node(part).queue)
        {
            self.queues.set_buddy(Buddy::Next, part);
        }
    }

    /// `id` leaves its queue, and so do the parts above it whose queues are empty then, unless they are delayed; `tasks`
    /// fewer are runnable in these and in all above, up to the first throttled one. Gives the lowest part that stays because
    /// others are left in it, if it is reached.
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

    /// `id`, which is delayed, leaves now. Its parts above sleep with it, where nobody else is left.
    pub(super) fn finish(&mut self, id: NodeId, cx: &mut Cx<'_>) {
        self.charge_current(self.queues.queue(self.queues.node(id).queue).cpu, cx);
        if let Some(part) = self.leave_chain(id, Leaving::Sleep, Tasks::default(), cx)
            && !self.queues.is_throttled(self.queues.node(part).queue)
        {
            self.queues.set_buddy(Buddy::Next, part);
        }
    }

    // ---- Running and stopping ----

    /// Whoever goes next on `cpu`. Delayed nodes whose turn it would be leave.
    pub(super) fn choose(&mut self, cpu: CpuId, turn: u64, cx: &mut Cx<'_>) -> Option<EntityId> {
        while self.queues.root(cpu).nodes > 0 {
            let mut id = R::next_of(&self.queues, cpu.index(), turn);
            while !self.queues.node(id).delayed {
                match id.own_queue() {
                    Some(own) => id = R::next_of(&self.queues, own, turn),
                    None => return Some(self.tasks[id.entity_index().expect("it is no part")].id),
                }
            }
            self.finish(id, cx);
        }
        None
    }

    /// `e`, which waits, and the parts above it are made current.
    pub(super) fn switch_in_chain(&mut self, e: EntityId, turn: u64) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.clear_buddies(id);
            self.queues.switch_in(id, turn);
            at = self.queues.above(id);
        }
    }

    /// `e`, which ran, and the parts above it are put back. Quotas that are used up take effect here.
    pub(super) fn switch_out_chain(&mut self, e: EntityId, turn: u64, cx: &mut Cx<'_>) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.switch_out(id, turn);
            self.check_used_up(self.queues.node(id).queue, cx);
            at = self.queues.above(id);
        }
    }

    /// Puts `e`, which runs on, into another queue of the same CPU, current there and above.
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

    /// Puts `e`, which waits, into another queue of the same CPU.
    pub(super) fn requeue(&mut self, e: EntityId, queue: usize, cx: &mut Cx<'_>) {
        self.dequeue(e, Leaving::Move, cx);
        self.queues.node_mut(NodeId::task(e)).queue = queue;
        self.enqueue(e, Placing::Keep, cx);
    }

    /// Moves `e`, which waits, to another CPU.
    pub(super) fn migrate(&mut self, e: EntityId, to: CpuId, cx: &mut Cx<'_>) {
        self.dequeue(e, Leaving::Move, cx);
        self.assign(e, to, cx);
        self.enqueue(e, Placing::Keep, cx);
    }

    /// `e`, not runnable and its vruntime relative, will next be runnable on `cpu`. It leaves its cache behind.
    pub(super) fn assign(&mut self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) {
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
