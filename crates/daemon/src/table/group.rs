//! [`ControlGroup`]: a control group through which Tactus freezes processes, or gives them a share of the CPUs.

use super::row::{OF_GROUP, OF_KIND, OF_THREAD, ROW, identity_of};
use sys::thread::Identity;

/// A control group through which Tactus freezes processes, or gives them a share of the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ControlGroup {
    /// A freezer group of version 1 that Tactus creates, below the group of process `first`. The [name](ControlGroup::name) of
    /// the group follows from `first`.
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
}

// Kinds of rows, in the second word of a row.
pub(super) const THREAD: u64 = 0;
const OWN: u64 = 1;
pub(super) const FOUND: u64 = 2;
pub(super) const FOUND_FROZEN: u64 = 3;
/// Since version 4.
const SHARE: u64 = 4;

impl ControlGroup {
    /// Returns the name of the group; `None` for a group that Tactus did not create.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            ControlGroup::Own { first } => Some(format!("tactus-{}-{}", first.tid, first.start_time)),
            ControlGroup::Share { first } => Some(format!("tactus-share-{}-{}", first.tid, first.start_time)),
            ControlGroup::Found { .. } => None,
        }
    }

    /// Returns the kind and the identifying words of the row of the group.
    pub(super) fn words(&self) -> (u64, [u64; 3]) {
        match *self {
            ControlGroup::Own { first } => (OWN, [u64::from(first.tid), first.start_time, 0]),
            ControlGroup::Found { id } => (FOUND, [0, 0, id]),
            ControlGroup::Share { first } => (SHARE, [u64::from(first.tid), first.start_time, 0]),
        }
    }
}

/// Converts the words of a row into the group and whether Tactus may have frozen it; `None` if the row is no valid row of
/// a group.
pub(super) fn group_of(words: &[u64; ROW]) -> Option<(ControlGroup, bool)> {
    match words[OF_KIND] {
        OWN => Some((ControlGroup::Own { first: identity_of(&words[OF_THREAD..])? }, true)),
        kind @ (FOUND | FOUND_FROZEN) => Some((ControlGroup::Found { id: words[OF_GROUP] }, kind == FOUND_FROZEN)),
        SHARE => Some((ControlGroup::Share { first: identity_of(&words[OF_THREAD..])? }, false)),
        _ => None,
    }
}
