//! Locked memory. A thread that schedules other threads must not wait for a page fault.
//!
//! A fault waits for each thread of its process that changes the address space (`mmap_lock`), and this lock knows no
//! priority inheritance. The address space of a process that schedules others should therefore change as rarely as
//! possible: see [`keep_freed`].

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

/// Amount by which the heap grows at least. Unit: bytes.
const GROWTH: libc::c_int = 256 * 1024;
/// Size of the largest allocation from the heap: the maximum of the C library. Unit: bytes.
const LARGEST: libc::c_int = 32 * 1024 * 1024;

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

/// Makes the allocator keep the memory that is freed, and take memory from the system in larger amounts: `reserve` now, for
/// this thread, and at least 256 KiB later. Unit: bytes. Has an effect with the GNU C library only.
pub fn keep_freed(reserve: usize) {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in
        [(libc::M_TRIM_THRESHOLD, libc::c_int::MAX), (libc::M_MMAP_THRESHOLD, LARGEST), (libc::M_TOP_PAD, GROWTH)]
    {
        // SAFETY: the call takes numbers only, and ignores values out of range.
        unsafe { libc::mallopt(parameter, value) };
    }
    drop(std::hint::black_box(Vec::<u8>::with_capacity(reserve)));
}

/// Excludes this process and its later children from transparent huge pages. `khugepaged`, an ordinary kernel thread, holds
/// `mmap_lock` while it collapses pages (`collapse_huge_page`, mm/khugepaged.c), and can wait for a busy CPU meanwhile. Has no
/// effect on a kernel without them.
pub fn avoid_huge_pages() {
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Unlocks the memory of this process.
///
/// # Errors
/// The kernel refuses.
pub fn unlock() -> Result<()> {
    munlockall().map_err(|errno| Error::from(errno, "unlock the memory of this process", "use a kernel with mlockall"))
}

/// Returns the number of page faults of the calling thread.
#[cfg(test)]
pub(crate) fn page_faults() -> i64 {
    // SAFETY: an all-zero `rusage` is valid, and the pointer is valid for the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn memory_that_was_freed_is_used_again_without_a_page_fault() {
        // In a process of its own, because the setting lasts, and other tests use the heap of this process.
        let Some(ours) = std::env::args_os().next() else { return };
        if std::env::var_os("TACTUS_KEEPS_FREED").is_none() {
            let name = "memory::tests::memory_that_was_freed_is_used_again_without_a_page_fault";
            let mut again = std::process::Command::new(ours);
            let outcome = again.args(["--exact", name]).env("TACTUS_KEEPS_FREED", "1").output().unwrap();
            assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
            return;
        }
        keep_freed(1 << 20);
        // By default, the C library gives back more than twice the largest allocation.
        let use_and_free = || drop(std::hint::black_box([(); 3].map(|()| vec![1_u8; 8 << 20])));
        use_and_free();
        let before = page_faults();
        (0..20).for_each(|_| use_and_free());
        assert!(page_faults() - before < 20, "{} page faults", page_faults() - before);
    }

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
