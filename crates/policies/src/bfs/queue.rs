//! The run queues of BFS and MuQSS: FIFO lists of real-time priorities, and trees of deadlines.

use super::rank::Rank;
use sched::queue::{Levels, Trees};
use sched::{CpuId, Cx, EntityId, Instant};

/// The waiting entities of all run queues.
#[derive(Debug)]
pub(super) struct DeadlineQueues {
    /// Tasks of the stop class, SCHED_FIFO and SCHED_RR, by rank.
    real_time: Levels,
    /// Tasks of ISO, NORMAL and IDLEPRIO: one tree per class and queue, by deadline and arrival.
    deadlines: Trees<(Instant, u64)>,
    queues: usize,
    arrivals: u64,
    /// Position of each waiting entity, by index.
    waits: Vec<Waiting>,
    /// Sticky entity of each CPU.
    sticky: Vec<Option<EntityId>>,
}

/// The number of trees per queue: ISO, NORMAL and IDLEPRIO.
const TREES: usize = 3;

/// The position of a waiting entity.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// CPU on which the entity is sticky.
    sticky: Option<CpuId>,
    arrival: u64,
    deadline: Instant,
}

const NOT_WAITING: Waiting = Waiting { sticky: None, arrival: 0, deadline: Instant::ZERO };

/// The distance of a CPU from the CPU of a sticky entity. The time to the entity's deadline is shifted left by this
/// number of bits.
pub(super) type Distance = u32;

impl DeadlineQueues {
    /// Creates `queues` run queues for `cpus` CPUs.
    pub(super) fn new(queues: usize, cpus: usize) -> DeadlineQueues {
        DeadlineQueues {
            real_time: Levels::new(queues, Rank::ISO as usize),
            deadlines: Trees::new(TREES * queues),
            queues,
            arrivals: 0,
            waits: Vec::new(),
            sticky: vec![None; cpus],
        }
    }

    /// Reserves memory for `e`. Call this method when `e` is attached.
    pub(super) fn reserve(&mut self, e: EntityId) {
        self.real_time.reserve(e);
        self.deadlines.reserve(e, (Instant::ZERO, 0));
        if self.waits.len() <= e.index() {
            self.waits.resize(e.index() + 1, NOT_WAITING);
        }
        self.waits[e.index()] = NOT_WAITING;
    }

    /// Enqueues `e` in `queue`, behind all entities of the same rank and deadline. `sticky`: the CPU on which `e`
    /// becomes sticky.
    pub(super) fn push(&mut self, queue: usize, e: EntityId, rank: Rank, deadline: Instant, sticky: Option<CpuId>) {
        self.arrivals += 1;
        self.waits[e.index()] = Waiting { sticky, arrival: self.arrivals, deadline };
        if let Some(cpu) = sticky
            && let Some(before) = self.sticky[cpu.index()].replace(e)
        {
            self.waits[before.index()].sticky = None;
        }
        match rank.tree() {
            None => self.real_time.push_back(queue, rank.0 as usize, e),
            Some(tree) => self.deadlines.push(queue * TREES + tree, (deadline, self.arrivals), e),
        }
    }

    /// Dequeues `e`. Returns false if `e` was in no queue.
    pub(super) fn remove(&mut self, e: EntityId) -> bool {
        if let Some(cpu) = self.waits[e.index()].sticky.take() {
            self.sticky[cpu.index()] = None;
        }
        self.real_time.remove(e) || self.deadlines.remove(e)
    }

    pub(super) fn contains(&self, e: EntityId) -> bool {
        self.real_time.place(e).is_some() || self.deadlines.contains(e)
    }

    /// Returns all waiting entities; within a queue, the most urgent rank first.
    pub(super) fn iter(&self) -> impl Iterator<Item = EntityId> + '_ {
        (0..self.queues).flat_map(|queue| self.iter_of(queue))
    }

    fn iter_of(&self, queue: usize) -> impl Iterator<Item = EntityId> + '_ {
        let trees = queue * TREES..(queue + 1) * TREES;
        self.real_time.iter(queue).chain(trees.flat_map(|tree| self.deadlines.iter(tree).map(|(_, e)| e)))
    }

    /// Returns the first entity of `queue` for which `fits` is true, without regard to stickiness.
    pub(super) fn first(&self, queue: usize, fits: impl Fn(EntityId) -> bool) -> Option<EntityId> {
        self.iter_of(queue).find(|&e| fits(e))
    }

    pub(super) fn is_empty(&self) -> bool {
        let no_real_time = (0..self.queues).all(|queue| self.real_time.best(queue).is_none());
        no_real_time && (0..TREES * self.queues).all(|tree| self.deadlines.is_empty(tree))
    }

    /// Returns the entity of queue 0 to run on `cpu`. In the most urgent rank with an eligible entity, returns the
    /// first eligible entity of a real-time list, or the eligible entity of a tree with the earliest effective
    /// deadline. For an entity that is sticky on another CPU, the time to the deadline is shifted left by `distance`.
    pub(super) fn best(&self, cpu: CpuId, cx: &Cx<'_>, distance: impl Fn(CpuId) -> Distance) -> Option<EntityId> {
        let real_time = self.real_time.iter(0).find(|&e| cx.may_run(e, cpu));
        let found = real_time.or_else(|| (0..TREES).find_map(|tree| self.earliest(tree, cpu, cx, &distance)));
        #[cfg(test)]
        assert_eq!(found, self.scanned(cpu, cx, &distance), "as the scan of the source finds");
        found
    }

    /// Returns the entity that bfs.c would pick, by a full scan of one list per rank, each list in order of arrival.
    #[cfg(test)]
    fn scanned(&self, cpu: CpuId, cx: &Cx<'_>, distance: &impl Fn(CpuId) -> Distance) -> Option<EntityId> {
        let real_time = self.real_time.iter(0).find(|&e| cx.may_run(e, cpu));
        let in_tree = |tree| {
            let mut list: Vec<EntityId> = self.deadlines.iter(tree).map(|(_, e)| e).collect();
            list.sort_by_key(|e| self.waits[e.index()].arrival);
            let effective = |e: &EntityId| {
                let Waiting { sticky, deadline, .. } = self.waits[e.index()];
                let left = i128::from(deadline.as_ns()) - i128::from(cx.now().as_ns());
                sticky.filter(|&from| from != cpu).map_or(left, |from| left << distance(from))
            };
            list.into_iter().filter(|&e| cx.may_run(e, cpu)).min_by_key(effective)
        };
        real_time.or_else(|| (0..TREES).find_map(in_tree))
    }

    fn earliest(
        &self,
        tree: usize,
        cpu: CpuId,
        cx: &Cx<'_>,
        distance: &impl Fn(CpuId) -> Distance,
    ) -> Option<EntityId> {
        let elsewhere = |e: EntityId| self.waits[e.index()].sticky.filter(|&other| other != cpu);
        let free = self.deadlines.iter(tree).find(|&(_, e)| elsewhere(e).is_none() && cx.may_run(e, cpu));
        let left = |deadline: Instant| i128::from(deadline.as_ns()) - i128::from(cx.now().as_ns());
        let mut best = free.map(|((deadline, arrival), e)| ((left(deadline), arrival), e));
        // At most one entity per CPU is sticky; all other entities are in the order of the tree.
        for (home, e) in self.sticky.iter().enumerate().filter_map(|(home, &e)| Some((CpuId::new(home), e?))) {
            if home == cpu || self.deadlines.tree_of(e) != Some(tree) || !cx.may_run(e, cpu) {
                continue;
            }
            let Waiting { deadline, arrival, .. } = self.waits[e.index()];
            let key = (left(deadline) << distance(home), arrival);
            if best.is_none_or(|(other, _)| key < other) {
                best = Some((key, e));
            }
        }
        best.map(|(_, e)| e)
    }
}
