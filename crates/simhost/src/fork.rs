//! [`Birth`]: a fork in progress.

use crate::setting::Setting;
use sched::Nanos;
use sim::Workload;

/// The kind of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process.
    Process,
    /// Another thread of the same process.
    Thread,
}

/// A fork in progress: inherited values are copied at its start, and the child appears at its end. Source: `copy_process`,
/// kernel/fork.c, v6.12.
#[derive(Clone, Debug)]
pub(super) struct Birth {
    pub(super) kind: Kind,
    /// The setting of the child, and the setting it would have without Tactus.
    pub(super) settings: (Setting, Setting),
    pub(super) workload: Workload,
    /// The parent's CPU time at which it is over.
    pub(super) until: Nanos,
}
