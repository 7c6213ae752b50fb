//! The changes of the run queues that involve the [`Rule`]: membership, waiting, running, and the weights of group
//! entities.

use super::node::{Node, NodeId, load_of};
use super::rule::Rule;
use super::runqueue::{GroupShare, RunQueues, SHARES_LEAST, Tasks, ratio};
use sched::{EntityId, Nanos, Params};

impl<R: Rule> RunQueues<R> {
    // ---- Membership ----

    /// Creates the node of `e`, which is blocked, and assigns it to `queue`.
    pub(crate) fn open_task(&mut self, e: EntityId, queue: usize, params: &Params) {
        let vruntime = self.queues[queue].min_vruntime;
        let (id, (weight, idle)) = (NodeId::task(e), load_of(params));
        self.open(id, Node { weight, vruntime, queue, idle, ..Node::new(R::NODE) });
        R::ask(self, id, params);
    }

    /// Restores the node of a task that has returned from another class and is not runnable yet. `params` are its
    /// current parameters.
    pub(crate) fn reopen_task(&mut self, e: EntityId, queue: usize, params: &Params) {
        let (id, (weight, idle)) = (NodeId::task(e), load_of(params));
        R::reweigh(self, id, weight);
        let node = self.node_mut(id);
        (node.queue, node.idle, node.put_in) = (queue, idle, 0);
        R::come_back(self, id);
        R::ask(self, id, params);
    }

    /// Charges CPU time in another class to `id`, which does not run, and to the group entities above it.
    pub(crate) fn owe(&mut self, id: NodeId, ran: Nanos) {
        let mut at = Some(id);
        while let Some(id) = at {
            let waits = self.is_in_tree(id);
            if waits {
                self.pull(id);
            }
            R::owe(self, id, ran);
            if waits {
                self.push(id);
            }
            at = self.above(id);
        }
    }

    // ---- The tree ----

    /// Puts `id`, which is queued and not current, into the tree of its queue, behind nodes with an equal key.
    pub(crate) fn push(&mut self, id: NodeId) {
        self.arrivals += 1;
        let node = self.node(id);
        let (queue, (key, summary)) = (node.queue, R::order(node, self.arrivals));
        self.trees.push_with(queue, key, summary, id.key());
        R::pushed(self, id);
    }

    /// Removes `id` from the tree of its queue.
    pub(crate) fn pull(&mut self, id: NodeId) {
        R::pulled(self, id);
        let was_there = self.trees.remove(id.key());
        assert!(was_there, "{id:?} waits");
    }

    // ---- Running and stopping ----

    /// Makes `id` current in its queue. The node counts as continuing if it was put back in the same decision.
    pub(crate) fn switch_in(&mut self, id: NodeId, turn: u64) {
        if self.node(id).queued {
            self.pull(id);
        }
        let Node { queue, put_in, .. } = *self.node(id);
        self.queues[queue].current = Some(id);
        R::started(self, id, put_in == turn);
    }

    /// Puts back `id`, current in its queue. The node joins the tree if it is still queued.
    pub(crate) fn switch_out(&mut self, id: NodeId, turn: u64) {
        let queue = &mut self.queues[self.nodes[id.index()].queue];
        assert_eq!(queue.current, Some(id), "the stopped node was running");
        queue.current = None;
        queue.put_back = Some(id);
        if self.node(id).queued {
            self.push(id);
            self.node_mut(id).put_in = turn;
        }
    }

    // ---- Weights ----

    /// Sets the weight of a group entity to `shares · load of its queue / load of the group on all CPUs`. The weight is
    /// at least 2 and at most `shares`. A task keeps its own weight.
    pub(crate) fn update_share(&mut self, id: NodeId) {
        let Some(own) = id.own_queue() else { return };
        if self.node(id).delayed && self.queues[own].nodes == 0 {
            // A delayed group entity with an empty queue keeps its weight until its debt is paid.
            return;
        }
        let GroupShare { shares, load } = self.groups[self.queues[own].group];
        let weight = ratio(shares, self.queues[own].load, load.max(1)).clamp(SHARES_LEAST, shares);
        if weight != self.node(id).weight {
            R::reweigh(self, id, weight);
        }
        R::resize(self, id);
    }

    /// Updates the weight of `id` and of the group entities above it.
    pub(crate) fn update_shares_from(&mut self, id: NodeId) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.update_share(id);
            at = self.above(id);
        }
    }

    /// Corrects the SCHED_IDLE counts after the runnable task `id` has changed its class. Also updates the weights of
    /// the group entities above `id`.
    pub(crate) fn recount_idle(&mut self, id: NodeId, was_idle: bool) {
        let is_idle = self.node(id).idle;
        let one = Tasks { all: 0, idle: 1 };
        let mut at = Some(id);
        while let Some(id) = at {
            let queue = self.node(id).queue;
            match (was_idle, is_idle) {
                (false, true) => self.add_tasks(queue, one),
                (true, false) => self.sub_tasks(queue, one),
                _ => {}
            }
            if self.queues[queue].throttled {
                break;
            }
            at = self.above(id);
        }
        self.update_shares_from(id);
    }
}
