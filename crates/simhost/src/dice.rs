//! [`Dice`]: seeded random numbers. SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
//! 2014).

use sched::Nanos;

/// A pseudorandom number generator. Equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Returns a generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns a number of 64 random bits.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `n`. `n` must be above zero.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.number() % n
    }

    /// Returns true with probability 1/`n`. `n` must be above zero.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a duration from `least` to `most`.
    pub const fn between(&mut self, least: Nanos, most: Nanos) -> Nanos {
        Nanos::ns(least.as_ns() + self.below(most.saturating_sub(least).as_ns() + 1))
    }

    /// Returns a random element; `None` for an empty list.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[usize::try_from(self.below(of.len() as u64)).expect("an index fits")])
    }
}
