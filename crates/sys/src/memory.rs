//! Locked memory. A thread that schedules other threads must not wait for a page fault.

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

/// Locks all memory of this process, present and future.
///
/// # Errors
/// The caller lacks the privilege, and the limit is too low.
pub fn lock() -> Result<()> {
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    locked.map_err(|errno| {
        let (what, remedy) =
            ("lock the memory of this process", "run with CAP_IPC_LOCK, or raise the limit (ulimit -l)");
        match errno {
            // The limit is exceeded.
            Errno::NOMEM => Error::NotPermitted { what: what.to_string(), source: errno.into(), remedy },
            errno => Error::from(errno, what, remedy),
        }
    })
}

/// Unlocks the memory of this process.
///
/// # Errors
/// The kernel refuses.
pub fn unlock() -> Result<()> {
    munlockall().map_err(|errno| Error::from(errno, "unlock the memory of this process", "use a kernel with mlockall"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_locked_and_let_go() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let words = crate::thread::field(&status, "VmLck:").map(|mut words| words.next().unwrap().to_string());
            words.unwrap().parse::<u64>().unwrap()
        };
        match lock() {
            Ok(()) => {
                assert!(locked() > 0);
                unlock().unwrap();
                assert_eq!(locked(), 0);
            }
            Err(refused @ Error::NotPermitted { .. }) => eprintln!("SKIPPED: {refused}"),
            Err(other) => panic!("{other}"),
        }
    }
}
