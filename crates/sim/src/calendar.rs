//! [`Calendar`]: the event queue, with one slot for each item that can be due. A new instant for a slot replaces the
//! old instant, so no entry is ever stale.

use sched::{Instant, Nanos};
use std::hint::select_unpredictable;

/// The due instant of a slot, and the slot.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    slot: u64,
}

impl Due {
    const UNSET: Due = Due { at: Instant::NEVER, slot: u64::MAX };
}

/// A tournament over dense slots: a binary tree in which every match stores its two players. The player that is due
/// first advances. Of the slots due at one instant, the lowest wins. `next` and `first` take O(1). `set` plays one
/// match per level: seven matches for 128 slots.
#[derive(Debug)]
pub struct Calendar {
    /// Match 1 is the final. The players of match `m` are the winners of matches `2m` and `2m + 1`. The players of the
    /// matches in the second half of the list are the slots, in order.
    matches: Vec<[Due; 2]>,
    first: Due,
}

impl Calendar {
    /// Creates a calendar with room for slots `0..slots`, all unset.
    #[must_use]
    pub fn new(slots: usize) -> Calendar {
        let mut calendar = Calendar { matches: Vec::new(), first: Due::UNSET };
        calendar.reserve(slots.max(2));
        calendar
    }

    /// Makes room for slots `0..slots`.
    pub fn reserve(&mut self, slots: usize) {
        let room = self.matches.len();
        if slots <= room {
            return;
        }
        let set = std::mem::replace(&mut self.matches, vec![[Due::UNSET; 2]; slots.next_power_of_two()]);
        for (slot, due) in set[room / 2..].iter().flatten().enumerate() {
            self.set(slot, due.at);
        }
    }

    /// Returns the earliest due instant. NEVER if no slot is set.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Instant {
        self.first.at
    }

    /// Returns the slot that is due first. If no slot is set, returns an arbitrary number.
    #[inline]
    #[must_use]
    pub fn first(&self) -> usize {
        self.first.slot as usize
    }

    /// Returns the instant at which `slot` is due. NEVER if `slot` is not set.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: usize) -> Instant {
        let place = self.matches.len() + slot;
        self.matches[place / 2][place % 2].at
    }

    /// Makes `slot` due at `at`. NEVER clears the slot.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Instant) {
        let mut winner = Due { at, slot: slot as u64 };
        let mut place = self.matches.len() + slot;
        while place > 1 {
            let (players, side) = (&mut self.matches[place / 2], place % 2);
            players[side] = winner;
            let other = players[side ^ 1];
            // Of two players that are due at the same instant, the left player wins. The comparison must not become a
            // branch, because its outcome is unpredictable.
            let left = 1 - side as u64;
            let loses = other.at.saturating_add(Nanos::ns(left)) <= winner.at;
            winner.at = select_unpredictable(loses, other.at, winner.at);
            winner.slot = select_unpredictable(loses, other.slot, winner.slot);
            place /= 2;
        }
        self.first = winner;
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
            let next = calendar.next();
            let found = (next != Instant::NEVER).then(|| (next, calendar.first()));
            assert_eq!(found, first, "step {step}");
            assert!(slot.is_multiple_of(7) || calendar.get(slot) == *model.get(&slot).unwrap_or(&Instant::NEVER));
        }
    }
}
