//! The order of the queues: vruntime, CPU time divided by weight (rules 1 to 8 of the essay).

use super::runqueue::{Buddy, Leaving, NICE_0, NodeId, Placing, RunQueues};
use sched::{Nanos, Virtual};

/// What a tick finds out about who runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It goes on.
    Stays,
    /// Its slice is over.
    Expired,
    /// It has had its minimum and somebody waits too far behind it.
    Ahead,
}

impl RunQueues {
    /// `time` on the virtual clock of `id`: `⌊time · 1024 / weight⌋`.
    fn scaled(&self, time: Nanos, id: NodeId) -> Nanos {
        let weight = self.node(id).weight;
        if weight == NICE_0 { time } else { time.scale(NICE_0, weight) }
    }

    // ---- Rule 1: charge ----

    /// `id`, current in its queue, ran for so long.
    pub(super) fn charge(&mut self, id: NodeId, ran: Nanos) {
        let by = self.scaled(ran, id);
        let node = self.node_mut(id);
        node.sum_exec += ran;
        node.vruntime = node.vruntime.plus(by);
        let queue = node.queue;
        self.advance(queue);
    }

    /// `min_vruntime` follows the least runnable vruntime of `queue`, never backwards.
    fn advance(&mut self, queue: usize) {
        let current = self.queue(queue).current.filter(|&id| self.node(id).queued);
        let current = current.map(|id| self.node(id).vruntime);
        let first = self.first(queue).map(|id| self.node(id).vruntime);
        let least = match (current, first) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return,
        };
        let queue = self.queue_mut(queue);
        queue.min_vruntime = queue.min_vruntime.max(least);
    }

    // ---- Rule 2: period and slice ----

    /// How long `id` may run in one go: its part of the round, or, if it is not runnable, what would be its part.
    pub(super) fn slice(&self, id: NodeId) -> Nanos {
        let queue = self.queue(self.node(id).queue);
        let tasks = if self.tunables.alt_period { self.root(queue.cpu).tasks.all } else { queue.nodes };
        let mut slice = self.tunables.period(tasks + u32::from(!self.node(id).queued));
        let mut at = Some(id);
        while let Some(id) = at {
            let node = self.node(id);
            let missing = if node.queued { 0 } else { node.weight };
            slice = slice.scale(node.weight, self.queue(node.queue).load + missing);
            at = self.above(id);
        }
        if self.tunables.base_slice { slice.max(self.tunables.min_granularity) } else { slice }
    }

    // ---- Rules 3 to 5: placement ----

    /// A forked task, not runnable yet: it starts at `from`, the vruntime of whoever forked it, but not before the
    /// queue it is made on, and a slice later than that. Relative from here on, for it may run elsewhere.
    pub(super) fn place_forked(&mut self, id: NodeId, from: Option<Virtual>) {
        let min = self.queue(self.node(id).queue).min_vruntime;
        let debit = if self.tunables.start_debit { self.scaled(self.slice(id), id) } else { Nanos::ZERO };
        let start = min.plus(debit);
        self.node_mut(id).vruntime = from.map_or(start, |from| from.max(start));
    }

    /// Lets `child`, just placed, go before `parent`, which is current: they change clocks if need be. Says whether.
    pub(super) fn let_pass(&mut self, child: NodeId, parent: NodeId) -> bool {
        let (of_child, of_parent) = (self.node(child).vruntime, self.node(parent).vruntime);
        if of_parent < of_child {
            self.node_mut(child).vruntime = of_parent;
            self.node_mut(parent).vruntime = of_child;
        }
        of_parent < of_child
    }

    /// Makes the vruntime of `id`, not runnable, relative to the queue it was in.
    pub(super) fn detach_clock(&mut self, id: NodeId) {
        let min = self.queue(self.node(id).queue).min_vruntime;
        let node = self.node_mut(id);
        assert!(!node.relative, "a vruntime is made relative once");
        node.vruntime = Virtual::ZERO.moved(node.vruntime.ahead_of(min));
        node.relative = true;
    }

    /// A sleeper's credit: `id` is at most so far before `min_vruntime` (rule 4).
    fn place_sleeper(&mut self, id: NodeId) {
        let earliest = self.queue(self.node(id).queue).min_vruntime.minus(self.tunables.credit);
        let node = self.node_mut(id);
        node.vruntime = node.vruntime.max(earliest);
    }

    /// Makes a relative vruntime one of the queue `id` is in now.
    fn attach_clock(&mut self, id: NodeId) {
        let min = self.queue(self.node(id).queue).min_vruntime;
        let node = self.node_mut(id);
        if node.relative {
            node.vruntime = min.moved(node.vruntime.as_ns());
            node.relative = false;
        }
    }

    /// Puts `id`, which sleeps, into another queue, where it will be as far behind as it would be here.
    pub(super) fn move_sleeper(&mut self, id: NodeId, queue: usize) {
        self.place_sleeper(id);
        self.detach_clock(id);
        self.node_mut(id).queue = queue;
        self.attach_clock(id);
    }

    /// `id` becomes runnable in its queue.
    pub(super) fn join(&mut self, id: NodeId, placing: Placing) {
        self.attach_clock(id);
        if placing == Placing::Credit {
            self.place_sleeper(id);
        }
        self.count_in(id);
        if self.queue(self.node(id).queue).current != Some(id) {
            self.push(id);
        }
    }

    /// `id` is runnable no more.
    pub(super) fn leave(&mut self, id: NodeId, leaving: Leaving) {
        self.clear_buddies(id);
        let queue = self.node(id).queue;
        if self.queue(queue).current != Some(id) {
            self.pull(id);
        }
        self.count_out(id);
        self.node_mut(id).put_in = 0;
        if leaving == Leaving::Move {
            // Before min_vruntime moves on because this one left.
            self.detach_clock(id);
        }
        self.advance(queue);
    }

    // ---- Rule 6: the tick ----

    /// What a tick finds about `id`, current in its queue and charged.
    pub(super) fn verdict(&self, id: NodeId) -> Verdict {
        let node = self.node(id);
        if self.queue(node.queue).nodes < 2 {
            return Verdict::Stays;
        }
        let ran = node.sum_exec - node.picked_exec;
        let slice = self.slice(id);
        if ran > slice {
            return Verdict::Expired;
        }
        let Some(first) = self.first(node.queue).filter(|_| ran >= self.tunables.min_granularity) else {
            return Verdict::Stays;
        };
        // The kernel compares virtual with wall time here, and so do we.
        let ahead = node.vruntime.ahead_of(self.node(first).vruntime);
        if ahead > slice.as_ns().cast_signed() { Verdict::Ahead } else { Verdict::Stays }
    }

    // ---- Rule 7: wake-up preemption ----

    /// Whether `other`, of the same queue, is more than a wake-up granularity of its own behind `id`.
    pub(super) fn is_far_behind(&self, other: NodeId, id: NodeId) -> bool {
        let ahead = self.node(id).vruntime.ahead_of(self.node(other).vruntime);
        ahead > self.scaled(self.tunables.wakeup_granularity, other).as_ns().cast_signed()
    }

    /// `a` and `b`, runnable on one CPU, or the parts above them, in the queue they have in common.
    pub(super) fn siblings(&self, mut a: NodeId, mut b: NodeId) -> (NodeId, NodeId) {
        let depth = |id: NodeId| self.queue(self.node(id).queue).depth;
        let up = |id: NodeId| self.above(id).expect("below the root there is a part above");
        while self.node(a).queue != self.node(b).queue {
            let (of_a, of_b) = (depth(a), depth(b));
            if of_a >= of_b {
                a = up(a);
            }
            if of_b >= of_a {
                b = up(b);
            }
        }
        (a, b)
    }

    // ---- Rule 8: pick ----

    /// Who of `queue`, where somebody waits and nobody is current, goes next.
    pub(super) fn next_of(&mut self, queue: usize) -> NodeId {
        assert!(self.queue(queue).current.is_none(), "whoever was current has been put back");
        let first = self.first(queue).expect("somebody waits");
        let fair = |id: &NodeId| !self.is_far_behind(first, *id);
        let mut chosen = first;
        if self.buddy(queue, Buddy::Skip) == Some(first) {
            chosen = self.next(first).filter(fair).unwrap_or(first);
        }
        for which in [Buddy::Last, Buddy::Next] {
            chosen = self.buddy(queue, which).filter(fair).unwrap_or(chosen);
        }
        self.clear_buddies(chosen);
        chosen
    }

    /// Makes `id` current in its queue. It begins a new slice unless it goes on where it was put back in this
    /// very turn.
    pub(super) fn switch_in(&mut self, id: NodeId, turn: u64) {
        if self.node(id).queued {
            self.pull(id);
        }
        let node = self.node_mut(id);
        if node.put_in != turn {
            node.picked_exec = node.sum_exec;
        }
        let queue = node.queue;
        self.queue_mut(queue).current = Some(id);
    }

    /// Puts `id`, current in its queue, back; into the tree if it is still runnable.
    pub(super) fn switch_out(&mut self, id: NodeId, turn: u64) {
        let queue = self.node(id).queue;
        assert_eq!(self.queue(queue).current, Some(id), "who stops was running");
        self.queue_mut(queue).current = None;
        if self.node(id).queued {
            self.push(id);
            self.node_mut(id).put_in = turn;
        }
    }
}
