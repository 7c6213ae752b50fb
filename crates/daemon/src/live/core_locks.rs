//! [`CoreLocks`]: the locks of a core.

use super::failure::Failure;
use crate::directory::Directory;
use sys::shared::{HostLock, Lock};

/// The locks of a core.
#[derive(Debug)]
pub struct CoreLocks {
    /// The lock of the directory.
    pub(super) lock: Lock,
    /// The right to dispatch on this host.
    pub(super) host: HostLock,
}

impl CoreLocks {
    /// Locks the directory and the host.
    ///
    /// # Errors
    /// Another process holds a lock, or the directory is not usable.
    pub fn acquire(directory: &Directory) -> Result<CoreLocks, Failure> {
        Ok(CoreLocks { lock: directory.lock()?, host: Directory::lock_host()? })
    }
}
