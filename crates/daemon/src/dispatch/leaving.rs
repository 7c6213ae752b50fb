//! Dismissed clients whose threads may still be in forks: restoring them goes on while other clients are served. Their rows stay
//! in the table until it is over, for restoring by another process.

use crate::restore::Restoring;
use crate::table::Row;
use sched::CpuSet;
use sys::thread::Identity;

/// The threads of a dismissed client.
#[derive(Debug)]
pub(super) struct Leaving {
    /// `None` while it is scanned.
    pub(super) restoring: Option<Restoring>,
    pub(super) rows: Vec<Row>,
    /// Its processes, by their first threads.
    pub(super) leaders: Vec<Identity>,
    /// The CPU that they were confined to.
    pub(super) confined: CpuSet,
}
