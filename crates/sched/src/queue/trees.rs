//! [`Trees`]: queues in ascending order of key.

use crate::id::EntityId;
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// The summary that a tree keeps of each subtree, joined from the summaries of its entities.
pub trait Summary: Copy {
    /// Joins the summaries of two sets of entities. The result must not depend on the order of the joins.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

/// The empty summary.
impl Summary for () {
    fn join(self, (): ()) {}
}

#[derive(Clone, Copy, Debug)]
struct Node<K, S> {
    id: EntityId,
    key: K,
    /// Summary of the entity.
    own: S,
    /// Summary of the subtree.
    sum: S,
    tree: u32,
    parent: u32,
    child: [u32; 2],
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: u32,
    first: u32,
    len: u32,
}

/// Any number of queues, each in ascending order of key. The keys of a queue must be distinct; for example, they end
/// with an arrival number.
///
/// The queues are treaps. Their heap order is a hash of the entity's index, so the trees are balanced in expectation
/// and have the same shape on every run. `push` and `remove` take O(log n), `first` O(1), `next` O(1) amortised over an
/// iteration.
///
/// If `S` is not `()`, each entity has a [`Summary`], and each queue keeps the joined summary of its entities
/// (`summary`). The queue finds, in O(log n), the first entity whose summary satisfies a condition (`first_where`).
#[derive(Debug)]
pub struct Trees<K, S = ()> {
    trees: Vec<Tree>,
    nodes: Vec<Node<K, S>>,
}

/// Returns the rank of a node in heap order: the upper half of the Fibonacci hash of its index.
const fn rank(node: u32) -> u32 {
    let hash = (node as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 32) as u32
}

impl<K: Copy + Ord> Trees<K> {
    /// Makes room for `e`. Must be called when `e` is attached. `key` is a placeholder.
    pub fn reserve(&mut self, e: EntityId, key: K) {
        self.reserve_with(e, key, ());
    }

    /// Enqueues `e` in `tree`. `e` must not be in any queue.
    pub fn push(&mut self, tree: usize, key: K, e: EntityId) {
        self.push_with(tree, key, (), e);
    }
}

impl<K: Copy + Ord, S: Summary> Trees<K, S> {
    /// Creates `trees` empty queues.
    #[must_use]
    pub fn new(trees: usize) -> Trees<K, S> {
        Trees { trees: alloc::vec![Tree { root: NIL, first: NIL, len: 0 }; trees], nodes: Vec::new() }
    }

    /// Makes room for queues `0..trees`.
    pub fn reserve_trees(&mut self, trees: usize) {
        if self.trees.len() < trees {
            self.trees.resize(trees, Tree { root: NIL, first: NIL, len: 0 });
        }
    }

    /// Makes room for `e`. Must be called when `e` is attached. `key` and `own` are placeholders.
    pub fn reserve_with(&mut self, e: EntityId, key: K, own: S) {
        let fresh = Node { id: e, key, own, sum: own, tree: NIL, parent: NIL, child: [NIL; 2] };
        if self.nodes.len() <= e.index() {
            self.nodes.resize(e.index() + 1, fresh);
        }
        assert!(!self.contains(e), "{e} is new");
        self.nodes[e.index()] = fresh;
    }

    /// Returns the number of entities in `tree`.
    #[must_use]
    pub fn len(&self, tree: usize) -> usize {
        self.trees[tree].len as usize
    }

    /// Returns whether `tree` is empty.
    #[must_use]
    pub fn is_empty(&self, tree: usize) -> bool {
        self.trees[tree].len == 0
    }

    /// Returns whether `e` is in any queue.
    #[must_use]
    pub fn contains(&self, e: EntityId) -> bool {
        self.nodes[e.index()].tree != NIL
    }

    /// Returns the queue of `e`, if any.
    #[must_use]
    pub fn tree_of(&self, e: EntityId) -> Option<usize> {
        let tree = self.nodes[e.index()].tree;
        (tree != NIL).then_some(tree as usize)
    }

    /// Returns the entity with the minimum key in `tree`.
    #[must_use]
    pub fn first(&self, tree: usize) -> Option<(K, EntityId)> {
        self.at(self.trees[tree].first)
    }

    /// Returns the entity after `e`, which is in a queue.
    #[must_use]
    pub fn next(&self, e: EntityId) -> Option<(K, EntityId)> {
        self.at(self.successor(index(e)))
    }

    /// Returns the entities of `tree`, in order of key.
    pub fn iter(&self, tree: usize) -> impl Iterator<Item = (K, EntityId)> + '_ {
        core::iter::successors(self.first(tree), |&(_, e)| self.next(e))
    }

    /// Returns the summary of all entities of `tree`; `None` if the tree is empty.
    #[must_use]
    pub fn summary(&self, tree: usize) -> Option<S> {
        let root = self.trees[tree].root;
        (root != NIL).then(|| self.nodes[root as usize].sum)
    }

    /// Returns the first entity of `tree`, in order of key, whose summary satisfies `is`. The summary of a set must
    /// satisfy `is` if and only if the summary of at least one entity in the set does. Example: a minimum is below a
    /// limit.
    pub fn first_where(&self, tree: usize, is: impl Fn(S) -> bool) -> Option<(K, EntityId)> {
        let mut at = self.trees[tree].root;
        while at != NIL {
            let Node { own, child: [left, right], .. } = self.nodes[at as usize];
            if left != NIL && is(self.nodes[left as usize].sum) {
                at = left;
            } else if is(own) {
                break;
            } else {
                at = right;
            }
        }
        self.at(at)
    }

    fn at(&self, node: u32) -> Option<(K, EntityId)> {
        (node != NIL).then(|| {
            let node = &self.nodes[node as usize];
            (node.key, node.id)
        })
    }

    fn successor(&self, mut node: u32) -> u32 {
        let [_, right] = self.nodes[node as usize].child;
        if right != NIL {
            node = right;
            while self.nodes[node as usize].child[0] != NIL {
                node = self.nodes[node as usize].child[0];
            }
            return node;
        }
        loop {
            let parent = self.nodes[node as usize].parent;
            if parent == NIL || self.nodes[parent as usize].child[0] == node {
                return parent;
            }
            node = parent;
        }
    }

    /// Enqueues `e` in `tree`, with a summary. `e` must not be in any queue.
    pub fn push_with(&mut self, tree: usize, key: K, own: S, e: EntityId) {
        assert!(!self.contains(e), "{e} is queued already");
        let new = index(e);
        let (mut parent, mut side, mut leftmost) = (NIL, 0, true);
        let mut at = self.trees[tree].root;
        while at != NIL {
            parent = at;
            side = usize::from(key > self.nodes[at as usize].key);
            leftmost &= side == 0;
            at = self.nodes[at as usize].child[side];
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 queues")]
        let number = tree as u32;
        self.nodes[e.index()] = Node { id: e, key, own, sum: own, tree: number, parent, child: [NIL; 2] };
        let ends = &mut self.trees[tree];
        ends.len += 1;
        if leftmost {
            ends.first = new;
        }
        if parent == NIL {
            ends.root = new;
            return;
        }
        self.nodes[parent as usize].child[side] = new;
        while self.nodes[new as usize].parent != NIL && rank(new) > rank(self.nodes[new as usize].parent) {
            self.rotate_up(tree, new);
        }
        self.sum_up_from(new);
    }

    /// Replaces the summary of `e`, which is in a queue.
    pub fn resummarise(&mut self, e: EntityId, own: S) {
        assert!(self.contains(e), "{e} is queued");
        self.nodes[e.index()].own = own;
        self.sum_up_from(index(e));
    }

    /// Removes and returns the entity with the minimum key in `tree`.
    pub fn pop(&mut self, tree: usize) -> Option<(K, EntityId)> {
        let first = self.first(tree)?;
        self.remove(first.1);
        Some(first)
    }

    /// Removes `e` from its queue. Returns whether `e` was in a queue.
    pub fn remove(&mut self, e: EntityId) -> bool {
        let Some(tree) = self.tree_of(e) else { return false };
        let old = index(e);
        if self.trees[tree].first == old {
            self.trees[tree].first = self.successor(old);
        }
        self.trees[tree].len -= 1;
        loop {
            let [left, right] = self.nodes[old as usize].child;
            match (left, right) {
                (NIL, only) | (only, NIL) => {
                    self.replace(tree, old, only);
                    break;
                }
                _ => self.rotate_up(tree, if rank(left) > rank(right) { left } else { right }),
            }
        }
        self.nodes[e.index()].tree = NIL;
        self.sum_up_from(self.nodes[e.index()].parent);
        true
    }

    /// Updates the summaries of `node` and of all its ancestors, if summaries are kept.
    fn sum_up_from(&mut self, mut node: u32) {
        if core::mem::size_of::<S>() == 0 {
            return;
        }
        while node != NIL {
            self.sum_up(node);
            node = self.nodes[node as usize].parent;
        }
    }

    fn sum_up(&mut self, node: u32) {
        let Node { own, child, .. } = self.nodes[node as usize];
        let below = child.into_iter().filter(|&child| child != NIL).map(|child| self.nodes[child as usize].sum);
        self.nodes[node as usize].sum = below.fold(own, S::join);
    }

    /// Replaces `old` with `new` below the parent of `old`. `new` may be NIL.
    fn replace(&mut self, tree: usize, old: u32, new: u32) {
        let parent = self.nodes[old as usize].parent;
        if parent == NIL {
            self.trees[tree].root = new;
        } else {
            let side = usize::from(self.nodes[parent as usize].child[1] == old);
            self.nodes[parent as usize].child[side] = new;
        }
        if new != NIL {
            self.nodes[new as usize].parent = parent;
        }
    }

    fn rotate_up(&mut self, tree: usize, node: u32) {
        let parent = self.nodes[node as usize].parent;
        let side = usize::from(self.nodes[parent as usize].child[1] == node);
        let inner = self.nodes[node as usize].child[1 - side];
        self.replace(tree, parent, node);
        self.nodes[node as usize].child[1 - side] = parent;
        self.nodes[parent as usize].parent = node;
        self.nodes[parent as usize].child[side] = inner;
        if inner != NIL {
            self.nodes[inner as usize].parent = parent;
        }
        // The caller updates the summaries of the nodes above.
        self.sum_up(parent);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an index is 32 bits")]
const fn index(e: EntityId) -> u32 {
    e.index() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn a_tree_agrees_with_a_sorted_set_through_a_long_mixed_run() {
        let mut trees: Trees<(u64, u32)> = Trees::new(2);
        let mut model = BTreeSet::new();
        let entity = |n: u32| EntityId::new(n, 0);
        (0..200).for_each(|n| trees.reserve(entity(n), (0, 0)));
        let mut state = 12345_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n = (state >> 33) as u32 % 200;
            let key = (state >> 40 & 0x3f, n);
            if trees.contains(entity(n)) {
                model.retain(|&(_, other)| other != n);
                assert!(trees.remove(entity(n)));
            } else {
                model.insert(key);
                trees.push(1, key, entity(n));
            }
            assert_eq!(trees.first(1).map(|(key, _)| key), model.first().copied());
            assert_eq!(trees.len(1), model.len());
        }
        assert!(trees.iter(1).map(|(key, _)| key).eq(model.iter().copied()));
    }

    /// The minimum of the numbers of some entities.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Least(u64);

    impl Summary for Least {
        fn join(self, other: Least) -> Least {
            Least(self.0.min(other.0))
        }
    }

    #[test]
    fn a_summary_is_that_of_all_and_finds_the_first_of_its_kind() {
        let mut trees: Trees<(u64, u32), Least> = Trees::new(2);
        let mut model: BTreeSet<((u64, u32), u64)> = BTreeSet::new();
        let entity = |n: u32| EntityId::new(n, 0);
        (0..200).for_each(|n| trees.reserve_with(entity(n), (0, 0), Least(0)));
        let mut state = 54321_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n = (state >> 33) as u32 % 200;
            let (key, own) = ((state >> 40 & 0x3f, n), state >> 50 & 0xff);
            let known = model.iter().find(|&&((_, other), _)| other == n).copied();
            match known {
                Some((key, _)) if own.is_multiple_of(3) => {
                    model.retain(|&((_, other), _)| other != n);
                    model.insert((key, own));
                    trees.resummarise(entity(n), Least(own));
                }
                Some(_) => {
                    model.retain(|&((_, other), _)| other != n);
                    assert!(trees.remove(entity(n)));
                }
                None => {
                    model.insert((key, own));
                    trees.push_with(1, key, Least(own), entity(n));
                }
            }
            assert_eq!(trees.summary(1), model.iter().map(|&(_, own)| Least(own)).reduce(Least::join));
            for most in [own, 20, 200] {
                let first = model.iter().find(|&&(_, own)| own <= most).map(|&(key, _)| key);
                assert_eq!(trees.first_where(1, |least| least.0 <= most).map(|(key, _)| key), first);
            }
        }
        assert_eq!(trees.summary(0), None);
    }
}
