//! The table of originals: what every thread was before anything was done to it, in memory that outlives the daemon.

use crate::kernel::Cells;
use sched::CpuSet;
use sys::attributes::Attributes;
use sys::thread::Identity;

/// What a thread was before anything was done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Original {
    /// How it was scheduled.
    pub attributes: Attributes,
    /// The CPUs it might run on.
    pub affinity: CpuSet,
}

/// A thread to which something is done, or is about to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which.
    pub thread: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// What it was.
    pub original: Original,
    /// The CPUs that we let it run on.
    pub confined: CpuSet,
}

/// Where a thread stands in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row(usize);

/// Who beats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beating {
    /// The agent of this CPU (its place among the CPUs that have one).
    Agent(usize),
    /// The guardian.
    Guardian,
}

/// The table, as one of those who share it sees it.
pub struct Table {
    cells: Box<dyn Cells>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("words", &self.cells.len()).finish()
    }
}
