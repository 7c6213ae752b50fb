//! Common parts of the tests: seeded random numbers, and example traces.
#![allow(unreachable_pub, reason = "it is seen by its siblings alone")]

pub mod edf;
pub mod events;
pub mod walk;
pub mod world;

/// A small seeded generator (splitmix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing is below zero");
        self.next() % n
    }

    /// Returns an index below `n`.
    pub fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Returns any number up to `most`. Small and extreme numbers are more frequent.
    pub fn number(&mut self, most: u64) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => most,
            2 => self.below(1000).min(most),
            _ if most == u64::MAX => self.next(),
            _ => self.below(most + 1),
        }
    }
}
