//! [`ControlGroup`]: a control group through which Tactus freezes processes, or gives them a share of the CPUs.

use super::row::{OF_GROUP, OF_KIND, OF_THREAD, ROW, identity_of};
use sys::thread::Identity;

/// A value of a control group that Tactus changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Change<T> {
    /// Value before the change.
    pub before: T,
    /// Value that Tactus sets.
    pub after: T,
}

/// Maximum CPU time of a control group of version 2 in each period (`cpu.max`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bandwidth {
    /// CPU time of all threads in a period; `None`: no maximum. Unit: microseconds.
    pub quota_us: Option<u64>,
    /// Unit: microseconds. Range: 1,000 … 1,000,000.
    pub period_us: u64,
}

impl Bandwidth {
    /// Returns whether this bandwidth allows less CPU time in the long run than `other`.
    #[must_use]
    pub fn is_below(&self, other: &Bandwidth) -> bool {
        match (self.quota_us, other.quota_us) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some(others)) => {
                u128::from(own) * u128::from(other.period_us) < u128::from(others) * u128::from(self.period_us)
            }
        }
    }
}

/// A control group through which Tactus freezes processes, or gives them a share of the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ControlGroup {
    /// A freezer group of version 1 that Tactus creates, below the group of process `first`. The
    /// [name](ControlGroup::name) of the group follows from `first`.
    Own {
        /// The process for which the group is created.
        first: Identity,
    },
    /// A group of version 2 that existed before.
    Found {
        /// ID of the group: the inode number of its directory.
        id: u64,
    },
    /// A group of the cpu controller of version 1 that Tactus creates, below the group of process `first`.
    Share {
        /// The process for which the group is created.
        first: Identity,
    },
    /// A group of version 2 that existed before, and whose weight and cap Tactus sets.
    FoundShare {
        /// ID of the group: the inode number of its directory.
        id: u64,
        /// Weight (`cpu.weight`). Range: 1 … 10,000. `None`: Tactus does not set it.
        weight: Option<Change<u64>>,
        /// Cap (`cpu.max`). `None`: Tactus does not set it.
        cap: Option<Change<Bandwidth>>,
    },
}

// Kinds of rows, in the second word of a row.
pub(super) const THREAD: u64 = 0;
const OWN: u64 = 1;
pub(super) const FOUND: u64 = 2;
pub(super) const FOUND_FROZEN: u64 = 3;
/// Since version 4.
const SHARE: u64 = 4;
/// Since version 5.
const FOUND_SHARE: u64 = 5;

/// Number of words that identify a group and its changes: process, ID, weight before and after, cap before and after.
const WORDS: usize = 9;
/// Quota of a bandwidth without a maximum.
const UNLIMITED: u64 = u64::MAX;

/// Converts a bandwidth into words.
fn words_of_bandwidth(bandwidth: Bandwidth) -> [u64; 2] {
    [bandwidth.quota_us.unwrap_or(UNLIMITED), bandwidth.period_us]
}

/// Converts words into a bandwidth.
fn bandwidth_of(words: &[u64]) -> Bandwidth {
    Bandwidth { quota_us: Some(words[0]).filter(|&quota| quota != UNLIMITED), period_us: words[1] }
}

/// Returns the changes of a [`ControlGroup::FoundShare`] in words: zero for values that Tactus does not set.
fn words_of_changes(weight: Option<Change<u64>>, cap: Option<Change<Bandwidth>>) -> [u64; 6] {
    let [weight_before, weight_after] = weight.map_or([0; 2], |change| [change.before, change.after]);
    let [before, after] = cap.map_or([[0; 2]; 2], |change| [change.before, change.after].map(words_of_bandwidth));
    [weight_before, weight_after, before[0], before[1], after[0], after[1]]
}

/// Returns the changes in these words.
fn changes_of(words: &[u64]) -> (Option<Change<u64>>, Option<Change<Bandwidth>>) {
    let weight = Change { before: words[0], after: words[1] };
    let cap = Change { before: bandwidth_of(&words[2..]), after: bandwidth_of(&words[4..]) };
    (Some(weight).filter(|weight| weight.after != 0), Some(cap).filter(|cap| cap.after.period_us != 0))
}

impl ControlGroup {
    /// Returns the name of the group; `None` for a group that Tactus did not create.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            ControlGroup::Own { first } => Some(format!("tactus-{}-{}", first.tid, first.start_time)),
            ControlGroup::Share { first } => Some(format!("tactus-share-{}-{}", first.tid, first.start_time)),
            ControlGroup::Found { .. } | ControlGroup::FoundShare { .. } => None,
        }
    }

    /// Returns whether processes have a share of the CPUs through the group.
    #[must_use]
    pub fn is_share(&self) -> bool {
        matches!(self, ControlGroup::Share { .. } | ControlGroup::FoundShare { .. })
    }

    /// Returns the kind and the identifying words of the row of the group.
    pub(super) fn words(&self) -> (u64, [u64; WORDS]) {
        let (kind, tid, start_time, id, changes) = match *self {
            ControlGroup::Own { first } => (OWN, first.tid, first.start_time, 0, [0; 6]),
            ControlGroup::Found { id } => (FOUND, 0, 0, id, [0; 6]),
            ControlGroup::Share { first } => (SHARE, first.tid, first.start_time, 0, [0; 6]),
            ControlGroup::FoundShare { id, weight, cap } => (FOUND_SHARE, 0, 0, id, words_of_changes(weight, cap)),
        };
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[u64::from(tid), start_time, id]);
        words[3..].copy_from_slice(&changes);
        (kind, words)
    }
}

/// Converts the words of a row into the group and whether Tactus may have frozen it; `None` if the row is no valid row of
/// a group.
pub(super) fn group_of(words: &[u64; ROW]) -> Option<(ControlGroup, bool)> {
    match words[OF_KIND] {
        OWN => Some((ControlGroup::Own { first: identity_of(&words[OF_THREAD..])? }, true)),
        kind @ (FOUND | FOUND_FROZEN) => Some((ControlGroup::Found { id: words[OF_GROUP] }, kind == FOUND_FROZEN)),
        SHARE => Some((ControlGroup::Share { first: identity_of(&words[OF_THREAD..])? }, false)),
        FOUND_SHARE => {
            let (weight, cap) = changes_of(&words[OF_GROUP + 1..]);
            Some((ControlGroup::FoundShare { id: words[OF_GROUP], weight, cap }, false))
        }
        _ => None,
    }
}
