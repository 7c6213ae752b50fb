//! [`Confined`]: the confinement of entities by policies, one bit per entity and CPU.

use crate::id::{CpuId, CpuSet};
use alloc::vec::Vec;

/// The confinement mask of every entity, by index.
#[derive(Debug)]
pub(crate) struct Confined {
    /// Number of words per entity.
    words: usize,
    bits: Vec<u64>,
}

impl Confined {
    pub(crate) fn new(cpus: usize) -> Confined {
        Confined { words: cpus.div_ceil(64), bits: Vec::new() }
    }

    /// Allows all CPUs for the entity at `index`, which is new or reused.
    pub(crate) fn free(&mut self, index: usize) {
        let (from, to) = (index * self.words, (index + 1) * self.words);
        if self.bits.len() < to {
            self.bits.resize(to, u64::MAX);
        }
        self.bits[from..to].fill(u64::MAX);
    }

    pub(crate) fn confine(&mut self, index: usize, to: &CpuSet) {
        let row = &mut self.bits[index * self.words..][..self.words];
        for (nth, word) in row.iter_mut().enumerate() {
            *word = to.word(nth);
        }
    }

    /// Returns the CPUs of `set` to which the entity at `index` is confined.
    pub(crate) fn of(&self, index: usize, set: &CpuSet) -> CpuSet {
        let row = &self.bits[index * self.words..][..self.words];
        set.and_words(row)
    }

    #[inline]
    pub(crate) fn allows(&self, index: usize, cpu: CpuId) -> bool {
        let cpu = cpu.index();
        cpu < 64 * self.words && self.bits[index * self.words + cpu / 64] >> (cpu % 64) & 1 == 1
    }
}
