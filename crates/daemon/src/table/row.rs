//! The layout of a row.

use super::entry::{Entry, Original, Reserved};
use sched::id::CPUS_MAX;
use sched::{CpuId, CpuSet, Nanos};
use sys::attributes::{Attributes, Policy};
use sys::thread::Identity;

// Offsets and lengths in a row, in words.
/// Twice the number of uses of the row, plus one while the row is in use.
pub(super) const OF_USE: usize = 0;
/// What the row describes: a thread, or a control group. Until version 2 of the table, every row describes a thread, and
/// this word is nonzero while Tactus stops the thread's process.
pub(super) const OF_KIND: usize = 1;
pub(super) const OF_THREAD: usize = 2;
pub(super) const OF_LEADER: usize = 4;
/// ID of a control group of version 2, in the place of a thread's process.
pub(super) const OF_GROUP: usize = OF_LEADER;
pub(super) const OF_ATTRIBUTES: usize = 6;
pub(super) const ATTRIBUTES: usize = 6;
pub(super) const OF_AFFINITY: usize = OF_ATTRIBUTES + ATTRIBUTES;
pub(super) const SET: usize = CPUS_MAX / 64;
pub(super) const OF_CONFINED: usize = OF_AFFINITY + SET;
/// Flags; always zero in tables of versions 1 and 2.
pub(super) const OF_FLAGS: usize = OF_CONFINED + SET;
/// The thread follows its cpuset.
pub(super) const FOLLOWS_CPUSET: u64 = 1;
/// The thread has its originals back. Never set in tables up to version 3.
pub(super) const GIVEN_BACK: u64 = 2;
/// Slice and period of the reservation that Tactus sets for the thread, and its timer slack before; zero without one, and
/// in tables up to version 3.
pub(super) const OF_RESERVED: usize = OF_FLAGS + 1;
pub(super) const RESERVED: usize = 3;
pub(super) const ROW: usize = 48;
const _: () = assert!(OF_RESERVED + RESERVED <= ROW, "a row holds all of its parts");

// Flags beside the class, in the first word of the attributes.
const RESET_ON_FORK: u64 = 1 << 32;
const RECLAIM: u64 = 1 << 33;
const OVERRUN: u64 = 1 << 34;
const OWN_SLICE: u64 = 1 << 35;
const UNKNOWN: u64 = 1 << 36;
/// Tactus never changes the attributes of the thread; the other words are zero.
const UNCHANGED: u64 = 1 << 37;

/// Converts a [`CpuSet`] into words.
pub(super) fn words_of(cpus: &CpuSet) -> [u64; SET] {
    let mut words = [0; SET];
    for cpu in cpus.iter() {
        words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }
    words
}

/// Converts words into a CPU set.
fn set_of(words: &[u64]) -> CpuSet {
    let of_word = |(nth, &word): (usize, &u64)| {
        let cpus = (0..64).filter(move |bit| word >> bit & 1 != 0);
        cpus.map(move |bit| CpuId::new(nth * 64 + bit))
    };
    // Most sets have all of their CPUs in one word.
    words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(of_word).collect()
}

/// Converts the original attributes into words.
pub(super) fn words_of_attributes(attributes: Option<Attributes>) -> [u64; ATTRIBUTES] {
    let mut words = [0; ATTRIBUTES];
    let Some(attributes) = attributes else {
        words[0] = UNCHANGED;
        return words;
    };
    let of_nice = |nice: i32| u64::from(nice.cast_unsigned());
    (words[0], words[1]) = match attributes.policy {
        Policy::Other { nice } => (0, of_nice(nice)),
        Policy::Fifo { priority } => (1, u64::from(priority)),
        Policy::RoundRobin { priority } => (2, u64::from(priority)),
        Policy::Batch { nice } => (3, of_nice(nice)),
        Policy::Idle => (5, 0),
        Policy::Deadline { runtime, deadline, period, reclaim, overrun } => {
            (words[2], words[3], words[4]) = (runtime.as_ns(), deadline.as_ns(), period.as_ns());
            (6 | if reclaim { RECLAIM } else { 0 } | if overrun { OVERRUN } else { 0 }, 0)
        }
        Policy::Ext { nice } => (7, of_nice(nice)),
        Policy::Unknown(number) => (u64::from(number) | UNKNOWN, 0),
    };
    words[0] |= if attributes.reset_on_fork { RESET_ON_FORK } else { 0 };
    if let Some(slice) = attributes.slice {
        words[0] |= OWN_SLICE;
        words[5] = slice.as_ns();
    }
    words
}

/// Converts words into the original attributes; `None` if the words are invalid.
fn attributes_of(words: &[u64]) -> Option<Option<Attributes>> {
    let has = |bit: u64| words[0] & bit != 0;
    if has(UNCHANGED) {
        return Some(None);
    }
    let number = u32::try_from(words[0] & u64::from(u32::MAX)).ok()?;
    let second = u32::try_from(words[1]).ok()?;
    let nice = second.cast_signed();
    let policy = match number {
        _ if has(UNKNOWN) => Policy::Unknown(number),
        0 => Policy::Other { nice },
        1 => Policy::Fifo { priority: second },
        2 => Policy::RoundRobin { priority: second },
        3 => Policy::Batch { nice },
        5 => Policy::Idle,
        6 => Policy::Deadline {
            runtime: Nanos::ns(words[2]),
            deadline: Nanos::ns(words[3]),
            period: Nanos::ns(words[4]),
            reclaim: has(RECLAIM),
            overrun: has(OVERRUN),
        },
        7 => Policy::Ext { nice },
        _ => return None,
    };
    let slice = has(OWN_SLICE).then(|| Nanos::ns(words[5]));
    Some(Some(Attributes { policy, reset_on_fork: has(RESET_ON_FORK), slice }))
}

/// Converts a reservation into words.
pub(super) fn words_of_reserved(reserved: Option<Reserved>) -> [u64; RESERVED] {
    reserved.map_or([0; RESERVED], |Reserved { slice, period, slack }| [slice.as_ns(), period.as_ns(), slack.as_ns()])
}

/// Converts words into a reservation; `None` without one.
fn reserved_of(words: &[u64]) -> Option<Reserved> {
    let [slice, period, slack] = [words[0], words[1], words[2]].map(Nanos::ns);
    (!slice.is_zero()).then_some(Reserved { slice, period, slack })
}

/// Converts two words into an identity; `None` if the words are invalid.
pub(super) fn identity_of(words: &[u64]) -> Option<Identity> {
    Some(Identity { tid: u32::try_from(words[0]).ok()?, start_time: words[1] })
}

/// Converts the words of a row of a thread into the entry; `None` if the words are invalid.
pub(super) fn entry_of(words: &[u64; ROW]) -> Option<Entry> {
    Some(Entry {
        thread: identity_of(&words[OF_THREAD..])?,
        leader: identity_of(&words[OF_LEADER..])?,
        original: Original {
            attributes: attributes_of(&words[OF_ATTRIBUTES..OF_AFFINITY])?,
            affinity: set_of(&words[OF_AFFINITY..OF_CONFINED]),
            follows_cpuset: words[OF_FLAGS] & FOLLOWS_CPUSET != 0,
        },
        confined: set_of(&words[OF_CONFINED..OF_CONFINED + SET]),
        reserved: reserved_of(&words[OF_RESERVED..]),
    })
}
