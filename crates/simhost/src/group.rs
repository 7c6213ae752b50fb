//! [`Group`]: a group of the freezer hierarchy.

/// The root group, which never freezes.
pub(super) const ROOT: u64 = 0;

/// A group below the root.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parent: u64,
    pub(super) name: String,
    pub(super) is_frozen: bool,
    /// Whether a process other than Tactus created the group.
    pub(super) is_by_others: bool,
}

/// An open group. Once the group is removed, every call with the handle fails.
#[derive(Debug)]
pub struct Freezer(pub(super) u64);
