//! [`FreezerGroup`]: a control group through which Tactus freezes processes.

use super::row::{OF_GROUP, OF_KIND, OF_THREAD, ROW, identity_of};
use sys::thread::Identity;

/// A control group through which Tactus freezes processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FreezerGroup {
    /// A group of version 1 that Tactus creates, below the group of process `first`. The [name](FreezerGroup::name) of
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
}

// Kinds of rows, in the second word of a row.
pub(super) const THREAD: u64 = 0;
const OWN: u64 = 1;
pub(super) const FOUND: u64 = 2;
pub(super) const FOUND_FROZEN: u64 = 3;

impl FreezerGroup {
    /// Returns the name of the group; `None` for a group that Tactus did not create.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            FreezerGroup::Own { first } => Some(format!("tactus-{}-{}", first.tid, first.start_time)),
            FreezerGroup::Found { .. } => None,
        }
    }

    /// Returns the kind and the identifying words of the row of the group.
    pub(super) fn words(&self) -> (u64, [u64; 3]) {
        match *self {
            FreezerGroup::Own { first } => (OWN, [u64::from(first.tid), first.start_time, 0]),
            FreezerGroup::Found { id } => (FOUND, [0, 0, id]),
        }
    }
}

/// Converts the words of a row into the group and whether Tactus may have frozen it; `None` if the row is no valid row of
/// a group.
pub(super) fn group_of(words: &[u64; ROW]) -> Option<(FreezerGroup, bool)> {
    match words[OF_KIND] {
        OWN => Some((FreezerGroup::Own { first: identity_of(&words[OF_THREAD..])? }, true)),
        kind @ (FOUND | FOUND_FROZEN) => Some((FreezerGroup::Found { id: words[OF_GROUP] }, kind == FOUND_FROZEN)),
        _ => None,
    }
}
