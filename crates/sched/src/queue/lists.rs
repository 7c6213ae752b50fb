//! [`Lists`]: FIFO lists of entities.

use crate::id::EntityId;
use alloc::vec::Vec;

const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    id: EntityId,
    list: u32,
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// Any number of lists. Every operation except iteration takes O(1).
#[derive(Debug)]
pub struct Lists {
    lists: Vec<List>,
    nodes: Vec<Node>,
    queued: usize,
}

impl Lists {
    /// Creates `lists` empty lists.
    #[must_use]
    pub fn new(lists: usize) -> Lists {
        Lists { lists: alloc::vec![List { head: END, tail: END, len: 0 }; lists], nodes: Vec::new(), queued: 0 }
    }

    /// Makes room for `e`. Must be called when `e` is attached.
    pub fn reserve(&mut self, e: EntityId) {
        if self.nodes.len() <= e.index() {
            self.nodes.resize(e.index() + 1, Node { id: e, list: END, next: END, prev: END });
        }
        assert!(self.list_of(e).is_none(), "{e} is new");
        self.nodes[e.index()].id = e;
    }

    /// Returns the number of entities in `list`.
    #[must_use]
    pub fn len(&self, list: usize) -> usize {
        self.lists[list].len as usize
    }

    /// Returns whether all lists are empty.
    #[inline]
    #[must_use]
    pub fn all_empty(&self) -> bool {
        self.queued == 0
    }

    /// Returns whether `list` is empty.
    #[must_use]
    pub fn is_empty(&self, list: usize) -> bool {
        self.lists[list].len == 0
    }

    /// Returns the list of `e`, if any.
    #[must_use]
    pub fn list_of(&self, e: EntityId) -> Option<usize> {
        let list = self.nodes[e.index()].list;
        (list != END).then_some(list as usize)
    }

    /// Returns whether `e` is in any list.
    #[must_use]
    pub fn contains(&self, e: EntityId) -> bool {
        self.list_of(e).is_some()
    }

    /// Enqueues `e` last in `list`.
    pub fn push_back(&mut self, list: usize, e: EntityId) {
        self.insert_at(list, e, END);
    }

    /// Enqueues `e` first in `list`.
    pub fn push_front(&mut self, list: usize, e: EntityId) {
        self.insert_at(list, e, self.lists[list].head);
    }

    /// Inserts `e` in front of `other`, in the list of `other`.
    pub fn insert_before(&mut self, other: EntityId, e: EntityId) {
        let list = self.list_of(other).expect("`other` is in a list");
        self.insert_at(list, e, number(other));
    }

    /// Inserts `e` into `list` in front of node `next`, or at the end if `next` is END.
    fn insert_at(&mut self, list: usize, e: EntityId, next: u32) {
        assert!(!self.contains(e), "{e} is queued already");
        let ends = &mut self.lists[list];
        ends.len += 1;
        self.queued += 1;
        let prev = match next {
            END => core::mem::replace(&mut ends.tail, number(e)),
            next => core::mem::replace(&mut self.nodes[next as usize].prev, number(e)),
        };
        match prev {
            END => ends.head = number(e),
            prev => self.nodes[prev as usize].next = number(e),
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 lists")]
        let list = list as u32;
        self.nodes[e.index()] = Node { id: e, list, next, prev };
    }

    /// Returns the first entity of `list`.
    #[must_use]
    pub fn first(&self, list: usize) -> Option<EntityId> {
        self.at(self.lists[list].head)
    }

    /// Returns the entity after `e`, which is in a list.
    #[must_use]
    pub fn next(&self, e: EntityId) -> Option<EntityId> {
        self.at(self.nodes[e.index()].next)
    }

    fn at(&self, node: u32) -> Option<EntityId> {
        (node != END).then(|| self.nodes[node as usize].id)
    }

    /// Removes and returns the first entity of `list`.
    pub fn pop(&mut self, list: usize) -> Option<EntityId> {
        let first = self.first(list)?;
        self.remove(first);
        Some(first)
    }

    /// Removes `e` from its list. Returns whether `e` was in a list.
    pub fn remove(&mut self, e: EntityId) -> bool {
        let Node { list, next, prev, .. } = self.nodes[e.index()];
        if list == END {
            return false;
        }
        let ends = &mut self.lists[list as usize];
        ends.len -= 1;
        self.queued -= 1;
        match prev {
            END => ends.head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            END => ends.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.nodes[e.index()].list = END;
        true
    }

    /// Returns the entities of `list`, first to last.
    pub fn iter(&self, list: usize) -> impl Iterator<Item = EntityId> + '_ {
        core::iter::successors(self.first(list), |&e| self.next(e))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an index is 32 bits")]
const fn number(e: EntityId) -> u32 {
    e.index() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_through_every_kind_of_change() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| EntityId::new(n, 0));
        let mut lists = Lists::new(2);
        [a, b, c, d].into_iter().for_each(|e| lists.reserve(e));
        lists.push_back(0, b);
        lists.push_back(0, d);
        lists.push_front(0, a);
        lists.insert_before(d, c);
        assert_eq!(lists.iter(0).collect::<Vec<_>>(), [a, b, c, d]);
        assert!(lists.remove(c) && !lists.remove(c));
        assert_eq!((lists.pop(0), lists.len(0), lists.next(b)), (Some(a), 2, Some(d)));
        lists.push_back(1, c);
        assert_eq!((lists.list_of(c), lists.list_of(a)), (Some(1), None));
    }
}
