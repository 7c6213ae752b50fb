//! [`Masks`]: the user masks of a thread, from which its affinity follows.

use sched::CpuSet;

/// The CPUs of the last change of a thread's affinity, which the kernel remembers (`user_cpus_ptr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Masks {
    pub(super) is: CpuSet,
    /// The same without Tactus.
    pub(super) untouched: CpuSet,
    /// Whether no observer can tell or restore the untouched mask. Any of these makes it ambiguous:
    ///
    /// - the last change by another process set the affinity that the thread had already, or that Tactus had set last;
    /// - the thread was forked by one of several threads with different masks;
    /// - the mask was the whole cpuset, or had other CPUs;
    /// - the cpuset changed before Tactus observed the mask;
    /// - the mask is a single CPU, which may be an inherited confinement, and Tactus has set no affinity yet.
    pub(super) is_ambiguous: bool,
    /// Whether Tactus has set the affinity of the thread.
    pub(super) is_set: bool,
    /// The affinity that Tactus has set last for the thread, or for an ancestor before it forked; `None` before the first
    /// change.
    pub(super) confined: Option<CpuSet>,
    /// Whether another process has changed the mask since Tactus last read the affinity.
    pub(super) is_unseen: bool,
}

impl Masks {
    /// The masks of a thread whose affinity was never changed.
    pub(super) const NONE: Masks = Masks {
        is: CpuSet::ALL,
        untouched: CpuSet::ALL,
        is_ambiguous: false,
        is_set: false,
        confined: None,
        is_unseen: false,
    };
}

/// Returns the affinity of a thread. Source: `__set_cpus_allowed_ptr`, kernel/sched/core.c, v6.18.
pub(super) fn affinity(mask: &CpuSet, cpuset: &CpuSet) -> CpuSet {
    let both = mask.and(cpuset);
    if both.is_empty() { *cpuset } else { both }
}
