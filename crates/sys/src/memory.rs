//! Memory that stays: who schedules others must not wait for a page.

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

/// Keeps all memory of this process, now and later, from being paged out.
///
/// # Errors
/// We lack the privilege, or the limit is too low.
pub fn lock() -> Result<()> {
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    locked.map_err(|errno| {
        let (what, right) = ("lock the memory of this process", "CAP_IPC_LOCK, or a higher limit (ulimit -l)");
        match errno {
            // More than the limit.
            Errno::NOMEM => Error::NotPermitted { what: what.to_string(), source: errno.into(), right },
            errno => Error::from(errno, what, right),
        }
    })
}

/// Lets it be paged out again.
///
/// # Errors
/// The kernel refuses.
pub fn unlock() -> Result<()> {
    munlockall().map_err(|errno| Error::from(errno, "unlock the memory of this process", "a kernel with mlockall"))
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
