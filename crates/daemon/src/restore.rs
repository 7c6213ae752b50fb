//! Restoring threads. The daemon restores threads at its orderly end, its guardian does so when the daemon dies, and
//! `tactus release` or the next daemon at its start does so from a leftover table.
//!
//! Restoring compares values: the original replaces a value that Tactus has set, but not a value that another process
//! has set since. Restoring may therefore be repeated, be interrupted and started again, or run in two processes at the
//! same time. First all freezer groups thaw. Then all threads leave real-time priority, so that no thread spins at that
//! priority, and all affinities are restored. All control groups are removed last, because the first move of a process
//! takes some 10 ms.
//!
//! Each thread is opened by identity, and closed before the next thread is opened: a table may contain more threads
//! than a process may open files.
//!
//! If a fork begins before the parent is restored, the child may appear after the restoration, with inherited values.
//! The restoration therefore does not end with the last thread of the table. [`Restoring`] scans for children until no
//! thread can still be inside such a fork.

mod entries;
mod groups;
mod newborn;
mod outcome;
mod restoring;
#[cfg(test)]
mod tests;

pub use entries::restore_entry;
pub use outcome::{End, GroupRestored, Outcome, Restored, ThreadRestored};
pub use restoring::{PATIENCE, Restoring};

use crate::Explanation;
use crate::directory::Directory;
use crate::kernel::Kernel;
use crate::table::Table;
use entries::refused;
use sched::Nanos;
use sys::shared::Lock;
use sys::thread::Identity;

/// Restores the threads of `table` and their new children. While a fork that began before the restoration may be in
/// progress, repeats the scan for children, for [`PATIENCE`] at most. Calls `pause` between scans. The rows stay in the
/// table; only their freezes and stops are cleared.
pub fn restore<K: Kernel>(kernel: &K, table: &Table, pause: impl FnMut(Nanos)) -> Restored {
    restore_beating(kernel, table, pause, &|| {})
}

/// Restores threads like [`restore`]. Calls `beat` before each step on a thread, process or group: the restoration of a
/// large table on a busy host can take longer than the guardian waits for a beat.
pub fn restore_beating<K: Kernel>(
    kernel: &K,
    table: &Table,
    mut pause: impl FnMut(Nanos),
    beat: &dyn Fn(),
) -> Restored {
    let mut restoring = Restoring::begin_all_beating(kernel, table, beat);
    loop {
        restoring.look_beating(kernel, table, beat);
        match restoring.pause().filter(|_| restoring.time() < PATIENCE) {
            Some(rest) => pause(rest),
            None => return restoring.end(),
        }
    }
}

/// Restores threads like [`restore`], without waiting, for a caller that restores again later.
pub fn restore_at_once<K: Kernel>(kernel: &K, table: &Table) -> Restored {
    let mut restoring = Restoring::begin_all(kernel, table);
    restoring.look_once(kernel, table);
    restoring.end()
}

/// Ends the loans of the daemon of `table`, which has ended, was killed, or is about to be killed. A killed daemon
/// lends until its donors run, and they may wait behind the threads that inherit from them. Call this function first:
/// until then, these threads may occupy all CPUs.
pub fn end_loans<K: Kernel>(kernel: &K, table: &Table) {
    if !is_foreign(kernel, table.daemon()) {
        // The call fails if the daemon has ended; then its loans have ended, too.
        let _ = kernel.lower_all(table.daemon());
    }
}

/// Returns whether a process that a table names belongs to another user, and this process does not run for root. Tactus
/// neither changes nor ends such a process: another program may have written the table.
pub(crate) fn is_foreign<K: Kernel>(kernel: &K, process: Identity) -> bool {
    kernel.open_as(process).is_ok_and(|thread| refused(kernel, &thread).is_some())
}

/// The result of a replay of a leftover table.
#[derive(Debug)]
pub enum Replayed {
    /// No table existed, or all its threads had been restored.
    Nothing,
    /// The table was from a previous boot of the machine, whose threads are gone.
    Stale,
    /// The threads of the table were restored as far as possible. The table is removed if nothing is left to restore.
    Done(Restored),
}

/// Restores the threads of a leftover table, and then removes the table, unless something is left to restore. A process
/// that still has the removed table open sees that the table is finished.
///
/// # Errors
/// The table cannot be opened, read or removed.
pub fn replay<K: Kernel>(kernel: &K, directory: &Directory, held: &Lock) -> Result<Replayed, Explanation> {
    let Some(table) = directory.open_table()? else { return Ok(Replayed::Nothing) };
    let done = if table.boot() != sys::kernel::boot_id()? {
        Replayed::Stale
    } else if table.is_finished() {
        Replayed::Nothing
    } else {
        end_loans(kernel, &table);
        Replayed::Done(restore(kernel, &table, sys::clock::sleep))
    };
    if !matches!(&done, Replayed::Done(restored) if !restored.is_settled()) {
        table.finish();
        directory.remove_table(held)?;
    }
    Ok(done)
}
