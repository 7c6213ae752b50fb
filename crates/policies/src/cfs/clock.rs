//! The order of the run queues: vruntime, CPU time divided by weight (rules 1 to 10 of the essay).

use super::tunables::Times;
use crate::fair::{Arrival, Buddy, Leaving, Node, NodeId, Order, Placing, Rule, RunQueues, Verdict};
use sched::{CpuId, FairPosition, Nanos, Virtual};

/// The rule: minimum vruntime first.
#[derive(Debug)]
pub(crate) struct LeastVruntime(pub(super) Times);

/// The CFS state of a node. The vruntime is relative to `min_vruntime` while the node moves between queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Value of `sum_exec` at the last dispatch of the node.
    picked_exec: Nanos,
    /// Whether the vruntime of the node is relative.
    relative: bool,
}

type Queues = RunQueues<LeastVruntime>;

impl Queues {
    // ---- Rule 1: charge ----

    /// Advances `min_vruntime` to the least vruntime of the runnable nodes in `queue`; `min_vruntime` never decreases.
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

    // ---- Rule 2: period and time slice ----

    /// Returns the time slice of `id`: its part of the round. For a node that is not runnable, returns the part that
    /// the node would have.
    fn slice(&self, id: NodeId) -> Nanos {
        let queue = self.queue(self.node(id).queue);
        let tasks = if self.rule.0.alt_period { self.root(queue.cpu).tasks.all } else { queue.nodes };
        let mut slice = self.rule.0.period(tasks + u32::from(!self.node(id).queued));
        let mut at = Some(id);
        while let Some(id) = at {
            let node = self.node(id);
            let missing = if node.queued { 0 } else { node.weight };
            slice = slice.scale(node.weight, self.queue(node.queue).load + missing);
            at = self.above(id);
        }
        if self.rule.0.base_slice { slice.max(self.rule.0.min_granularity) } else { slice }
    }

    // ---- Rules 3 to 5: placement ----

    /// Gives `id` a sleeper's credit: raises its vruntime to at least `min_vruntime` minus the credit (rule 4).
    fn place_sleeper(&mut self, id: NodeId) {
        let earliest = self.queue(self.node(id).queue).min_vruntime.minus(self.rule.0.credit);
        let node = self.node_mut(id);
        node.vruntime = node.vruntime.max(earliest);
    }

    /// If the vruntime of `id` is relative, makes it absolute in the current queue of `id`.
    fn attach_clock(&mut self, id: NodeId) {
        let min = self.queue(self.node(id).queue).min_vruntime;
        let node = self.node_mut(id);
        if node.own.relative {
            node.vruntime = min.moved(node.vruntime.as_ns());
            node.own.relative = false;
        }
    }

    // ---- Rule 7: wake-up preemption ----

    /// Returns whether `other`, of the same queue, is behind `id` by more than the wake-up granularity of `other`.
    fn is_far_behind(&self, other: NodeId, id: NodeId) -> bool {
        let ahead = self.node(id).vruntime.ahead_of(self.node(other).vruntime);
        ahead > self.scaled(self.rule.0.wakeup_granularity, other).as_ns().cast_signed()
    }

    /// Returns whether the queue of `id` is long enough for the knobs `next-buddy` and `last-buddy`.
    fn has_long_queue(&self, id: NodeId) -> bool {
        self.queue(self.node(id).queue).nodes >= self.rule.0.long_queue
    }
}

impl Order for LeastVruntime {
    type Node = Clock;
    type Queue = ();
    type Key = (Virtual, u64);
    type Summary = ();

    const NODE: Clock = Clock { picked_exec: Nanos::ZERO, relative: false };
    const QUEUE: () = ();

    fn order(node: &Node<Clock>, arrival: u64) -> ((Virtual, u64), ()) {
        ((node.vruntime, arrival), ())
    }
}

impl Rule for LeastVruntime {
    // ---- Joining and leaving ----

    /// Places the child at `from`, but not before the `min_vruntime` of its queue. With `start_debit`, the child starts
    /// at least a time slice after `min_vruntime`.
    fn place_forked(queues: &mut Queues, id: NodeId, from: Option<Virtual>) {
        let min = queues.queue(queues.node(id).queue).min_vruntime;
        let debit = if queues.rule.0.start_debit { queues.scaled(queues.slice(id), id) } else { Nanos::ZERO };
        let start = min.plus(debit);
        queues.node_mut(id).vruntime = from.map_or(start, |from| from.max(start));
    }

    /// Swaps the vruntimes of child and parent if the child is to run first and the parent's vruntime is earlier.
    fn let_pass(queues: &mut Queues, child: NodeId, parent: NodeId) -> bool {
        let (of_child, of_parent) = (queues.node(child).vruntime, queues.node(parent).vruntime);
        let passes = queues.rule.0.child_runs_first && of_parent < of_child;
        if passes {
            queues.node_mut(child).vruntime = of_parent;
            queues.node_mut(parent).vruntime = of_child;
        }
        passes
    }

    fn detach_clock(queues: &mut Queues, id: NodeId) {
        let min = queues.queue(queues.node(id).queue).min_vruntime;
        let node = queues.node_mut(id);
        assert!(!node.own.relative, "a vruntime is made relative once");
        node.vruntime = Virtual::ZERO.moved(node.vruntime.ahead_of(min));
        node.own.relative = true;
    }

    fn move_sleeper(queues: &mut Queues, id: NodeId, queue: usize) {
        queues.place_sleeper(id);
        LeastVruntime::detach_clock(queues, id);
        queues.node_mut(id).queue = queue;
        queues.attach_clock(id);
    }

    /// Makes the vruntime relative; a sleep counts for at most a sleeper's credit. Source: `switched_from_fair`.
    fn leave_class(queues: &mut Queues, id: NodeId, sleeps: bool) {
        if sleeps {
            queues.place_sleeper(id);
        }
        LeastVruntime::detach_clock(queues, id);
    }

    fn come_back(queues: &mut Queues, id: NodeId) {
        queues.attach_clock(id);
    }

    fn owe(queues: &mut Queues, id: NodeId, ran: Nanos) {
        queues.run_clock(id, ran, queues.rule.0.exact_clock);
    }

    fn join(queues: &mut Queues, id: NodeId, placing: Placing) {
        queues.attach_clock(id);
        if placing == Placing::Credit {
            queues.place_sleeper(id);
        }
        queues.count_in(id);
        if queues.queue(queues.node(id).queue).current != Some(id) {
            queues.push(id);
        }
    }

    fn leave(queues: &mut Queues, id: NodeId, leaving: Leaving) -> bool {
        queues.clear_buddies(id);
        let queue = queues.node(id).queue;
        if queues.queue(queue).current != Some(id) {
            queues.pull(id);
        }
        queues.count_out(id);
        if leaving == Leaving::Move {
            // The removal of the node may advance `min_vruntime`, so the vruntime is made relative first.
            LeastVruntime::detach_clock(queues, id);
        }
        queues.advance(queue);
        true
    }

    /// Keeps the vruntime (rule 10).
    fn reweigh(queues: &mut Queues, id: NodeId, weight: u64) {
        queues.set_weight(id, weight);
    }

    // ---- Running and stopping ----

    fn charge(queues: &mut Queues, id: NodeId, ran: Nanos) -> bool {
        queues.run_clock(id, ran, queues.rule.0.exact_clock);
        queues.advance(queues.node(id).queue);
        false
    }

    /// Applies rule 6.
    fn verdict(queues: &Queues, id: NodeId) -> Verdict {
        let node = queues.node(id);
        if queues.queue(node.queue).nodes < 2 {
            return Verdict::Stays;
        }
        let ran = node.sum_exec - node.own.picked_exec;
        let slice = queues.slice(id);
        if ran > slice {
            return Verdict::Expired;
        }
        let Some(first) = queues.first(node.queue).filter(|_| ran >= queues.rule.0.min_granularity) else {
            return Verdict::Stays;
        };
        // The kernel compares virtual with wall time here, and so does this code.
        let ahead = node.vruntime.ahead_of(queues.node(first).vruntime);
        if ahead > slice.as_ns().cast_signed() { Verdict::Ahead } else { Verdict::Stays }
    }

    /// Applies rule 8.
    fn next_of(queues: &Queues, queue: usize, _turn: u64) -> NodeId {
        assert!(queues.queue(queue).current.is_none(), "the current node has been put back");
        let first = queues.first(queue).expect("a node waits");
        let fair = |id: &NodeId| !queues.is_far_behind(first, *id);
        let mut chosen = first;
        if queues.buddy(queue, Buddy::Skip) == Some(first) {
            chosen = queues.next(first).filter(fair).unwrap_or(first);
        }
        for which in [Buddy::Last, Buddy::Next] {
            chosen = queues.buddy(queue, which).filter(fair).unwrap_or(chosen);
        }
        chosen
    }

    /// Starts a new time slice, unless the node continues.
    fn started(queues: &mut Queues, id: NodeId, goes_on: bool) {
        let node = queues.node_mut(id);
        if !goes_on {
            node.own.picked_exec = node.sum_exec;
        }
    }

    /// Applies rule 9.
    fn yielded(queues: &mut Queues, id: NodeId) {
        queues.clear_buddies(id);
        queues.set_buddy(Buddy::Skip, id);
    }

    // ---- Rule 7: wake-up preemption ----

    fn greet(queues: &mut Queues, id: NodeId, running: NodeId, arrival: Arrival) -> bool {
        let is_preferred = queues.rule.0.next_buddy && queues.has_long_queue(running) && arrival != Arrival::Forked;
        if is_preferred {
            queues.set_buddy(Buddy::Next, id);
        }
        is_preferred
    }

    fn preempts(queues: &mut Queues, wakee: NodeId, running: NodeId, greeted: bool) -> bool {
        let preempts = queues.is_far_behind(wakee, running);
        if preempts && !greeted {
            queues.set_buddy(Buddy::Next, wakee);
        }
        preempts
    }

    /// Makes the preempted task the last buddy if its queue is long.
    fn preempted(queues: &mut Queues, _wakee: NodeId, running: NodeId) {
        let is_task = running.entity_index().is_some();
        if queues.rule.0.last_buddy && queues.has_long_queue(running) && is_task && queues.node(running).queued {
            queues.set_buddy(Buddy::Last, running);
        }
    }

    fn position(queues: &Queues, id: NodeId, cpu: CpuId) -> Option<FairPosition> {
        let node = queues.node(id);
        Some(FairPosition {
            vruntime: node.vruntime,
            min_vruntime: queues.queue(node.queue).min_vruntime,
            wakeup_granularity: queues.scaled(queues.rule.0.wakeup_granularity, id),
            latency: queues.rule.0.latency,
            cpu,
        })
    }

    fn inspect(queues: &Queues, id: NodeId, show: &mut dyn FnMut(&'static str, i64)) {
        show("slice", queues.slice(id).as_ns().cast_signed());
        show("min_vruntime", queues.queue(queues.node(id).queue).min_vruntime.as_ns());
        show("wakeup-granularity", queues.scaled(queues.rule.0.wakeup_granularity, id).as_ns().cast_signed());
        show("latency", queues.rule.0.latency.as_ns().cast_signed());
    }
}
