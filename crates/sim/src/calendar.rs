//! [`Calendar`]: what is due when. One slot per thing that can be due, so that putting something off replaces
//! it and nothing goes stale.

use sched::Instant;

const FAN: usize = 8;

/// Eight neighbours, and which of them is the earliest.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: [Instant; FAN],
    first: u8,
}

const UNSET: Block = Block { at: [Instant::NEVER; FAN], first: 0 };

impl Block {
    /// Finds the earliest; of equals the lowest.
    #[inline]
    fn judge(&mut self) -> Instant {
        let pair = |i: u8| {
            let (a, b) = (self.at[usize::from(i)], self.at[usize::from(i) + 1]);
            if b < a { (b, i + 1) } else { (a, i) }
        };
        let better = |a: (Instant, u8), b: (Instant, u8)| if b.0 < a.0 { b } else { a };
        let (at, first) = better(better(pair(0), pair(2)), better(pair(4), pair(6)));
        self.first = first;
        at
    }
}

/// A tree of minima over dense slots: a block of eight holds slots, or the earliest instants of eight blocks below.
/// Of slots due at one instant, the lowest comes first. `next` takes O(1); `first` and `set` touch one block per
/// level, three for 512 slots.
#[derive(Debug)]
pub struct Calendar {
    /// Slots first, then the levels above them; the last level is one block.
    levels: Vec<Vec<Block>>,
    next: Instant,
}

impl Calendar {
    /// A calendar with room for slots `0..slots`, none of them set.
    #[must_use]
    pub fn new(slots: usize) -> Calendar {
        let mut calendar = Calendar { levels: Vec::new(), next: Instant::NEVER };
        calendar.reserve(slots.max(1));
        calendar
    }

    /// Makes room for slots `0..slots`.
    pub fn reserve(&mut self, slots: usize) {
        let room = self.levels.first().map_or(0, Vec::len) * FAN;
        if slots <= room {
            return;
        }
        let mut blocks = slots.next_power_of_two().div_ceil(FAN);
        let set = std::mem::take(&mut self.levels).into_iter().next().unwrap_or_default();
        self.levels.push(vec![UNSET; blocks]);
        while blocks > 1 {
            blocks = blocks.div_ceil(FAN);
            self.levels.push(vec![UNSET; blocks]);
        }
        for (slot, at) in set.into_iter().flat_map(|block| block.at).enumerate() {
            self.set(slot, at);
        }
    }

    /// When the first is due; NEVER if nothing is set.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Which slot is due first; any if nothing is set.
    #[inline]
    #[must_use]
    pub fn first(&self) -> usize {
        self.levels.iter().rev().fold(0, |slot, level| slot * FAN + usize::from(level[slot].first))
    }

    /// When `slot` is due; NEVER if it is not set.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: usize) -> Instant {
        self.levels[0][slot / FAN].at[slot % FAN]
    }

    /// Makes `slot` due at `at`; NEVER clears it.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Instant) {
        let (mut slot, mut at) = (slot, at);
        for level in &mut self.levels {
            let block = &mut level[slot / FAN];
            block.at[slot % FAN] = at;
            at = block.judge();
            slot /= FAN;
        }
        self.next = at;
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
