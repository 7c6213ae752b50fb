//! [`Levels`]: a list per priority.

use crate::id::EntityId;
use crate::queue::Lists;
use alloc::vec::Vec;

/// Any number of queues with up to 128 priority levels each; level 0 is the most urgent. Every operation takes O(1).
#[derive(Debug)]
pub struct Levels {
    lists: Lists,
    levels: usize,
    occupied: Vec<u128>,
}

impl Levels {
    /// Creates `queues` empty queues of `levels` levels. Panics above 128 levels.
    #[must_use]
    pub fn new(queues: usize, levels: usize) -> Levels {
        assert!(levels <= 128, "a queue has at most 128 levels");
        Levels { lists: Lists::new(queues * levels), levels, occupied: alloc::vec![0; queues] }
    }

    /// Makes room for `e`. Must be called when `e` is attached.
    pub fn reserve(&mut self, e: EntityId) {
        self.lists.reserve(e);
    }

    /// Enqueues `e` last at `level` of `queue`.
    pub fn push_back(&mut self, queue: usize, level: usize, e: EntityId) {
        self.lists.push_back(self.list(queue, level), e);
        self.occupied[queue] |= 1 << level;
    }

    /// Enqueues `e` first at `level` of `queue`.
    pub fn push_front(&mut self, queue: usize, level: usize, e: EntityId) {
        self.lists.push_front(self.list(queue, level), e);
        self.occupied[queue] |= 1 << level;
    }

    fn list(&self, queue: usize, level: usize) -> usize {
        assert!(level < self.levels, "there are {} levels", self.levels);
        queue * self.levels + level
    }

    /// Returns the most urgent occupied level of `queue`.
    #[must_use]
    pub fn best(&self, queue: usize) -> Option<usize> {
        let occupied = self.occupied[queue];
        (occupied != 0).then(|| occupied.trailing_zeros() as usize)
    }

    /// Returns the first entity at the most urgent level of `queue`.
    #[must_use]
    pub fn first(&self, queue: usize) -> Option<EntityId> {
        self.lists.first(self.list(queue, self.best(queue)?))
    }

    /// Returns whether `level` of `queue` is occupied.
    #[must_use]
    pub fn is_occupied(&self, queue: usize, level: usize) -> bool {
        self.occupied[queue] >> level & 1 == 1
    }

    /// Returns the queue and level of `e`. `None`: `e` is not enqueued.
    #[must_use]
    pub fn place(&self, e: EntityId) -> Option<(usize, usize)> {
        self.lists.list_of(e).map(|list| (list / self.levels, list % self.levels))
    }

    /// Removes `e` from its level. Returns whether `e` was enqueued.
    pub fn remove(&mut self, e: EntityId) -> bool {
        let Some((queue, level)) = self.place(e) else { return false };
        self.lists.remove(e);
        if self.lists.is_empty(self.list(queue, level)) {
            self.occupied[queue] &= !(1 << level);
        }
        true
    }

    /// Returns the entities of `queue`, most urgent level first; within a level, first to last.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = EntityId> + '_ {
        let mut rest = self.occupied[queue];
        let levels = core::iter::from_fn(move || {
            let level = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(level)
        });
        levels.flat_map(move |level| self.lists.iter(self.list(queue, level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_level_comes_first_and_levels_are_fifo() {
        let [a, b, c] = [0, 1, 2].map(|n| EntityId::new(n, 0));
        let mut levels = Levels::new(2, 100);
        [a, b, c].into_iter().for_each(|e| levels.reserve(e));
        levels.push_back(1, 50, a);
        levels.push_back(1, 50, b);
        levels.push_front(1, 9, c);
        assert_eq!(levels.iter(1).collect::<Vec<_>>(), [c, a, b]);
        assert!(levels.remove(c));
        assert_eq!((levels.best(1), levels.first(1), levels.first(0)), (Some(50), Some(a), None));
    }
}
