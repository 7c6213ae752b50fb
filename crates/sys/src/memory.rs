//! Memory that stays: who schedules others must not wait for a page.

use crate::{Error, Result};
use rustix::mm::{MlockAllFlags, mlockall};

/// Keeps all memory of this process, now and later, from being paged out.
///
/// # Errors
/// We lack the privilege, or the limit is too low.
pub fn lock() -> Result<()> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|errno| {
        let right = "right would be CAP_IPC_LOCK, or a higher limit (ulimit -l)";
        match errno {
            rustix::io::Errno::NOMEM => Error::NotPermitted { what: "to lock this process's memory".into(), right },
            errno => Error::of(errno, std::process::id(), "to lock this process's memory", right),
        }
    })
}
