//! [`Dice`]: random numbers from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::Nanos;

/// A generator of random numbers. Equal seeds give equal numbers on all machines.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Returns a generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns a number below `n`. `n` must be above zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// Returns true with probability 1/`n`. `n` must be above zero.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a duration up to `most`, with every order of magnitude equally likely.
    pub fn span(&mut self, most: Nanos) -> Nanos {
        let bits = u64::from(u64::BITS - most.as_ns().leading_zeros());
        let magnitude = self.below(bits + 1);
        Nanos::ns((self.0.next_u64() & ((1_u64 << magnitude) - 1)).min(most.as_ns()))
    }

    /// Returns a random element of `of`; `None` if `of` is empty.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[usize::try_from(self.below(of.len() as u64)).expect("an index fits")])
    }
}
