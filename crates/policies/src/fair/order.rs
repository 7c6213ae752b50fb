//! [`Order`]: the order of the nodes in a run queue, and the state that a rule keeps for this order.

use super::node::Node;
use core::fmt::Debug;
use sched::queue::Summary;

/// An order of the run queues. The state of a rule is in its nodes and queues; its knobs are in the rule itself.
pub(crate) trait Order: Debug + Send + Sized + 'static {
    /// The state of the rule for a node.
    type Node: Copy + Debug + Send;
    /// The state of the rule for a queue.
    type Queue: Clone + Debug + Send;
    /// The key that orders a queue's tree.
    type Key: Copy + Ord + Debug + Send;
    /// The summary of a subtree.
    type Summary: Summary + Debug + Send;

    /// The initial state of a node.
    const NODE: Self::Node;
    /// The initial state of a queue.
    const QUEUE: Self::Queue;

    /// Returns the tree key and the summary of `node`, which joins its tree as the `arrival`-th node.
    fn order(node: &Node<Self::Node>, arrival: u64) -> (Self::Key, Self::Summary);
}
