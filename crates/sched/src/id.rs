//! Identifiers: entities, groups, CPUs and sets of CPUs.

use core::fmt;
use core::num::NonZeroU64;

/// Maximum number of CPUs of one machine. The largest two-socket hosts have 768 hardware threads.
pub const CPUS_MAX: usize = 1024;
/// Maximum number of entities of one machine at a time. A fork-heavy host creates about this many tasks in a day.
/// Tables of this size still fit in memory.
pub const ENTITIES_MAX: usize = 1 << 24;

const WORDS: usize = CPUS_MAX / 64;

macro_rules! generational_id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "u64", into = "u64"))]
        pub struct $name(NonZeroU64); // upper half: index; lower half: generation + 1, so an Option takes one word

        impl $name {
            /// Returns the id with this index and generation. Panics unless the generation is below 2^32 − 1.
            #[must_use]
            pub const fn new(index: u32, generation: u32) -> $name {
                let word = (index as u64) << 32 | (generation + 1) as u64;
                $name(NonZeroU64::new(word).expect("a generation plus one is not zero"))
            }

            /// Returns the dense index for a policy's tables. An index is reused after its entity or group has been
            /// removed.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                (self.0.get() >> 32) as usize
            }

            /// Returns the number of earlier uses of the index.
            #[inline]
            #[must_use]
            pub const fn generation(self) -> u32 {
                (self.0.get() & 0xffff_ffff) as u32 - 1
            }
        }

        #[cfg(feature = "serde")]
        impl From<$name> for u64 {
            fn from(id: $name) -> u64 {
                id.0.get()
            }
        }

        #[cfg(feature = "serde")]
        impl TryFrom<u64> for $name {
            type Error = &'static str;

            fn try_from(word: u64) -> Result<$name, &'static str> {
                match NonZeroU64::new(word) {
                    Some(word) if word.get() & 0xffff_ffff != 0 => Ok($name(word)),
                    _ => Err("an id without a generation"),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.index())?;
                if self.generation() > 0 { write!(f, ".{}", self.generation()) } else { Ok(()) }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

generational_id! {
    /// A scheduled entity: a task in a guest or on a host, or a vCPU or client on a host.
    ///
    /// An index is reused after a detachment. The generation distinguishes successive entities with the same index.
    EntityId, "e"
}

generational_id! {
    /// A set of entities with common parameters: a VM or a control group.
    GroupId, "g"
}

impl GroupId {
    /// The root group, which always exists and contains all other groups and entities.
    pub const ROOT: GroupId = GroupId::new(0, 0);
}

/// A CPU of the machine: a physical CPU of a host, or a vCPU of a guest. Range: `0..CPUS_MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuId(u16);

impl CpuId {
    /// Returns CPU number `n`. Panics when `n` is not below [`CPUS_MAX`].
    #[must_use]
    pub const fn new(n: usize) -> CpuId {
        assert!(n < CPUS_MAX, "a CPU number is below CPUS_MAX");
        #[expect(clippy::cast_possible_truncation, reason = "CPUS_MAX fits in 16 bits")]
        CpuId(n as u16)
    }

    /// Returns the dense index of the CPU.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// A set of CPUs, iterated in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet([0; WORDS]);
    /// The set of every CPU that a machine could have: no restriction.
    pub const ALL: CpuSet = CpuSet([u64::MAX; WORDS]);

    /// Returns the set of the CPUs `0..n`.
    #[must_use]
    pub fn first_n(n: usize) -> CpuSet {
        (0..n).map(CpuId::new).collect()
    }

    /// Returns the set that contains only `cpu`.
    #[must_use]
    pub fn one(cpu: CpuId) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        set.insert(cpu);
        set
    }

    /// Adds `cpu` to the set. Returns whether `cpu` was absent.
    pub const fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = (cpu.index() / 64, 1 << (cpu.index() % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    /// Removes `cpu` from the set. Returns whether `cpu` was present.
    pub const fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = (cpu.index() / 64, 1 << (cpu.index() % 64));
        let there = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        there
    }

    /// Returns whether the set contains `cpu`.
    #[must_use]
    pub const fn contains(&self, cpu: CpuId) -> bool {
        self.0[cpu.index() / 64] & (1 << (cpu.index() % 64)) != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Returns the number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the lowest CPU in the set.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(CpuId::new(word * 64 + self.0[word].trailing_zeros() as usize))
    }

    /// Returns the bits of the 64 CPUs from `64 * nth` on.
    pub(crate) fn word(&self, nth: usize) -> u64 {
        self.0[nth]
    }

    /// Returns the CPUs of the set that are also in `words`. CPUs beyond `words` are absent.
    pub(crate) fn and_words(&self, words: &[u64]) -> CpuSet {
        let mut both = CpuSet::EMPTY;
        for (nth, word) in words.iter().enumerate() {
            both.0[nth] = self.0[nth] & word;
        }
        both
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        CpuSet(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Returns the CPUs in `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &CpuSet) -> CpuSet {
        CpuSet(core::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Returns the CPUs in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(CpuId::new(i * 64 + bit))
            })
        })
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    /// Writes the kernel's list format: `0-3,8`; `all` for [`CpuSet::ALL`], `none` for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == CpuSet::ALL {
            return f.write_str("all");
        }
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut cpus = self.iter().map(CpuId::index).peekable();
        let mut separator = "";
        while let Some(low) = cpus.next() {
            let mut high = low;
            while cpus.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            if low == high {
                write!(f, "{separator}{low}")?;
            } else {
                write!(f, "{separator}{low}-{high}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// The error for a string that is not a list of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCpuList;

impl fmt::Display for NotCpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a list of CPUs; use `all`, `2` or `0-3,8`, each below {CPUS_MAX}")
    }
}

impl core::error::Error for NotCpuList {}

impl core::str::FromStr for CpuSet {
    type Err = NotCpuList;

    fn from_str(text: &str) -> Result<CpuSet, NotCpuList> {
        if text == "all" {
            return Ok(CpuSet::ALL);
        }
        if text == "none" {
            return Ok(CpuSet::EMPTY);
        }
        let number = |part: &str| part.trim().parse().ok().filter(|&n: &usize| n < CPUS_MAX).ok_or(NotCpuList);
        let mut set = CpuSet::EMPTY;
        for part in text.split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if low > high {
                return Err(NotCpuList);
            }
            for n in low..=high {
                set.insert(CpuId::new(n));
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn cpu_lists_read_as_they_print() {
        for text in ["0-3,8", "7", "all", "none", "0,2,1023"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        for wrong in ["", "1-", "3-1", "1024", "x", "0,,1"] {
            assert_eq!(wrong.parse::<CpuSet>(), Err(NotCpuList), "{wrong:?}");
        }
    }

    #[test]
    fn sets_iterate_in_ascending_order() {
        let set: CpuSet = [700, 3, 64].into_iter().map(CpuId::new).collect();
        assert_eq!(set.iter().map(CpuId::index).collect::<alloc::vec::Vec<_>>(), [3, 64, 700]);
        assert_eq!((set.first(), set.len()), (Some(CpuId::new(3)), 3));
    }
}
