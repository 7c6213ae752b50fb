//! [`Entry`]: what a row of the table holds.

use sched::CpuSet;
use sys::attributes::Attributes;
use sys::thread::Identity;

/// The values of a thread before Tactus changed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Original {
    /// Its scheduling attributes.
    pub attributes: Attributes,
    /// Its affinity.
    pub affinity: CpuSet,
}

/// A thread that Tactus has changed, or is about to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The thread.
    pub thread: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// Its originals.
    pub original: Original,
    /// The CPUs that Tactus confines it to.
    pub confined: CpuSet,
}

impl Entry {
    /// Whether it is the first thread of its process, whose row records a stop of the process.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.thread == self.leader
    }
}
