//! The run queues: one per group and CPU. Queue `g · cpus + c` belongs to group `g` on CPU `c`; the root is group 0.
//!
//! This module contains the operations that do not involve the rule, for example on loads, counts and buddies. An
//! [`Order`] defines the order within a queue. `transitions` contains the operations that involve the rule.

use super::node::{NICE_0, Node, NodeId};
use super::order::Order;
use super::tunables::Tunables;
use sched::queue::Trees;
use sched::{CpuId, GroupId, Nanos, Virtual};

/// The minimum weight of a group or of a group entity. Source: `MIN_SHARES`, kernel/sched/sched.h, v5.13.
pub(crate) const SHARES_LEAST: u64 = 2;
/// The maximum weight of a group. Source: `MAX_SHARES`, kernel/sched/sched.h, v5.13.
pub(crate) const SHARES_MOST: u64 = 1 << 18;

/// A node that the next pick of a queue prefers or skips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Buddy {
    /// A node that should run next, for example because a task yielded to it.
    Next,
    /// A node that was preempted at a wake-up.
    Last,
    /// A node that yielded.
    Skip,
}

impl Buddy {
    const ALL: [Buddy; 3] = [Buddy::Next, Buddy::Last, Buddy::Skip];
}

/// A queue: the tasks and subgroups of one group on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct RunQueue<Q> {
    pub(crate) cpu: CpuId,
    pub(crate) group: usize,
    /// Queue that contains the group entity of this queue; `None` for the root.
    pub(crate) up: Option<usize>,
    /// Number of queues above this queue.
    pub(crate) depth: u32,
    /// Sum of the weights of the queued nodes, the current node included.
    pub(crate) load: u64,
    /// Number of queued nodes, the current node included.
    pub(crate) nodes: u32,
    /// Number of runnable tasks in this queue and below it, except in and below throttled queues below it.
    pub(crate) tasks: Tasks,
    /// Number of delayed nodes of the CPU; used only in root queues.
    pub(crate) delayed: u32,
    /// Highest value so far of the minimum vruntime of the queued nodes.
    pub(crate) min_vruntime: Virtual,
    /// Running task, or the group entity above the running task; not in the tree.
    pub(crate) current: Option<NodeId>,
    /// Node that was put back last.
    pub(crate) put_back: Option<NodeId>,
    buddies: [Option<NodeId>; 3],
    /// Whether the group of the queue has a quota.
    pub(crate) limited: bool,
    pub(crate) throttled: bool,
    /// Quota taken from the pool and not used, in nanoseconds; negative: overdrawn.
    pub(crate) remaining: i64,
    /// Queue of the same group that was throttled next after this queue.
    pub(crate) next_throttled: Option<usize>,
    /// State of the rule for this queue.
    pub(crate) own: Q,
}

/// A number of runnable tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) all: u32,
    /// Number of SCHED_IDLE tasks among the runnable tasks.
    pub(crate) idle: u32,
}

/// The state of a group that all CPUs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupShare {
    pub(super) shares: u64,
    /// Sum of the loads of the group's queues.
    pub(super) load: u64,
}

/// The vruntime with which a node joins a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placing {
    /// The vruntime of a sleeper, with the sleeper's credit.
    Credit,
    /// The vruntime with which the node left its last queue.
    Keep,
}

/// The reason why a node leaves a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// The node blocks.
    Sleep,
    /// The node blocks or is throttled, and cannot be delayed.
    Halt,
    /// The node moves to another queue.
    Move,
}

/// All queues and nodes.
#[derive(Debug)]
pub(crate) struct RunQueues<R: Order> {
    pub(crate) tunables: Tunables,
    pub(crate) rule: R,
    pub(super) nodes: Vec<Node<R::Node>>,
    pub(super) queues: Vec<RunQueue<R::Queue>>,
    pub(super) groups: Vec<GroupShare>,
    pub(super) trees: Trees<R::Key, R::Summary>,
    pub(super) arrivals: u64,
    cpus: usize,
    /// Number of CPUs with two or more runnable tasks.
    pub(crate) overloaded: usize,
}

impl<R: Order> RunQueues<R> {
    pub(crate) fn new(cpus: usize, tunables: Tunables, rule: R) -> RunQueues<R> {
        let mut all = RunQueues {
            tunables,
            rule,
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

    pub(super) fn open(&mut self, id: NodeId, node: Node<R::Node>) {
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, Node::new(R::NODE));
        }
        assert!(!self.nodes[id.index()].queued, "{id:?} is new");
        self.nodes[id.index()] = node;
        let (key, summary) = R::order(&node, 0);
        self.trees.reserve_with(id.key(), key, summary);
    }

    /// Creates the empty queues of a group.
    pub(crate) fn open_group(&mut self, g: GroupId, parent: Option<GroupId>, shares: u64) {
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
                delayed: 0,
                min_vruntime: Virtual::ZERO,
                current: None,
                put_back: None,
                buddies: [None; 3],
                limited: false,
                throttled: false,
                remaining: 0,
                next_throttled: None,
                own: R::QUEUE,
            };
            let at = self.queue_of(g, c);
            if self.queues.len() < needed {
                self.queues.resize(needed, queue.clone());
            }
            assert_eq!(self.trees.len(at), 0, "a new group has no nodes");
            self.queues[at] = queue;
            self.open(NodeId::part(at), Node { queue: up.unwrap_or(at), ..Node::new(R::NODE) });
        }
    }

    // ---- Queries ----

    pub(crate) fn node(&self, id: NodeId) -> &Node<R::Node> {
        &self.nodes[id.index()]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node<R::Node> {
        &mut self.nodes[id.index()]
    }

    pub(crate) fn queue(&self, queue: usize) -> &RunQueue<R::Queue> {
        &self.queues[queue]
    }

    pub(crate) fn queue_mut(&mut self, queue: usize) -> &mut RunQueue<R::Queue> {
        &mut self.queues[queue]
    }

    pub(crate) fn queue_of(&self, g: GroupId, cpu: CpuId) -> usize {
        g.index() * self.cpus + cpu.index()
    }

    /// Returns the root queue of `cpu`.
    #[inline]
    pub(crate) fn root(&self, cpu: CpuId) -> &RunQueue<R::Queue> {
        &self.queues[cpu.index()]
    }

    /// Returns the group entity above `id`, which represents the queue of `id`; `None` at the root.
    #[inline]
    pub(crate) fn above(&self, id: NodeId) -> Option<NodeId> {
        let queue = self.node(id).queue;
        self.queues[queue].up.map(|_| NodeId::part(queue))
    }

    /// Returns whether `queue` or a queue above it is throttled.
    pub(crate) fn is_throttled(&self, queue: usize) -> bool {
        self.climb(queue).any(|queue| self.queues[queue].throttled)
    }

    /// Returns whether `queue` or a queue above it has a quota.
    pub(crate) fn is_limited(&self, queue: usize) -> bool {
        self.climb(queue).any(|queue| self.queues[queue].limited)
    }

    fn climb(&self, queue: usize) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(Some(queue), |&queue| self.queues[queue].up)
    }

    /// Returns the first node in the tree of `queue`.
    pub(crate) fn first(&self, queue: usize) -> Option<NodeId> {
        self.trees.first(queue).map(|(_, key)| key.into())
    }

    /// Returns the node after `id`.
    pub(crate) fn next(&self, id: NodeId) -> Option<NodeId> {
        self.trees.next(id.key()).map(|(_, key)| key.into())
    }

    /// Returns the first node in the tree of `queue` whose summary satisfies `is`; see [`Trees::first_where`].
    pub(crate) fn first_where(&self, queue: usize, is: impl Fn(R::Summary) -> bool) -> Option<NodeId> {
        self.trees.first_where(queue, is).map(|(_, key)| key.into())
    }

    /// Returns the summary of all nodes in the tree of `queue`.
    pub(crate) fn summary(&self, queue: usize) -> Option<R::Summary> {
        self.trees.summary(queue)
    }

    /// Returns the nodes that represent `a` and `b` in their lowest common queue: the nodes themselves, or group
    /// entities above them. Both must be in queues of the same CPU.
    pub(crate) fn siblings(&self, mut a: NodeId, mut b: NodeId) -> (NodeId, NodeId) {
        let depth = |id: NodeId| self.queue(self.node(id).queue).depth;
        let up = |id: NodeId| self.above(id).expect("a queue below the root has a group entity");
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

    /// Converts `time` to the virtual clock of `id`: `⌊time · 1024 / weight⌋`.
    pub(crate) fn scaled(&self, time: Nanos, id: NodeId) -> Nanos {
        let weight = self.node(id).weight;
        if weight == NICE_0 { time } else { time.scale(NICE_0, weight) }
    }

    /// Returns the contribution of `id` to the load of the root: its weight, scaled by the shares of the groups above
    /// it on their CPU.
    pub(crate) fn root_load(&self, id: NodeId) -> u64 {
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

    /// Returns the part of `load`, an average load of the task `id`, that counts at the root.
    pub(crate) fn scaled_load(&self, id: NodeId, load: u64) -> u64 {
        ratio(load, self.root_load(id), self.node(id).weight.max(1))
    }

    // ---- The tree ----

    /// Updates the summary of `id`, whose position has not changed.
    pub(crate) fn resummarise(&mut self, id: NodeId) {
        if self.is_in_tree(id) {
            let (_, summary) = R::order(self.node(id), 0);
            self.trees.resummarise(id.key(), summary);
        }
    }

    /// Returns whether `id` is in the tree of its queue.
    pub(crate) fn is_in_tree(&self, id: NodeId) -> bool {
        self.trees.contains(id.key())
    }

    // ---- Running and stopping ----

    /// Advances the clock of `id` by the CPU time `ran`. If `exact`, the rounding remainder is carried over. Otherwise
    /// the remainder is lost, and the clock lags by up to 1 ns more after each call.
    pub(crate) fn run_clock(&mut self, id: NodeId, ran: Nanos, exact: bool) {
        let node = self.node_mut(id);
        node.sum_exec += ran;
        let work = u128::from(ran.as_ns()) * u128::from(NICE_0) + u128::from(node.rest);
        let (by, rest) = (work / u128::from(node.weight), work % u128::from(node.weight));
        node.vruntime = node.vruntime.plus(Nanos::ns(u64::try_from(by).expect("a scaled time fits in 64 bits")));
        if exact {
            node.rest = u64::try_from(rest).expect("less than the weight");
        }
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

    /// Adds `id` to the counts of its queue.
    pub(crate) fn count_in(&mut self, id: NodeId) {
        let Node { queue, weight, .. } = *self.node(id);
        self.add_load(queue, weight);
        self.queues[queue].nodes += 1;
        self.node_mut(id).queued = true;
    }

    /// Subtracts `id` from the counts of its queue.
    pub(crate) fn count_out(&mut self, id: NodeId) {
        let Node { queue, weight, .. } = *self.node(id);
        self.sub_load(queue, weight);
        self.queues[queue].nodes -= 1;
        let node = self.node_mut(id);
        node.queued = false;
        node.put_in = 0;
    }

    /// Adds `tasks` to the count of runnable tasks in `queue` and in the queues below it.
    pub(crate) fn add_tasks(&mut self, queue: usize, tasks: Tasks) {
        let there = &mut self.queues[queue].tasks;
        let before = there.all;
        there.all += tasks.all;
        there.idle += tasks.idle;
        if queue < self.cpus && before < 2 && self.queues[queue].tasks.all >= 2 {
            self.overloaded += 1;
        }
    }

    /// Subtracts `tasks` from the count of runnable tasks in `queue` and in the queues below it.
    pub(crate) fn sub_tasks(&mut self, queue: usize, tasks: Tasks) {
        let there = &mut self.queues[queue].tasks;
        let before = there.all;
        there.all -= tasks.all;
        there.idle -= tasks.idle;
        if queue < self.cpus && before >= 2 && self.queues[queue].tasks.all < 2 {
            self.overloaded -= 1;
        }
    }

    /// Records whether `id` is delayed: blocked but still queued.
    pub(crate) fn set_delayed(&mut self, id: NodeId, delayed: bool) {
        assert_ne!(self.node(id).delayed, delayed, "{id:?} is delayed once");
        let root = self.queues[self.node(id).queue].cpu.index();
        let count = &mut self.queues[root].delayed;
        *count = if delayed { *count + 1 } else { *count - 1 };
        self.node_mut(id).delayed = delayed;
    }

    /// Changes the weight of `id` and, if `id` is queued, the load of its queue.
    pub(crate) fn set_weight(&mut self, id: NodeId, weight: u64) {
        let Node { queue, weight: old, queued, .. } = *self.node(id);
        if queued {
            self.sub_load(queue, old);
            self.add_load(queue, weight);
        }
        let node = self.node_mut(id);
        (node.weight, node.rest) = (weight, 0);
    }

    /// Sets the shares of a group. The weights of its group entities change at their next update.
    pub(crate) fn set_shares(&mut self, g: GroupId, shares: u64) {
        self.groups[g.index()].shares = shares;
    }

    // ---- Buddies ----

    pub(crate) fn buddy(&self, queue: usize, which: Buddy) -> Option<NodeId> {
        self.queues[queue].buddies[which as usize]
    }

    /// Makes `id` and the group entities above it buddies in their queues. SCHED_IDLE tasks and nodes that are not
    /// queued can only become skip buddies.
    pub(crate) fn set_buddy(&mut self, which: Buddy, id: NodeId) {
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

    /// Removes `id`, and the group entities above it that are buddies because of `id`, from all buddies.
    pub(crate) fn clear_buddies(&mut self, id: NodeId) {
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

/// Returns `⌊a · b / c⌋`. The intermediate product may exceed 64 bits.
pub(crate) fn ratio(a: u64, b: u64, c: u64) -> u64 {
    Nanos::ns(a).scale(b, c).as_ns()
}
