//! [`Birth`]: a fork in progress.

use crate::setting::Setting;
use sched::Nanos;
use sim::Workload;

/// The kind of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A fork of a process.
    Process,
    /// A fork of another thread of the same process.
    Thread,
}

/// A fork in progress: inherited values are copied at its start, and the child appears at its end. Source:
/// `copy_process`, kernel/fork.c, v6.12.
#[derive(Clone, Debug)]
pub(super) struct Birth {
    pub(super) kind: Kind,
    /// Setting of the child, and its setting without Tactus.
    pub(super) settings: (Setting, Setting),
    pub(super) workload: Workload,
    /// CPU time of the parent at which the fork is over.
    pub(super) until: Nanos,
}
