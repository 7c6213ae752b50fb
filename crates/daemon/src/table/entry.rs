//! [`Entry`]: the content of a row of the table.

use sched::{CpuSet, Nanos};
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

/// A SCHED_DEADLINE reservation that Tactus sets for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// CPU time in every period. Range: above zero, at most the period.
    pub slice: Nanos,
    /// The period, which is also the relative deadline.
    pub period: Nanos,
    /// Timer slack of the thread before. The kernel sets the slack to zero at the begin of a reservation, and to a default
    /// at its end. Zero: the slack was zero already, or is unknown.
    pub slack: Nanos,
}

impl Reserved {
    /// Returns the attributes that Tactus sets.
    #[must_use]
    pub fn attributes(self) -> Attributes {
        Attributes::reserved(self.slice, self.period)
    }
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
    /// CPUs that Tactus confines the thread to. Empty: Tactus does not change the affinity of the thread.
    pub confined: CpuSet,
    /// The reservation that Tactus sets for the thread. `None`: Tactus raises the thread to a real-time priority, if it
    /// changes the attributes of the thread.
    pub reserved: Option<Reserved>,
}
