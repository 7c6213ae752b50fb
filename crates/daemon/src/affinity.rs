//! The affinity that a thread has without Tactus.
//!
//! Linux remembers the CPUs of the last `sched_setaffinity` for each thread: the *user mask* (`user_cpus_ptr`, since
//! 6.2). The affinity of the thread is its user mask within its cpuset, or the whole cpuset if these have no CPU in
//! common (`__set_cpus_allowed_ptr`, kernel/sched/core.c; observed with Linux 6.18 and cgroup v1). A thread whose
//! affinity was never set has no user mask, and follows its cpuset.
//!
//! No interface shows the user mask. If the affinity of a thread equals its cpuset, Tactus takes the thread for one
//! without a user mask. Such a thread gets a user mask of all CPUs, which has the same effect. See
//! docs/decisions/0020.

use crate::kernel::Kernel;
use crate::table::Original;
use sched::CpuSet;

/// Number of attempts to read the affinity and the cpuset of a thread between two changes of either.
const ATTEMPTS: usize = 5;

/// Returns the affinity of a thread, and whether the thread follows its cpuset.
pub(crate) fn observe<K: Kernel>(kernel: &K, thread: &K::Thread) -> sys::Result<(CpuSet, bool)> {
    let mut affinity = kernel.affinity(thread)?;
    for _ in 0..ATTEMPTS {
        let cpuset = kernel.cpuset(thread)?;
        let again = kernel.affinity(thread)?;
        if again == affinity {
            return Ok((affinity, affinity == cpuset));
        }
        affinity = again;
    }
    Ok((affinity, false))
}

/// Returns whether affinity `now` of a thread is its original affinity, or its cpuset if the thread follows its cpuset.
pub(crate) fn is_original<K: Kernel>(kernel: &K, thread: &K::Thread, now: CpuSet, original: &Original) -> bool {
    let is_cpuset = || kernel.cpuset(thread).is_ok_and(|cpuset| cpuset == now);
    now == original.affinity || (original.follows_cpuset && is_cpuset())
}

/// Returns the affinity of a thread with user mask `mask`.
pub(crate) fn within(mask: &CpuSet, cpuset: &CpuSet) -> CpuSet {
    let both = mask.and(cpuset);
    if both.is_empty() { *cpuset } else { both }
}

/// Returns the affinity of a thread that Tactus has confined to `confined`. While the only CPU of a thread goes offline,
/// Linux reports no CPU, and the thread still has its confinement.
///
/// # Errors
/// The thread has ended.
pub(crate) fn present<K: Kernel>(kernel: &K, thread: &K::Thread, confined: &CpuSet) -> sys::Result<CpuSet> {
    let found = kernel.affinity(thread)?;
    Ok(if found.is_empty() { *confined } else { found })
}

/// Returns the original values of a thread that Tactus has confined to `confined` and that has affinity `found` now.
/// `cpuset` are the CPUs of its cpuset.
pub(crate) fn changed_by_others(original: &Original, confined: &CpuSet, found: CpuSet, cpuset: &CpuSet) -> Original {
    if found == *cpuset && confined.and(cpuset).is_empty() && !original.follows_cpuset {
        // The cpuset has lost the CPU of the confinement, and the kernel has given up the confinement. The user mask of
        // the thread is still the original.
        return *original;
    }
    Original { affinity: found, follows_cpuset: found == *cpuset, ..*original }
}

/// The effect of [`give_back`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GivenBack {
    /// The affinity needed no change.
    AsBefore,
    /// The thread had the affinity that Tactus had set, and has its original affinity again.
    Restored,
    /// Another process has changed the affinity.
    Left,
}

/// Restores the affinity of a thread that Tactus has confined to `confined`, unless another process has changed the
/// affinity. Does nothing if `confined` is empty. A thread that follows its cpuset follows it again, even if its affinity
/// already looks right.
///
/// # Errors
/// The thread has ended, or the kernel refuses.
pub(crate) fn give_back<K: Kernel>(
    kernel: &K,
    thread: &K::Thread,
    original: &Original,
    confined: &CpuSet,
) -> sys::Result<GivenBack> {
    if confined.is_empty() {
        return Ok(GivenBack::AsBefore);
    }
    let found = present(kernel, thread, confined)?;
    if found != *confined {
        if found == original.affinity && !original.follows_cpuset {
            return Ok(GivenBack::AsBefore);
        }
        let now = changed_by_others(original, confined, found, &kernel.cpuset(thread)?);
        let is_cpuset = now.follows_cpuset && original.follows_cpuset;
        if !is_cpuset && now != *original {
            return Ok(GivenBack::Left);
        }
    }
    // The kernel accepts no user mask without a CPU of the cpuset. An earlier user mask of this kind has no effect.
    let is_without_effect = || Ok(kernel.cpuset(thread)?.and(&original.affinity).is_empty());
    if original.follows_cpuset || (original.affinity.and(&found).is_empty() && is_without_effect()?) {
        kernel.follow_cpuset(thread)?;
    } else {
        set(kernel, thread, &original.affinity)?;
    }
    // If the thread still exists, the calls by tid have reached this thread, and no later thread with the same tid.
    kernel.status(thread)?;
    Ok(if found == original.affinity && found != *confined { GivenBack::AsBefore } else { GivenBack::Restored })
}

/// Sets the affinity. CPUs outside the cpuset of the thread take effect when the cpuset includes them again.
fn set<K: Kernel>(kernel: &K, thread: &K::Thread, cpus: &CpuSet) -> sys::Result<()> {
    match kernel.set_affinity(thread, cpus) {
        Err(sys::Error::NotKept { .. }) if kernel.affinity(thread)? == kernel.cpuset(thread)?.and(cpus) => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::CpuId;

    fn cpus(list: &[usize]) -> CpuSet {
        list.iter().copied().map(CpuId::new).collect()
    }

    fn original(list: &[usize], follows_cpuset: bool) -> Original {
        Original { attributes: None, affinity: cpus(list), follows_cpuset }
    }

    #[test]
    fn a_mask_that_another_process_sets_becomes_the_original() {
        let (confined, cpuset) = (cpus(&[0]), cpus(&[0, 1, 2]));
        for before in [original(&[0, 1, 2], true), original(&[0, 1], false)] {
            let after = |found: &[usize]| changed_by_others(&before, &confined, cpus(found), &cpuset);
            assert_eq!(after(&[1, 2]), original(&[1, 2], false));
            assert_eq!(after(&[0, 1, 2]), original(&[0, 1, 2], true), "the whole cpuset is no restriction");
        }
    }

    #[test]
    fn a_cpuset_without_the_cpu_of_the_client_changes_no_user_mask() {
        let (confined, cpuset) = (cpus(&[0]), cpus(&[1, 2]));
        let after = |before: &Original| changed_by_others(before, &confined, cpuset, &cpuset);
        assert_eq!(after(&original(&[0, 1], false)), original(&[0, 1], false), "its user mask still has CPU 1");
        assert_eq!(after(&original(&[0, 1, 2], true)), original(&[1, 2], true));
        assert_eq!(after(&original(&[0], false)), original(&[0], false));
        assert_eq!((within(&cpus(&[0, 1]), &cpuset), within(&cpus(&[0]), &cpuset)), (cpus(&[1]), cpuset));
    }
}
