//! [`RunQueues`]: a run queue per CPU, and the priority of each entity.
//!
//! A queue is one list. An entity is inserted in front of the first less urgent entity. In a sorted list, the entity is
//! then the last of its priority. Accounting changes priorities of queued entities, but not their positions. Until the
//! next [`sort`](RunQueues::sort), the list may be out of order. Rules that search for a priority (insertion, stealing)
//! follow the order of the list, not of the priorities.
//!
//! Xen walks the list for each insertion. Here the first entity below each priority is cached, so that most insertions
//! take O(1). A change of a queued entity's priority invalidates the cache.

use sched::queue::Lists;
use sched::{CpuId, CpuSet, EntityId};

/// The urgency of an entity, in ascending order. In Xen: `CSCHED_PRI_TS_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// The entity has used more than its share.
    Over,
    /// The entity has credit left.
    Under,
    /// The entity had credit left when it woke or migrated.
    Boost,
    /// The entity, or a related entity, has to respond in time. Only policies built over Credit use this priority.
    RealTime,
}

/// Number of priorities.
const PRIORITIES: usize = 4;

impl Priority {
    /// All priorities, from the least urgent.
    const ALL: [Priority; PRIORITIES] = [Priority::Over, Priority::Under, Priority::Boost, Priority::RealTime];

    /// Returns Xen's number of the priority: BOOST 0, UNDER −1, OVER −2; `RealTime` is 1.
    pub(crate) const fn number(self) -> i64 {
        self as i64 - Priority::Boost as i64
    }
}

/// The cached first entity of a queue below a priority. `Known(None)`: the queue contains no such entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Below {
    Unknown,
    Known(Option<EntityId>),
}

/// The run queues; see the module documentation.
#[derive(Debug)]
pub(crate) struct RunQueues {
    lists: Lists,
    /// Priority of each entity, by index.
    priorities: Vec<Priority>,
    /// Cached first entity below each priority, by CPU.
    below: Vec<[Below; PRIORITIES]>,
    /// CPUs whose queues are not empty.
    occupied: CpuSet,
}

impl RunQueues {
    /// Creates `cpus` empty queues.
    pub(crate) fn new(cpus: usize) -> RunQueues {
        RunQueues {
            lists: Lists::new(cpus),
            priorities: Vec::new(),
            below: vec![[Below::Known(None); PRIORITIES]; cpus],
            occupied: CpuSet::EMPTY,
        }
    }

    /// Reserves memory for `e`, which begins UNDER. Call this method when `e` is attached.
    pub(crate) fn reserve(&mut self, e: EntityId) {
        self.lists.reserve(e);
        if self.priorities.len() <= e.index() {
            self.priorities.resize(e.index() + 1, Priority::Under);
        }
        self.priorities[e.index()] = Priority::Under;
    }

    /// Returns the priority of `e`.
    pub(crate) fn priority(&self, e: EntityId) -> Priority {
        self.priorities[e.index()]
    }

    /// Changes the priority of `e`. If `e` is queued, its position does not change.
    pub(crate) fn set_priority(&mut self, e: EntityId, to: Priority) {
        if core::mem::replace(&mut self.priorities[e.index()], to) != to
            && let Some(queue) = self.lists.list_of(e)
        {
            self.below[queue] = [Below::Unknown; PRIORITIES];
        }
    }

    /// Returns the CPU in whose queue `e` waits; `None` if `e` is not queued.
    pub(crate) fn queue_of(&self, e: EntityId) -> Option<CpuId> {
        self.lists.list_of(e).map(CpuId::new)
    }

    /// Returns the first entity in the queue of `cpu`.
    pub(crate) fn first(&self, cpu: CpuId) -> Option<EntityId> {
        self.lists.first(cpu.index())
    }

    /// Returns the entity behind `e`, which is queued.
    pub(crate) fn next(&self, e: EntityId) -> Option<EntityId> {
        self.lists.next(e)
    }

    /// Returns the entities in the queue of `cpu`, first to last.
    pub(crate) fn iter(&self, cpu: CpuId) -> impl Iterator<Item = EntityId> + '_ {
        self.lists.iter(cpu.index())
    }

    /// Returns the CPUs whose queues are not empty.
    pub(crate) fn occupied(&self) -> &CpuSet {
        &self.occupied
    }

    /// Inserts `e` into the queue of `cpu`, in front of the first less urgent entity.
    pub(crate) fn insert(&mut self, cpu: CpuId, e: EntityId) {
        let priority = self.priority(e);
        let behind = self.first_below(cpu, priority);
        match behind {
            Some(behind) => self.lists.insert_before(behind, e),
            None => self.lists.push_back(cpu.index(), e),
        }
        self.occupied.insert(cpu);
        // `e` precedes `behind` now. For each higher priority, `e` replaces `behind` as the first entity below the
        // priority.
        for below in &mut self.below[cpu.index()][priority as usize + 1..] {
            if *below == Below::Known(behind) {
                *below = Below::Known(Some(e));
            }
        }
    }

    /// Inserts `e` into the queue of `cpu` behind the first less urgent entity, if any.
    pub(crate) fn insert_behind_one(&mut self, cpu: CpuId, e: EntityId) {
        let priority = self.priority(e);
        match self.first_below(cpu, priority).map(|below| self.lists.next(below)) {
            Some(Some(behind)) => self.lists.insert_before(behind, e),
            Some(None) | None => self.lists.push_back(cpu.index(), e),
        }
        self.occupied.insert(cpu);
        self.below[cpu.index()] = [Below::Unknown; PRIORITIES];
    }

    /// Inserts `e` into the queue of `cpu` behind the first `ahead` entities, but in front of the first entity that is
    /// less urgent than `e`. Returns the number of entities in front of `e`.
    pub(crate) fn insert_ahead(&mut self, cpu: CpuId, e: EntityId, ahead: usize) -> usize {
        let priority = self.priority(e);
        let place = self.iter(cpu).take(ahead).take_while(|&other| self.priority(other) >= priority).count();
        let behind = self.iter(cpu).nth(place);
        match behind {
            Some(behind) => self.lists.insert_before(behind, e),
            None => self.lists.push_back(cpu.index(), e),
        }
        self.occupied.insert(cpu);
        self.below[cpu.index()] = [Below::Unknown; PRIORITIES];
        place
    }

    /// Returns the first entity in the queue of `cpu` that is less urgent than `priority`.
    fn first_below(&mut self, cpu: CpuId, priority: Priority) -> Option<EntityId> {
        if let Below::Known(known) = self.below[cpu.index()][priority as usize] {
            return known;
        }
        let found = self.iter(cpu).find(|&e| self.priority(e) < priority);
        self.below[cpu.index()][priority as usize] = Below::Known(found);
        found
    }

    /// Removes `e` from its queue. Returns whether `e` was in a queue.
    pub(crate) fn remove(&mut self, e: EntityId) -> bool {
        let Some(queue) = self.lists.list_of(e) else { return false };
        for priority in Priority::ALL {
            if self.below[queue][priority as usize] == Below::Known(Some(e)) {
                // No entity in front of `e` is below `priority`, so the next entity below `priority` is behind `e`.
                let mut rest = core::iter::successors(self.lists.next(e), |&other| self.lists.next(other));
                let next = rest.find(|&other| self.priority(other) < priority);
                self.below[queue][priority as usize] = Below::Known(next);
            }
        }
        self.lists.remove(e);
        if self.lists.is_empty(queue) {
            self.occupied.remove(CpuId::new(queue));
        }
        true
    }

    /// Moves all UNDER and more urgent entities in the queue of `cpu` ahead of the OVER entities; otherwise keeps the
    /// order.
    pub(crate) fn sort(&mut self, cpu: CpuId) {
        let Some(over) = self.first_below(cpu, Priority::Under) else { return };
        let mut next = self.lists.next(over);
        while let Some(e) = next {
            next = self.lists.next(e);
            if self.priority(e) >= Priority::Under {
                self.lists.remove(e);
                self.lists.insert_before(over, e);
                self.below[cpu.index()][Priority::Boost as usize..].fill(Below::Unknown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Dice;

    const CPU: CpuId = CpuId::new(0);

    fn queue(priorities: &[Priority]) -> (RunQueues, Vec<EntityId>) {
        let mut queues = RunQueues::new(1);
        let entities: Vec<EntityId> = (0..).take(priorities.len()).map(|n| EntityId::new(n, 0)).collect();
        for (&e, &priority) in entities.iter().zip(priorities) {
            queues.reserve(e);
            queues.set_priority(e, priority);
        }
        (queues, entities)
    }

    #[test]
    fn an_entity_goes_behind_all_of_at_least_its_priority() {
        use Priority::{Boost, Over, Under};
        let (mut queues, e) = queue(&[Over, Under, Boost, Under, Over, Boost]);
        e.iter().for_each(|&e| queues.insert(CPU, e));
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[2], e[5], e[1], e[3], e[0], e[4]]);
    }

    #[test]
    fn a_yield_goes_behind_one_less_urgent_vcpu() {
        use Priority::{Over, Under};
        let (mut queues, e) = queue(&[Under, Over, Over, Under, Under]);
        e[1..4].iter().for_each(|&e| queues.insert(CPU, e));
        queues.insert_behind_one(CPU, e[0]);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[3], e[1], e[0], e[2]]);
        queues.insert(CPU, e[4]);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[3], e[4], e[1], e[0], e[2]]);
        queues.sort(CPU);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[3], e[4], e[0], e[1], e[2]]);
    }

    #[test]
    fn a_changed_priority_moves_no_vcpu_before_the_sort() {
        use Priority::{Over, Under};
        let (mut queues, e) = queue(&[Over, Under, Over, Under, Under]);
        e[..4].iter().for_each(|&e| queues.insert(CPU, e));
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[1], e[3], e[0], e[2]]);
        queues.set_priority(e[1], Over);
        queues.set_priority(e[2], Under);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[1], e[3], e[0], e[2]]);
        // The first entity below UNDER is now at the head.
        queues.insert(CPU, e[4]);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[4], e[1], e[3], e[0], e[2]]);
        queues.sort(CPU);
        assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), [e[4], e[3], e[2], e[1], e[0]]);
    }

    /// Inserts `e` by iteration over the list, as Xen does.
    fn walk(list: &mut Vec<EntityId>, e: EntityId, priority: impl Fn(EntityId) -> Priority) {
        let at = list.iter().position(|&other| priority(e) > priority(other)).unwrap_or(list.len());
        list.insert(at, e);
    }

    #[test]
    fn remembering_gives_the_same_order_as_walking() {
        let (mut queues, e) = queue(&[Priority::Under; 12]);
        let mut list = Vec::new();
        let mut dice = Dice(1);
        for _ in 0..20_000 {
            let draw = dice.index(1 << 31);
            let one = e[draw % 12];
            match draw / 12 % 4 {
                0 | 1 if queues.remove(one) => list.retain(|&other| other != one),
                0 | 1 => {
                    walk(&mut list, one, |e| queues.priority(e));
                    queues.insert(CPU, one);
                }
                2 => queues.set_priority(one, Priority::ALL[draw / 48 % 4]),
                _ if (draw / 48).is_multiple_of(8) => {
                    list.sort_by_key(|&e| queues.priority(e) == Priority::Over);
                    queues.sort(CPU);
                }
                _ => {}
            }
            assert_eq!(queues.iter(CPU).collect::<Vec<_>>(), list);
            assert_eq!(queues.occupied().contains(CPU), !list.is_empty());
        }
    }
}
