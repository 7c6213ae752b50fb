//! [`Mounting`]: the hierarchy of the freezer groups is opened before a restoration needs it.
//!
//! A hierarchy that is not mounted is mounted privately. The mount waits while a process is moved between control groups,
//! up to seconds on a busy host. A restoration that mounts first would keep its threads waiting.

use super::apart::STACK;
use crate::kernel::priority;
use crate::linux;
use crate::table::Table;
use std::thread::Builder;
use sys::attributes::{self, Attributes};
use sys::thread;

/// Opens the hierarchy once there are groups.
#[derive(Default, Debug)]
pub(super) struct Mounting {
    has_begun: bool,
}

impl Mounting {
    /// Opens the hierarchy if `table` has groups. Errors are reported by the restoration, which opens it again.
    pub(super) fn at_once(&mut self, table: &Table) {
        if self.is_due(table) {
            linux::prepare_freezing();
        }
    }

    /// Begins to open the hierarchy if `table` has groups, on a thread of its own: the guardian must beat meanwhile.
    pub(super) fn begin(&mut self, table: &Table) {
        if self.is_due(table) {
            let opening = Builder::new().name("tactus-groups".to_string()).stack_size(STACK);
            // Without the thread, the restoration opens the hierarchy.
            let _ = opening.spawn(|| {
                // Threads of the guardian start as ordinary threads, and would wait behind the clients.
                let _ = attributes::set(thread::current(), Attributes::raised(priority::GUARDIAN));
                linux::prepare_freezing();
            });
        }
    }

    fn is_due(&mut self, table: &Table) -> bool {
        let is_due = !self.has_begun && table.has_had_groups();
        self.has_begun |= is_due;
        is_due
    }
}
