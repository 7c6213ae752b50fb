//! [`Rule`]: the decisions that differ between fair policies. Examples are the order within a queue, the end of a run,
//! and the placement of a joining node.

use super::node::NodeId;
use super::order::Order;
use super::runqueue::{Leaving, Placing, RunQueues};
use sched::{CpuId, FairPosition, Nanos, Params, Virtual};

/// The result of a tick for the running node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The node continues.
    Stays,
    /// The time slice of the node is over.
    Expired,
    /// The node has run for the minimum time and is too far ahead of a waiting node.
    Ahead,
}

/// The event that made a task runnable on its current CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// The task woke.
    Woken,
    /// The task was forked.
    Forked,
    /// The task moved to another queue, or its weight changed.
    Other,
}

/// The rule of a fair policy: what happens to a node when it joins a queue, runs or leaves.
///
/// Every node has a clock, its vruntime. A call concerns one node in its queue. The fair class makes most calls for a
/// task first, then for the group entities above it.
pub(crate) trait Rule: Order {
    // ---- Joining and leaving ----

    /// Called after `id` was inserted into the tree of its queue.
    fn pushed(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Called before `id` is removed from the tree of its queue.
    fn pulled(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Sets the initial position of a forked task in its current queue. `from` is the vruntime of its parent if the
    /// parent is in this queue, otherwise of the current node of the queue. The task is not runnable yet and may later
    /// join another queue.
    fn place_forked(queues: &mut RunQueues<Self>, id: NodeId, from: Option<Virtual>);

    /// May let `child`, just placed, run before `parent`, the current node of the queue. Returns whether `child` will
    /// run first.
    fn let_pass(_queues: &mut RunQueues<Self>, _child: NodeId, _parent: NodeId) -> bool {
        false
    }

    /// Detaches the clock of `id`, which is not runnable and moves to another queue.
    fn detach_clock(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Moves `id`, which is blocked, to another queue, where its lag is the same as in this queue.
    fn move_sleeper(queues: &mut RunQueues<Self>, id: NodeId, queue: usize);

    /// Handles the move of the task `id`, which is not in a queue, to another class. The task may return later.
    /// `sleeps`: the task is blocked.
    fn leave_class(_queues: &mut RunQueues<Self>, _id: NodeId, _sleeps: bool) {}

    /// Prepares the task `id`, which is not runnable, for its return to its queue. The task keeps the distance from the
    /// queue's clock that it had when it left.
    fn come_back(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Charges CPU time in another class to `id`, which is not in a tree.
    fn owe(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos);

    /// Adds `id`, which is not queued, to its queue.
    fn join(queues: &mut RunQueues<Self>, id: NodeId, placing: Placing);

    /// Removes `id` from its queue. Returns whether `id` has left the queue. If not, `id` is `delayed`: blocked but
    /// still queued.
    fn leave(queues: &mut RunQueues<Self>, id: NodeId, leaving: Leaving) -> bool;

    /// Resumes `id`, which is delayed and becomes runnable again.
    fn resume(_queues: &mut RunQueues<Self>, id: NodeId) {
        unreachable!("{id:?} left its queue when it blocked")
    }

    /// Changes the weight of `id`, which may be in any state.
    fn reweigh(queues: &mut RunQueues<Self>, id: NodeId, weight: u64);

    /// Applies the parameters of the task `id`.
    fn ask(_queues: &mut RunQueues<Self>, _id: NodeId, _params: &Params) {}

    /// Updates the group entity `id` after the runnable nodes of its queue, or their requests, may have changed.
    fn resize(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    // ---- Running and stopping ----

    /// Charges `ran` to `id`, current in its queue. Returns whether `id` must stop.
    fn charge(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos) -> bool;

    /// Returns the result of a tick for `id`, current in its queue and charged.
    fn verdict(_queues: &RunQueues<Self>, _id: NodeId) -> Verdict {
        Verdict::Stays
    }

    /// Returns the next node of `queue`, which has a waiting node and no current node. If the next node is delayed, the
    /// node leaves its queue instead of running. A node that was put back in this `turn` of the CPU ran until now.
    fn next_of(queues: &RunQueues<Self>, queue: usize, turn: u64) -> NodeId;

    /// Records that `id` is now current in its queue. `goes_on`: the node was stopped at this instant and continues.
    fn started(_queues: &mut RunQueues<Self>, _id: NodeId, _goes_on: bool) {}

    /// Handles a yield of `id`, which runs.
    fn yielded(queues: &mut RunQueues<Self>, id: NodeId);

    // ---- Wake-up preemption ----

    /// Handles the arrival of the task `id` on the CPU of the running task `running`. Returns whether `id` was made a
    /// buddy.
    fn greet(queues: &mut RunQueues<Self>, id: NodeId, running: NodeId, arrival: Arrival) -> bool;

    /// Returns whether `wakee` preempts `running`, current in the same queue and charged. `greeted`: `wakee` was made a
    /// buddy already.
    fn preempts(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId, greeted: bool) -> bool;

    /// Prepares the preemption of `running`, which is current, by `wakee`, which may be in another queue of the CPU.
    fn preempted(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId);

    // ---- Inspection ----

    /// Returns the position of the task `id`, in the queue of `cpu`; `None` if the rule has more than one clock.
    fn position(_queues: &RunQueues<Self>, _id: NodeId, _cpu: CpuId) -> Option<FairPosition> {
        None
    }

    /// Passes the state of the task `id` to `show`.
    fn inspect(queues: &RunQueues<Self>, id: NodeId, show: &mut dyn FnMut(&'static str, i64));
}
