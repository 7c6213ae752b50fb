//! The run queues: one per CPU and, for every group, one more per CPU; and the nodes that wait in them.
//!
//! A node is a task, or a group's part on one CPU: what stands for the group's queue there in the queue above it.
//! Both kinds live in one index space, so that both can wait in one tree: the task of entity `i` is node `2 i`, the
//! part that owns queue `q` is node `2 q + 1`. Queue `g · cpus + c` is that of group `g` on CPU `c`; the root is group 0.
//!
//! Here is only bookkeeping: loads, counts, buddies. What orders the queues is in `vruntime`.

use super::tunables::Tunables;
use sched::queue::Trees;
use sched::{CpuId, EntityId, GroupId, Nanos, Virtual};

/// The weight of nice 0.
pub(super) const NICE_0: u64 = 1024;
/// The least weight of a group or of its part on a CPU. Source: `MIN_SHARES`, kernel/sched/sched.h, v5.13.
pub(super) const SHARES_LEAST: u64 = 2;
/// The largest weight of a group. Source: `MAX_SHARES`, kernel/sched/sched.h, v5.13.
pub(super) const SHARES_MOST: u64 = 1 << 18;

/// A task, or a group's part on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeId(u32);

impl NodeId {
    pub(super) fn task(e: EntityId) -> NodeId {
        NodeId::of(2 * e.index())
    }

    /// The part that owns `queue`.
    pub(super) fn part(queue: usize) -> NodeId {
        NodeId::of(2 * queue + 1)
    }

    fn of(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("there are fewer than 2^31 entities and fewer than 2^31 queues"))
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The index of the entity this is the task of; `None` for a part.
    pub(super) const fn entity_index(self) -> Option<usize> {
        if self.0.is_multiple_of(2) { Some(self.index() / 2) } else { None }
    }

    /// The queue this part owns; `None` for a task.
    pub(super) const fn own_queue(self) -> Option<usize> {
        if self.0.is_multiple_of(2) { None } else { Some(self.index() / 2) }
    }

    /// Its name in the trees.
    const fn key(self) -> EntityId {
        EntityId::new(self.0, 0)
    }
}

impl From<EntityId> for NodeId {
    /// From its name in the trees.
    fn from(key: EntityId) -> NodeId {
        NodeId::of(key.index())
    }
}

/// What a queue knows of a task, or of a group's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) weight: u64,
    /// Between queues: relative to `min_vruntime`.
    pub(super) vruntime: Virtual,
    pub(super) sum_exec: Nanos,
    /// `sum_exec` when it was last switched in.
    pub(super) picked_exec: Nanos,
    /// The queue it is in, or was in last.
    pub(super) queue: usize,
    /// Whether `vruntime` is relative.
    pub(super) relative: bool,
    /// Whether it is runnable: in the tree of its queue, or current there.
    pub(super) queued: bool,
    /// Whether it is a SCHED_IDLE task.
    pub(super) idle: bool,
    /// The turn of its CPU in which it was last put back; 0: it left since.
    pub(super) put_in: u64,
}

const NEW_NODE: Node = Node {
    weight: NICE_0,
    vruntime: Virtual::ZERO,
    sum_exec: Nanos::ZERO,
    picked_exec: Nanos::ZERO,
    queue: 0,
    relative: false,
    queued: false,
    idle: false,
    put_in: 0,
};

/// Who is favoured, or not, at the next pick of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Buddy {
    /// Wanted to run next.
    Next,
    /// Was preempted at a wake-up.
    Last,
    /// Yielded.
    Skip,
}

impl Buddy {
    const ALL: [Buddy; 3] = [Buddy::Next, Buddy::Last, Buddy::Skip];
}

/// A queue: the tasks and subgroups of one group on one CPU.
#[derive(Clone, Debug)]
pub(super) struct RunQueue {
    pub(super) cpu: CpuId,
    pub(super) group: usize,
    /// The queue its part waits in; `None` for the root.
    pub(super) up: Option<usize>,
    /// Steps to the root.
    pub(super) depth: u32,
    /// The sum of the weights of its runnable nodes, the current one included.
    pub(super) load: u64,
    /// How many nodes those are.
    pub(super) nodes: u32,
    /// How many tasks are runnable in it and below, not counting below throttled queues.
    pub(super) tasks: Tasks,
    pub(super) min_vruntime: Virtual,
    /// The node that runs, or whose queue holds the one that does; not in the tree.
    pub(super) current: Option<NodeId>,
    buddies: [Option<NodeId>; 3],
    /// Whether its group has a quota.
    pub(super) limited: bool,
    pub(super) throttled: bool,
    /// Nanoseconds of quota taken from the pool and not used; negative: overdrawn.
    pub(super) remaining: i64,
    /// The queue of the same group throttled next after this one.
    pub(super) next_throttled: Option<usize>,
}

/// A number of runnable tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tasks {
    pub(super) all: u32,
    /// Those of SCHED_IDLE among them.
    pub(super) idle: u32,
}

/// What is the same on all CPUs of a group.
#[derive(Clone, Copy, Debug)]
struct GroupShare {
    shares: u64,
    /// The sum of its queues' loads.
    load: u64,
}

/// Whether a node joins a queue with the credit of a sleeper, or as it left another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placing {
    Credit,
    Keep,
}

/// Whether a node that leaves a queue sleeps, or goes to another queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    Sleep,
    Move,
}

/// All queues and nodes.
#[derive(Debug)]
pub(super) struct RunQueues {
    pub(super) tunables: Tunables,
    nodes: Vec<Node>,
    queues: Vec<RunQueue>,
    groups: Vec<GroupShare>,
    trees: Trees<(Virtual, u64)>,
    arrivals: u64,
    cpus: usize,
    /// How many CPUs have two or more runnable tasks.
    pub(super) overloaded: usize,
}

impl RunQueues {
    pub(super) fn new(cpus: usize, tunables: Tunables) -> RunQueues {
        let mut all = RunQueues {
            tunables,
            nodes: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            trees: Trees::new(0),
            arrivals: 0,
            cpus,
            overloaded: 0,
        };
        all.open_group(GroupId::ROOT, None, NICE_0);
        all
    }

    // ---- Membership ----

    /// Makes a blocked task of `e`, on `queue`.
    pub(super) fn open_task(&mut self, e: EntityId, queue: usize, weight: u64, idle: bool) {
        let vruntime = self.queues[queue].min_vruntime;
        self.open(NodeId::task(e), Node { weight, vruntime, queue, idle, ..NEW_NODE });
    }

    fn open(&mut self, id: NodeId, node: Node) {
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, NEW_NODE);
        }
        assert!(!self.nodes[id.index()].queued, "{id:?} is new");
        self.nodes[id.index()] = node;
        self.trees.reserve(id.key(), (Virtual::ZERO, 0));
    }

    /// Makes the queues of a group, empty.
    pub(super) fn open_group(&mut self, g: GroupId, parent: Option<GroupId>, shares: u64) {
        let needed = (g.index() + 1) * self.cpus;
        self.trees.reserve_trees(needed);
        if self.groups.len() <= g.index() {
            self.groups.resize(g.index() + 1, GroupShare { shares, load: 0 });
        }
        self.groups[g.index()] = GroupShare { shares, load: 0 };
        for c in (0..self.cpus).map(CpuId::new) {
            let up = parent.map(|parent| self.queue_of(parent, c));
            let queue = RunQueue {
                cpu: c,
                group: g.index(),
                up,
                depth: up.map_or(0, |up| self.queues[up].depth + 1),
                load: 0,
                nodes: 0,
                tasks: Tasks::default(),
                min_vruntime: Virtual::ZERO,
                current: None,
                buddies: [None; 3],
                limited: false,
                throttled: false,
                remaining: 0,
                next_throttled: None,
            };
            let at = self.queue_of(g, c);
            if self.queues.len() < needed {
                self.queues.resize(needed, queue.clone());
            }
            assert_eq!(self.trees.len(at), 0, "a new group has nobody");
            self.queues[at] = queue;
            self.open(NodeId::part(at), Node { queue: up.unwrap_or(at), ..NEW_NODE });
        }
    }

    // ---- Looking ----

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    pub(super) fn queue(&self, queue: usize) -> &RunQueue {
        &self.queues[queue]
    }

    pub(super) fn queue_mut(&mut self, queue: usize) -> &mut RunQueue {
        &mut self.queues[queue]
    }

    pub(super) fn queue_of(&self, g: GroupId, cpu: CpuId) -> usize {
        g.index() * self.cpus + cpu.index()
    }

    /// The queue at the top of `cpu`.
    pub(super) fn root(&self, cpu: CpuId) -> &RunQueue {
        &self.queues[cpu.index()]
    }

    /// The part above `id`: what stands for the queue it is in; `None` at the top.
    pub(super) fn above(&self, id: NodeId) -> Option<NodeId> {
        let queue = self.node(id).queue;
        self.queues[queue].up.map(|_| NodeId::part(queue))
    }

    /// Whether `queue` or one above it is throttled.
    pub(super) fn is_throttled(&self, queue: usize) -> bool {
        self.climb(queue).any(|queue| self.queues[queue].throttled)
    }

    /// Whether `queue` or one above it has a quota.
    pub(super) fn is_limited(&self, queue: usize) -> bool {
        self.climb(queue).any(|queue| self.queues[queue].limited)
    }

    fn climb(&self, queue: usize) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(Some(queue), |&queue| self.queues[queue].up)
    }

    /// The node of least vruntime that waits in `queue`.
    pub(super) fn first(&self, queue: usize) -> Option<NodeId> {
        self.trees.first(queue).map(|(_, key)| key.into())
    }

    /// Who waits behind `id`.
    pub(super) fn next(&self, id: NodeId) -> Option<NodeId> {
        self.trees.next(id.key()).map(|(_, key)| key.into())
    }

    /// The weight of `id` times its groups' shares of their CPU: what it adds to the load of the root.
    pub(super) fn root_load(&self, id: NodeId) -> u64 {
        let node = self.node(id);
        let mut load = node.weight;
        let mut above = self.above(id);
        let mut missing = if node.queued { 0 } else { node.weight };
        let mut queue = node.queue;
        while let Some(part) = above {
            load = ratio(load, self.node(part).weight, (self.queues[queue].load + missing).max(1));
            missing = if self.node(part).queued { 0 } else { self.node(part).weight };
            queue = self.node(part).queue;
            above = self.above(part);
        }
        load
    }

    // ---- The tree ----

    /// Puts `id`, which is runnable and not current, into the tree of its queue, behind its equals.
    pub(super) fn push(&mut self, id: NodeId) {
        self.arrivals += 1;
        let Node { queue, vruntime, .. } = *self.node(id);
        self.trees.push(queue, (vruntime, self.arrivals), id.key());
    }

    /// Takes `id` out of the tree of its queue.
    pub(super) fn pull(&mut self, id: NodeId) {
        let was_there = self.trees.remove(id.key());
        assert!(was_there, "{id:?} waits");
    }

    // ---- Loads and counts ----

    fn add_load(&mut self, queue: usize, weight: u64) {
        self.queues[queue].load += weight;
        self.groups[self.queues[queue].group].load += weight;
    }

    fn sub_load(&mut self, queue: usize, weight: u64) {
        self.queues[queue].load -= weight;
        self.groups[self.queues[queue].group].load -= weight;
    }

    /// `id` counts in its queue from now on.
    pub(super) fn count_in(&mut self, id: NodeId) {
        let Node { queue, weight, .. } = *self.node(id);
        self.add_load(queue, weight);
        self.queues[queue].nodes += 1;
        self.node_mut(id).queued = true;
    }

    /// `id` counts no more.
    pub(super) fn count_out(&mut self, id: NodeId) {
        let Node { queue, weight, .. } = *self.node(id);
        self.sub_load(queue, weight);
        self.queues[queue].nodes -= 1;
        self.node_mut(id).queued = false;
    }

    /// So many more tasks are runnable in `queue` and below.
    pub(super) fn add_tasks(&mut self, queue: usize, tasks: Tasks) {
        let there = &mut self.queues[queue].tasks;
        let before = there.all;
        there.all += tasks.all;
        there.idle += tasks.idle;
        if queue < self.cpus && before < 2 && self.queues[queue].tasks.all >= 2 {
            self.overloaded += 1;
        }
    }

    /// So many fewer.
    pub(super) fn sub_tasks(&mut self, queue: usize, tasks: Tasks) {
        let there = &mut self.queues[queue].tasks;
        let before = there.all;
        there.all -= tasks.all;
        there.idle -= tasks.idle;
        if queue < self.cpus && before >= 2 && self.queues[queue].tasks.all < 2 {
            self.overloaded -= 1;
        }
    }

    /// Gives `id` another weight where it is; its vruntime stays (rule 10).
    pub(super) fn reweigh(&mut self, id: NodeId, weight: u64) {
        let Node { queue, weight: old, queued, .. } = *self.node(id);
        if queued {
            self.sub_load(queue, old);
            self.add_load(queue, weight);
        }
        self.node_mut(id).weight = weight;
    }

    /// Changes what a group is worth; its parts follow when they are next looked at.
    pub(super) fn set_shares(&mut self, g: GroupId, shares: u64) {
        self.groups[g.index()].shares = shares;
    }

    /// Gives a part the weight that its queue's portion of the group's load is worth:
    /// `shares · load here / load on all CPUs`, within [2, shares]. A task keeps its own.
    pub(super) fn update_share(&mut self, id: NodeId) {
        let Some(own) = id.own_queue() else { return };
        let GroupShare { shares, load } = self.groups[self.queues[own].group];
        let weight = ratio(shares, self.queues[own].load, load.max(1)).clamp(SHARES_LEAST, shares);
        if weight != self.node(id).weight {
            self.reweigh(id, weight);
        }
    }

    /// Whatever share of its CPU `id` is worth now, it and the parts above it get.
    pub(super) fn update_shares_from(&mut self, id: NodeId) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.update_share(id);
            at = self.above(id);
        }
    }

    /// The runnable task `id` was, or was not, one of SCHED_IDLE; from now on it counts as what it is.
    pub(super) fn recount_idle(&mut self, id: NodeId, was_idle: bool) {
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

    // ---- Buddies ----

    pub(super) fn buddy(&self, queue: usize, which: Buddy) -> Option<NodeId> {
        self.queues[queue].buddies[which as usize]
    }

    /// Makes `id` and the parts above it buddies in their queues. SCHED_IDLE tasks are favoured nowhere, and who
    /// is not runnable is not either.
    pub(super) fn set_buddy(&mut self, which: Buddy, id: NodeId) {
        if self.node(id).idle && which != Buddy::Skip {
            return;
        }
        let mut at = Some(id);
        while let Some(id) = at {
            if !self.node(id).queued && which != Buddy::Skip {
                return;
            }
            let queue = self.node(id).queue;
            self.queues[queue].buddies[which as usize] = Some(id);
            at = self.above(id);
        }
    }

    /// Rule 9: `id`, which runs, lets others go first.
    pub(super) fn skip(&mut self, id: NodeId) {
        self.clear_buddies(id);
        self.set_buddy(Buddy::Skip, id);
    }

    /// Whatever buddy `id` is in its queue, it and the parts above it that are so for its sake are no more.
    pub(super) fn clear_buddies(&mut self, id: NodeId) {
        for which in Buddy::ALL {
            let mut at = Some(id);
            while let Some(id) = at {
                let buddy = &mut self.queues[self.nodes[id.index()].queue].buddies[which as usize];
                if *buddy != Some(id) {
                    break;
                }
                *buddy = None;
                at = self.above(id);
            }
        }
    }
}

/// `⌊a · b / c⌋`. The product of two loads may not fit in 64 bits.
pub(super) fn ratio(a: u64, b: u64, c: u64) -> u64 {
    Nanos::ns(a).scale(b, c).as_ns()
}
