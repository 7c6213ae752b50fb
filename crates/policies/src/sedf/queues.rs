//! The four queues of each CPU. The first queue holds the entities with a begun period, the second queue the entities
//! that wait for their next period. The other two queues hold the entities that want extra time.
//!
//! Xen uses sorted lists, in which an entity is inserted behind entities with an equal key. This module uses trees
//! whose keys end with an arrival number, for the same order with a faster search. To subtract a value from all scores
//! of a queue, this module moves the origin of the scores.

use sched::queue::Trees;
use sched::{CpuId, EntityId, Instant};

/// The urgency in extra time. The minimum score is the most urgent.
pub(super) type Score = i128;

#[derive(Debug)]
pub(super) struct Queues {
    /// Begun periods, by deadline, and periods to come, by beginning: two queues for each CPU.
    periods: Trees<(Instant, u64)>,
    /// Entities to be compensated for a lost slice, by score (Xen's L0).
    penalty: Trees<(Score, u64)>,
    /// Entities that share the remaining extra time, by the sum of their score and the CPU's origin (Xen's L1).
    utilisation: Trees<(Score, u64)>,
    /// Origin of each CPU's utilisation scores.
    origins: Vec<Score>,
    /// Sum of the score and the CPU's origin, for each entity in `utilisation`.
    absolute: Vec<Score>,
    arrivals: u64,
}

const fn begun(cpu: CpuId) -> usize {
    2 * cpu.index()
}

const fn to_come(cpu: CpuId) -> usize {
    2 * cpu.index() + 1
}

impl Queues {
    pub(super) fn new(cpus: usize) -> Queues {
        Queues {
            periods: Trees::new(2 * cpus),
            penalty: Trees::new(cpus),
            utilisation: Trees::new(cpus),
            origins: vec![0; cpus],
            absolute: Vec::new(),
            arrivals: 0,
        }
    }

    pub(super) fn reserve(&mut self, e: EntityId) {
        self.periods.reserve(e, (Instant::ZERO, 0));
        self.penalty.reserve(e, (0, 0));
        self.utilisation.reserve(e, (0, 0));
        if self.absolute.len() <= e.index() {
            self.absolute.resize(e.index() + 1, 0);
        }
    }

    fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    // ---- Periods ----

    pub(super) fn push_begun(&mut self, cpu: CpuId, deadline: Instant, e: EntityId) {
        let key = (deadline, self.arrival());
        self.periods.push(begun(cpu), key, e);
    }

    pub(super) fn push_to_come(&mut self, cpu: CpuId, begin: Instant, e: EntityId) {
        let key = (begin, self.arrival());
        self.periods.push(to_come(cpu), key, e);
    }

    pub(super) fn first_begun(&self, cpu: CpuId) -> Option<EntityId> {
        self.periods.first(begun(cpu)).map(|(_, e)| e)
    }

    /// Returns the entity whose period begins next, and the instant of that beginning.
    pub(super) fn first_to_come(&self, cpu: CpuId) -> Option<(Instant, EntityId)> {
        self.periods.first(to_come(cpu)).map(|((begin, _), e)| (begin, e))
    }

    /// Returns the entity after `e` in its queue of periods.
    pub(super) fn next(&self, e: EntityId) -> Option<EntityId> {
        self.periods.next(e).map(|(_, e)| e)
    }

    pub(super) fn leave_periods(&mut self, e: EntityId) {
        self.periods.remove(e);
    }

    // ---- Extra time ----

    pub(super) fn push_penalty(&mut self, cpu: CpuId, score: Score, e: EntityId) {
        let key = (score, self.arrival());
        self.penalty.push(cpu.index(), key, e);
    }

    pub(super) fn first_penalty(&self, cpu: CpuId) -> Option<EntityId> {
        self.penalty.first(cpu.index()).map(|(_, e)| e)
    }

    pub(super) fn leave_penalty(&mut self, e: EntityId) -> bool {
        self.penalty.remove(e)
    }

    pub(super) fn push_utilisation(&mut self, cpu: CpuId, score: Score, e: EntityId) {
        let absolute = score + self.origins[cpu.index()];
        self.absolute[e.index()] = absolute;
        let key = (absolute, self.arrival());
        self.utilisation.push(cpu.index(), key, e);
    }

    pub(super) fn first_utilisation(&self, cpu: CpuId) -> Option<EntityId> {
        self.utilisation.first(cpu.index()).map(|(_, e)| e)
    }

    pub(super) fn wants_utilisation(&self, e: EntityId) -> bool {
        self.utilisation.contains(e)
    }

    /// Returns the score of `e` in its queue for extra time, if `e` is queued.
    pub(super) fn utilisation_score(&self, e: EntityId) -> Option<Score> {
        let cpu = self.utilisation.tree_of(e)?;
        Some(self.absolute[e.index()] - self.origins[cpu])
    }

    /// Removes `e` from its queue for extra time. Returns the score of `e`, if `e` was queued.
    pub(super) fn leave_utilisation(&mut self, e: EntityId) -> Option<Score> {
        let score = self.utilisation_score(e)?;
        self.utilisation.remove(e);
        Some(score)
    }

    /// Subtracts `score` from the score of every entity in the queue of `cpu`.
    pub(super) fn lower_utilisation(&mut self, cpu: CpuId, score: Score) {
        self.origins[cpu.index()] += score;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Dice;

    const CPU: CpuId = CpuId::new(0);

    /// Xen's list. An entity is inserted before the first entity with a greater score, and a decrement applies to every
    /// score.
    #[derive(Default)]
    struct List(Vec<(Score, EntityId)>);

    impl List {
        fn insert(&mut self, score: Score, e: EntityId) {
            let at = self.0.iter().position(|&(other, _)| score < other).unwrap_or(self.0.len());
            self.0.insert(at, (score, e));
        }

        fn remove(&mut self, e: EntityId) -> Option<Score> {
            let at = self.0.iter().position(|&(_, other)| other == e)?;
            Some(self.0.remove(at).0)
        }
    }

    #[test]
    fn the_trees_order_as_xens_lists_do() {
        let mut queues = Queues::new(1);
        let (mut extra, mut penalty, mut periods) = (List::default(), List::default(), List::default());
        let entities: Vec<EntityId> = (0..12).map(|n| EntityId::new(n, 0)).collect();
        entities.iter().for_each(|&e| queues.reserve(e));
        let mut dice = Dice(99);
        for _ in 0..20_000 {
            let e = entities[dice.index(entities.len())];
            // The number of different scores is small, so many scores are equal.
            let score = Score::from(dice.below(8));
            match dice.below(16) {
                0..5 => {
                    let left = extra.remove(e);
                    assert_eq!(queues.leave_utilisation(e), left);
                    if left.is_none() {
                        extra.insert(score - 3, e);
                        queues.push_utilisation(CPU, score - 3, e);
                    }
                }
                5..7 => {
                    extra.0.iter_mut().for_each(|(other, _)| *other -= score - 3);
                    queues.lower_utilisation(CPU, score - 3);
                }
                7..11 => {
                    if penalty.remove(e).is_none() {
                        penalty.insert(score, e);
                        queues.push_penalty(CPU, score, e);
                    } else {
                        assert!(queues.leave_penalty(e));
                    }
                }
                _ => {
                    let at = Instant::at_ns(u64::try_from(score).expect("it is small"));
                    if periods.remove(e).is_none() {
                        periods.insert(score, e);
                        queues.push_begun(CPU, at, e);
                    } else {
                        queues.leave_periods(e);
                    }
                }
            }
            let first = |list: &List| list.0.first().map(|&(_, e)| e);
            assert_eq!(queues.first_utilisation(CPU), first(&extra));
            assert_eq!(queues.first_penalty(CPU), first(&penalty));
            assert_eq!(queues.first_begun(CPU), first(&periods));
            assert!(extra.0.iter().all(|&(score, e)| queues.utilisation_score(e) == Some(score)));
        }
    }
}
