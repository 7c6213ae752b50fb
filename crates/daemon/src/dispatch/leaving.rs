//! Dismissed clients whose threads may still be inside a fork. Their restoration continues while other clients are
//! served. Their rows stay in the table until the restoration is over, so that another process can restore them.

use crate::restore::Restoring;
use crate::table::Row;
use sched::CpuSet;
use sys::thread::Identity;

/// The threads of a dismissed client.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The restoration of the client's threads; `None` during a scan.
    pub(super) restoring: Option<Restoring>,
    /// Rows of the threads and of the freezer groups.
    pub(super) rows: Vec<Row>,
    /// Processes of the client, by their first threads.
    pub(super) leaders: Vec<Identity>,
    /// The CPUs that the threads were confined to, each thread to one CPU at a time.
    pub(super) confined: CpuSet,
}
