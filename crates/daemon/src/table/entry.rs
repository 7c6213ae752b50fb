//! [`Entry`]: the content of a row of the table.

use sched::CpuSet;
use sys::attributes::Attributes;
use sys::thread::Identity;

/// The values of a thread before Tactus changed the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Original {
    /// Scheduling attributes of the thread; `None`: Tactus never changes them.
    pub attributes: Option<Attributes>,
    /// Affinity of the thread.
    pub affinity: CpuSet,
    /// Whether the affinity of the thread was the whole cpuset, so that the affinity follows changes of the cpuset.
    pub follows_cpuset: bool,
}

/// A thread that Tactus has changed, or is about to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The thread.
    pub thread: Identity,
    /// First thread of the thread's process.
    pub leader: Identity,
    /// Original values of the thread.
    pub original: Original,
    /// CPUs that Tactus confines the thread to.
    pub confined: CpuSet,
}
