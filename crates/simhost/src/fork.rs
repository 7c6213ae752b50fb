//! [`Birth`]: a fork in progress.

use crate::masks::Masks;
use crate::setting::Setting;
use sched::Nanos;
use sim::Workload;

/// The object that a fork creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process.
    Process,
    /// A thread in the same process.
    Thread,
}

/// A fork in progress. Inherited values are copied at its start, and the child appears at its end. Source:
/// `copy_process`, kernel/fork.c, v6.12.
#[derive(Clone, Debug)]
pub(super) struct Birth {
    pub(super) kind: Kind,
    /// Setting of the child, and its setting without Tactus.
    pub(super) settings: (Setting, Setting),
    pub(super) masks: Masks,
    pub(super) workload: Workload,
    /// CPU time of the parent at the end of the fork.
    pub(super) until: Nanos,
}
