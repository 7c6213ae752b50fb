//! [`Heaps`]: queues that return the entity with the minimum key.

use crate::id::EntityId;
use alloc::vec::Vec;

const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;

/// The position of an entity: its queue, and its index in that queue.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue: u32,
    at: u32,
}

/// Any number of queues ordered by key, smallest first. Of entities with equal keys, the entity with the lower index is
/// first. If keys end with an arrival number, entities with otherwise equal keys are in FIFO order.
///
/// `push`, `pop` and `remove` take O(log n); `first` takes O(1).
#[derive(Debug)]
pub struct Heaps<K> {
    heaps: Vec<Vec<(K, EntityId)>>,
    places: Vec<Place>,
}

impl<K: Copy + Ord> Heaps<K> {
    /// Creates `queues` empty queues.
    #[must_use]
    pub fn new(queues: usize) -> Heaps<K> {
        Heaps { heaps: (0..queues).map(|_| Vec::new()).collect(), places: Vec::new() }
    }

    /// Makes room for `e` in the table, and for `members` entities in `queue`. Must be called when `e` is attached, and
    /// before `queue` may hold more entities than were reserved.
    pub fn reserve(&mut self, e: EntityId, queue: usize, members: usize) {
        if self.places.len() <= e.index() {
            self.places.resize(e.index() + 1, Place { queue: NOWHERE, at: 0 });
        }
        let heap = &mut self.heaps[queue];
        heap.reserve(members.saturating_sub(heap.len()));
    }

    /// Returns the number of entities in `queue`.
    #[must_use]
    pub fn len(&self, queue: usize) -> usize {
        self.heaps[queue].len()
    }

    /// Returns whether `queue` is empty.
    #[must_use]
    pub fn is_empty(&self, queue: usize) -> bool {
        self.heaps[queue].is_empty()
    }

    /// Returns whether `e` is in any queue.
    #[must_use]
    pub fn contains(&self, e: EntityId) -> bool {
        self.places[e.index()].queue != NOWHERE
    }

    /// Enqueues `e` in `queue`. `e` must not be in any queue.
    #[inline]
    pub fn push(&mut self, queue: usize, key: K, e: EntityId) {
        assert!(!self.contains(e), "{e} is queued already");
        let heap = &mut self.heaps[queue];
        let at = heap.len();
        heap.push((key, e));
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 queues")]
        let number = queue as u32;
        self.places[e.index()].queue = number;
        self.rise(queue, at, (key, e));
    }

    /// Returns the entity with the minimum key in `queue`.
    #[inline]
    #[must_use]
    pub fn first(&self, queue: usize) -> Option<(K, EntityId)> {
        self.heaps[queue].first().copied()
    }

    /// Removes and returns the entity with the minimum key in `queue`.
    #[inline]
    pub fn pop(&mut self, queue: usize) -> Option<(K, EntityId)> {
        let first = self.first(queue)?;
        self.places[first.1.index()].queue = NOWHERE;
        let heap = &mut self.heaps[queue];
        let last = heap.pop().expect("it has a first");
        if !heap.is_empty() {
            self.sink(queue, 0, last);
        }
        Some(first)
    }

    /// Removes `e` from its queue. Returns whether `e` was in a queue.
    #[inline]
    pub fn remove(&mut self, e: EntityId) -> bool {
        let Place { queue, at } = self.places[e.index()];
        if queue == NOWHERE {
            return false;
        }
        self.places[e.index()].queue = NOWHERE;
        let heap = &mut self.heaps[queue as usize];
        let last = heap.pop().expect("it holds e");
        let at = at as usize;
        if at < heap.len() {
            if before(&last, &heap[at]) {
                self.rise(queue as usize, at, last);
            } else {
                self.sink(queue as usize, at, last);
            }
        }
        true
    }

    /// Returns the entities of `queue` in unspecified order.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = (K, EntityId)> + '_ {
        self.heaps[queue].iter().copied()
    }

    /// Moves `moving` from `at` up to its position in the heap.
    #[inline]
    fn rise(&mut self, queue: usize, mut at: usize, moving: (K, EntityId)) {
        let heap = &mut self.heaps[queue];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !before(&moving, &heap[parent]) {
                break;
            }
            heap[at] = heap[parent];
            self.places[heap[at].1.index()].at = position(at);
            at = parent;
        }
        heap[at] = moving;
        self.places[moving.1.index()].at = position(at);
    }

    /// Moves `moving` from `at` down to its position in the heap.
    #[inline]
    fn sink(&mut self, queue: usize, mut at: usize, moving: (K, EntityId)) {
        let heap = &mut self.heaps[queue];
        loop {
            let mut least = at * ARITY + 1;
            if least >= heap.len() {
                break;
            }
            for child in least + 1..(at * ARITY + 1 + ARITY).min(heap.len()) {
                if before(&heap[child], &heap[least]) {
                    least = child;
                }
            }
            if !before(&heap[least], &moving) {
                break;
            }
            heap[at] = heap[least];
            self.places[heap[at].1.index()].at = position(at);
            at = least;
        }
        heap[at] = moving;
        self.places[moving.1.index()].at = position(at);
    }
}

#[inline]
fn before<K: Ord>(a: &(K, EntityId), b: &(K, EntityId)) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
}

#[expect(clippy::cast_possible_truncation, reason = "a queue holds fewer than ENTITIES_MAX entities")]
const fn position(at: usize) -> u32 {
    at as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_come_out_in_order_whatever_was_removed() {
        let mut heaps = Heaps::new(2);
        let entity = |n: u32| EntityId::new(n, 0);
        for n in 0..100 {
            heaps.reserve(entity(n), 0, 100);
            heaps.push(0, (u64::from(n) * 37 % 101, n), entity(n));
        }
        for n in (0..100).step_by(3) {
            assert!(heaps.remove(entity(n)));
            assert!(!heaps.remove(entity(n)), "it is out");
        }
        let mut last = None;
        while let Some((key, e)) = heaps.pop(0) {
            assert!(Some(key) > last && e.index() % 3 != 0);
            last = Some(key);
        }
        assert!(heaps.is_empty(0) && heaps.is_empty(1));
    }
}
