//! [`Calendar`]: what is due when. One slot per thing that can be due, so that putting something off replaces
//! it and nothing goes stale.

use sched::Instant;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    slot: u32,
}

const UNSET: Entry = Entry { at: Instant::NEVER, slot: 0 };

/// A tournament over dense slots: every inner node holds the earlier of its two children, and of equals the one
/// of lower slot. `first` takes O(1); `set` takes O(log slots) and touches one path.
#[derive(Debug)]
pub struct Calendar {
    /// Node 1 is the winner of all; the leaves are `leaves..2 * leaves`.
    nodes: Vec<Entry>,
    leaves: usize,
}

impl Calendar {
    /// A calendar with room for slots `0..slots`, none of them set.
    #[must_use]
    pub fn new(slots: usize) -> Calendar {
        let mut calendar = Calendar { nodes: Vec::new(), leaves: 0 };
        calendar.reserve(slots.max(1));
        calendar
    }

    /// Makes room for slots `0..slots`.
    pub fn reserve(&mut self, slots: usize) {
        if slots <= self.leaves {
            return;
        }
        let set: Vec<Entry> = self.nodes.iter().skip(self.leaves).copied().filter(|e| e.at != Instant::NEVER).collect();
        self.leaves = slots.next_power_of_two();
        assert!(u32::try_from(self.leaves).is_ok(), "a calendar has at most 2^31 slots");
        self.nodes = vec![UNSET; 2 * self.leaves];
        for entry in set {
            self.set(entry.slot as usize, entry.at);
        }
    }

    /// What is due first, and when: NEVER if nothing is set.
    #[inline]
    #[must_use]
    pub fn first(&self) -> (Instant, usize) {
        let first = self.nodes[1];
        (first.at, first.slot as usize)
    }

    /// When `slot` is due; NEVER if it is not set.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: usize) -> Instant {
        self.nodes[self.leaves + slot].at
    }

    /// Makes `slot` due at `at`; NEVER clears it.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Instant) {
        let mut node = self.leaves + slot;
        #[expect(clippy::cast_possible_truncation, reason = "checked when room was made")]
        let number = slot as u32;
        self.nodes[node] = Entry { at, slot: number };
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let winner = if right.at < left.at { right } else { left };
            if winner.slot != number && self.nodes[node].slot == winner.slot && self.nodes[node].at == winner.at {
                return;
            }
            self.nodes[node] = winner;
        }
    }

    /// Clears `slot`.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        self.set(slot, Instant::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_calendar_agrees_with_a_sorted_map_through_a_long_mixed_run() {
        let mut calendar = Calendar::new(1);
        let mut model = BTreeMap::new();
        let mut state = 7_u64;
        for step in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (state >> 33) as usize % (1 + step / 100);
            let at = Instant::at_ns(state >> 50);
            calendar.reserve(slot + 1);
            if state >> 32 & 3 == 0 {
                calendar.clear(slot);
                model.remove(&slot);
            } else {
                calendar.set(slot, at);
                model.insert(slot, at);
            }
            let first = model.iter().map(|(&slot, &at)| (at, slot)).min();
            let found = calendar.first();
            assert_eq!((found.0 != Instant::NEVER).then_some(found), first, "step {step}");
        }
    }
}
