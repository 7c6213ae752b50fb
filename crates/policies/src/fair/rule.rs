//! [`Rule`]: the part that the fair class leaves open: the order within a queue, the end of a run, and the placement of
//! a node that joins.

use super::node::NodeId;
use super::order::Order;
use super::runqueue::{Leaving, Placing, RunQueues};
use sched::{CpuId, FairPosition, Nanos, Params, Virtual};

/// The result of a tick for the running node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The node goes on.
    Stays,
    /// Its time slice is over.
    Expired,
    /// It has run for the minimum time and is too far ahead of a waiting node.
    Ahead,
}

/// How a task became runnable where it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// It woke.
    Woken,
    /// It was forked.
    Forked,
    /// It migrated, or its weight changed.
    Other,
}

/// What happens to the nodes of an [`Order`] when they join, run and leave.
///
/// Every node has a clock, its vruntime. A call concerns one node in its queue; the fair class makes the calls for a
/// task and then for the group entities above it.
pub(crate) trait Rule: Order {
    // ---- Joining and leaving ----

    /// `id` has been put into the tree of its queue.
    fn pushed(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// `id` is about to be removed from the tree of its queue.
    fn pulled(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Places a forked task, which is not runnable yet, on the queue it is in. `from` is the vruntime of its parent. It
    /// may join another queue.
    fn place_forked(queues: &mut RunQueues<Self>, id: NodeId, from: Option<Virtual>);

    /// Lets `child`, just placed, run before `parent`, which is current. Returns whether it does.
    fn let_pass(_queues: &mut RunQueues<Self>, _child: NodeId, _parent: NodeId) -> bool {
        false
    }

    /// `id`, not runnable, moves to another queue.
    fn detach_clock(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Moves `id`, which is blocked, to another queue, where it will be as far behind as in this one.
    fn move_sleeper(queues: &mut RunQueues<Self>, id: NodeId, queue: usize);

    /// The task `id`, out of its queue, moves to another class, from which it may come back. `sleeps`: it is blocked.
    fn leave_class(_queues: &mut RunQueues<Self>, _id: NodeId, _sleeps: bool) {}

    /// The task `id`, not runnable, is back in its queue, at the same distance as when it left.
    fn come_back(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Charges CPU time to `id`, which neither runs nor is in a tree.
    fn owe(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos);

    /// `id` becomes runnable in its queue.
    fn join(queues: &mut RunQueues<Self>, id: NodeId, placing: Placing);

    /// `id` is no longer runnable. Returns whether it has left its queue; if not, it is `delayed`.
    fn leave(queues: &mut RunQueues<Self>, id: NodeId, leaving: Leaving) -> bool;

    /// `id`, which is delayed, becomes runnable again.
    fn resume(_queues: &mut RunQueues<Self>, id: NodeId) {
        unreachable!("{id:?} left its queue when it blocked")
    }

    /// Gives `id` another weight, in whatever state it is.
    fn reweigh(queues: &mut RunQueues<Self>, id: NodeId, weight: u64);

    /// Applies the parameters of the task `id`.
    fn ask(_queues: &mut RunQueues<Self>, _id: NodeId, _params: &Params) {}

    /// The runnable nodes in the queue that the group entity `id` owns, or their requests, may have changed.
    fn resize(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    // ---- Running and stopping ----

    /// Charges `ran` to `id`, current in its queue. Returns whether it must stop.
    fn charge(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos) -> bool;

    /// The result of a tick for `id`, current in its queue and charged.
    fn verdict(_queues: &RunQueues<Self>, _id: NodeId) -> Verdict {
        Verdict::Stays
    }

    /// The next node of `queue`, which has a waiting node and no current one. The next node leaves instead if it is
    /// delayed. A node that was put back in this `turn` of the CPU ran until now.
    fn next_of(queues: &RunQueues<Self>, queue: usize, turn: u64) -> NodeId;

    /// `id` is current in its queue now. `goes_on`: it was stopped at this instant and goes on.
    fn started(_queues: &mut RunQueues<Self>, _id: NodeId, _goes_on: bool) {}

    /// `id`, which runs, yields.
    fn yielded(queues: &mut RunQueues<Self>, id: NodeId);

    // ---- Wake-up preemption ----

    /// The task `id` has come to the CPU of the running task `running`. Returns whether it was made a buddy.
    fn greet(queues: &mut RunQueues<Self>, id: NodeId, running: NodeId, arrival: Arrival) -> bool;

    /// Whether `wakee` preempts `running`, current in the same queue and charged. `greeted`: it was made a buddy
    /// already.
    fn preempts(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId, greeted: bool) -> bool;

    /// `running`, which is current, is about to be preempted by `wakee`, perhaps in another queue of the CPU.
    fn preempted(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId);

    // ---- Inspection ----

    /// The position of the task `id`, in the queue of `cpu`; `None` if the rule has more than one clock.
    fn position(_queues: &RunQueues<Self>, _id: NodeId, _cpu: CpuId) -> Option<FairPosition> {
        None
    }

    /// Shows the state of the task `id`.
    fn inspect(queues: &RunQueues<Self>, id: NodeId, show: &mut dyn FnMut(&'static str, i64));
}
