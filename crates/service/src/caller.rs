//! [`Caller`]: the process that makes a request, and what it may change.

use std::fmt;

/// The process at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    /// User ID, as the kernel reports it.
    pub(crate) user: u32,
}

impl Caller {
    /// Returns whether the caller may change every VM: root, and the user of the service.
    pub(crate) fn is_admin(self) -> bool {
        self.user == 0 || self.user == sys::privileges::user()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid:{}", self.user)
    }
}
