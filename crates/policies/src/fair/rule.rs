//! [`Rule`]: what the fair class leaves open. Who of a queue runs next, until when, and where somebody who joins is placed.

use super::node::{Node, NodeId};
use super::runqueue::{Leaving, Placing, RunQueues};
use super::tick::Arrival;
use core::fmt::Debug;
use sched::queue::Summary;
use sched::{CpuId, FairPosition, Nanos, Params, Virtual};

/// What a tick finds out about who runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes on.
    Stays,
    /// Its slice is over.
    Expired,
    /// It has had its minimum and somebody waits too far behind it.
    Ahead,
}

/// An order of the run queues. What a rule keeps of its own is in its nodes and queues; what it can be tuned by, in itself.
///
/// Every node has a clock, its vruntime. Calls concern one node in its queue; the fair class makes them for a task and then for
/// the parts above it.
pub(crate) trait Rule: Debug + Send + Sized + 'static {
    /// What it keeps of a node.
    type Node: Copy + Debug + Send;
    /// What it keeps of a queue.
    type Queue: Clone + Debug + Send;
    /// What a queue's tree is in order of.
    type Key: Copy + Ord + Debug + Send;
    /// What a tree keeps of its subtrees.
    type Summary: Summary + Debug + Send;

    /// A new node.
    const NODE: Self::Node;
    /// An empty queue.
    const QUEUE: Self::Queue;

    /// Where `node` stands in its tree if it joins as the `arrival`-th, and what it brings along.
    fn order(node: &Node<Self::Node>, arrival: u64) -> (Self::Key, Self::Summary);

    // ---- Joining and leaving ----

    /// `id` has been put into the tree of its queue.
    fn pushed(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// `id` is about to be taken out of the tree of its queue.
    fn pulled(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// A forked task, not runnable yet, made on the queue it is in; `from` is the vruntime of whoever forked it. It may
    /// join another queue.
    fn place_forked(queues: &mut RunQueues<Self>, id: NodeId, from: Option<Virtual>);

    /// Lets `child`, just placed, go before `parent`, which is current. Says whether it does.
    fn let_pass(_queues: &mut RunQueues<Self>, _child: NodeId, _parent: NodeId) -> bool {
        false
    }

    /// `id`, not runnable, goes to another queue.
    fn detach_clock(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// Puts `id`, which sleeps, into another queue, where it will be as far behind as it would be here.
    fn move_sleeper(queues: &mut RunQueues<Self>, id: NodeId, queue: usize);

    /// The task `id`, out of its queue, goes to another class, from which it may come back. Says whether it `sleeps`.
    fn leave_class(_queues: &mut RunQueues<Self>, _id: NodeId, _sleeps: bool) {}

    /// The task `id`, not runnable, is back in its queue, as far behind or ahead as when it left.
    fn come_back(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    /// `id`, which neither runs nor is in a tree, pays for so much CPU time.
    fn owe(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos);

    /// `id` becomes runnable in its queue.
    fn join(queues: &mut RunQueues<Self>, id: NodeId, placing: Placing);

    /// `id` is runnable no more. Says whether it has left its queue; if not, it is `delayed`.
    fn leave(queues: &mut RunQueues<Self>, id: NodeId, leaving: Leaving) -> bool;

    /// `id`, which is delayed, becomes runnable again.
    fn resume(_queues: &mut RunQueues<Self>, id: NodeId) {
        unreachable!("{id:?} left when it fell asleep")
    }

    /// Gives `id` another weight, in whatever state it is.
    fn reweigh(queues: &mut RunQueues<Self>, id: NodeId, weight: u64);

    /// This is asked for the task `id`.
    fn ask(_queues: &mut RunQueues<Self>, _id: NodeId, _params: &Params) {}

    /// Who is runnable in the queue that the part `id` owns, or what they ask for, may have changed.
    fn resize(_queues: &mut RunQueues<Self>, _id: NodeId) {}

    // ---- Running and stopping ----

    /// `id`, current in its queue, ran for so long. Says whether it must stop.
    fn charge(queues: &mut RunQueues<Self>, id: NodeId, ran: Nanos) -> bool;

    /// What a tick finds about `id`, current in its queue and charged.
    fn verdict(_queues: &RunQueues<Self>, _id: NodeId) -> Verdict {
        Verdict::Stays
    }

    /// Who of `queue`, where somebody waits and nobody is current, goes next, or leaves if it is delayed. Who was put back
    /// in this `turn` of the CPU ran until now.
    fn next_of(queues: &RunQueues<Self>, queue: usize, turn: u64) -> NodeId;

    /// `id` is current in its queue now. It may go on where it was stopped a moment ago.
    fn started(_queues: &mut RunQueues<Self>, _id: NodeId, _goes_on: bool) {}

    /// `id`, which runs, lets others go first.
    fn yielded(queues: &mut RunQueues<Self>, id: NodeId);

    // ---- Wake-up preemption ----

    /// The task `id` has come to the CPU where the task `running` runs. Says whether it was made a buddy for that.
    fn greet(queues: &mut RunQueues<Self>, id: NodeId, running: NodeId, arrival: Arrival) -> bool;

    /// Whether `wakee` preempts `running`, current in the same queue and charged. It may have been `greeted` already.
    fn preempts(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId, greeted: bool) -> bool;

    /// `running`, which is current, is about to be preempted by `wakee`, perhaps in another queue of the CPU.
    fn preempted(queues: &mut RunQueues<Self>, wakee: NodeId, running: NodeId);

    // ---- Showing ----

    /// The place of the task `id`, whose run queue is that of `cpu`; `None` where the rule has more than one clock.
    fn position(_queues: &RunQueues<Self>, _id: NodeId, _cpu: CpuId) -> Option<FairPosition> {
        None
    }

    /// Shows what it keeps of the task `id`.
    fn inspect(queues: &RunQueues<Self>, id: NodeId, show: &mut dyn FnMut(&'static str, i64));
}
