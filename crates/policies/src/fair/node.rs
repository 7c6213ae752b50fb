//! The nodes that wait in run queues.
//!
//! A node is a task or a group entity. A group entity represents the group's queue on one CPU in the queue above. Tasks
//! and group entities share one index space, so that both can wait in one tree. The task of entity `i` is node `2 i`;
//! the group entity that owns queue `q` is node `2 q + 1`.

use sched::{Class, EntityId, Nanos, Params, Virtual, Weight};

/// The weight of nice 0.
pub(crate) const NICE_0: u64 = 1024;

/// A task, or a group entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn task(e: EntityId) -> NodeId {
        NodeId::of(2 * e.index())
    }

    /// Returns the group entity that owns `queue`.
    pub(crate) fn part(queue: usize) -> NodeId {
        NodeId::of(2 * queue + 1)
    }

    fn of(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("there are fewer than 2^31 entities and fewer than 2^31 queues"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the entity index of a task; `None` for a group entity.
    pub(crate) const fn entity_index(self) -> Option<usize> {
        if self.0.is_multiple_of(2) { Some(self.index() / 2) } else { None }
    }

    /// Returns the queue of a group entity; `None` for a task.
    pub(crate) const fn own_queue(self) -> Option<usize> {
        if self.0.is_multiple_of(2) { None } else { Some(self.index() / 2) }
    }

    /// Returns the key of the node in the trees.
    pub(crate) const fn key(self) -> EntityId {
        EntityId::new(self.0, 0)
    }
}

impl From<EntityId> for NodeId {
    /// Returns the node of a key in the trees.
    fn from(key: EntityId) -> NodeId {
        NodeId::of(key.index())
    }
}

/// The state of a task or a group entity in its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<N> {
    pub(crate) weight: u64,
    pub(crate) vruntime: Virtual,
    /// Rounding remainder of `vruntime`: the part that is not yet added, in units of `1 / weight` ns.
    pub(crate) rest: u64,
    pub(crate) sum_exec: Nanos,
    /// Queue in which the node is, or was last.
    pub(crate) queue: usize,
    /// Whether the node is in the tree of its queue, or current in its queue.
    pub(crate) queued: bool,
    /// Whether the node is queued although it is blocked.
    pub(crate) delayed: bool,
    /// Whether the node is a SCHED_IDLE task.
    pub(crate) idle: bool,
    /// Number of the CPU's decision in which the node was last put back; 0: never, or the node has left the queue
    /// since.
    pub(crate) put_in: u64,
    /// State of the rule for this node.
    pub(crate) own: N,
}

impl<N> Node<N> {
    pub(crate) const fn new(own: N) -> Node<N> {
        Node {
            weight: NICE_0,
            vruntime: Virtual::ZERO,
            rest: 0,
            sum_exec: Nanos::ZERO,
            queue: 0,
            queued: false,
            delayed: false,
            idle: false,
            put_in: 0,
            own,
        }
    }

    pub(crate) const fn is_runnable(&self) -> bool {
        self.queued && !self.delayed
    }
}

/// Returns the weight of a task with `params`, and whether the task is in SCHED_IDLE.
pub(crate) fn load_of(params: &Params) -> (u64, bool) {
    match params.class {
        Class::Idle => (u64::from(Weight::IDLE.as_linux()), true),
        _ => (u64::from(params.weight.as_linux()), false),
    }
}
