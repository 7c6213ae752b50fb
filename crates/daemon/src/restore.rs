//! Restoring threads: by the daemon at its orderly end, by its guardian, by `tactus restore`, and by the next start,
//! from a leftover table.
//!
//! Restoring compares values. The original replaces a value that Tactus has set. A value that another process has set
//! meanwhile is left alone. So restoring may be repeated, run twice at a time, or be interrupted and started again.
//! First all threads leave real-time priority, so that no thread spins at that priority. Then stopped processes
//! continue, and then all affinities are restored.
//!
//! Each thread is opened by identity, and closed before the next thread. A table may contain more threads than a
//! process may open files.
//!
//! A child whose fork began before its parent was restored appears after the restoration, with inherited values. So
//! restoring does not end with the last thread of the table: [`Restoring`] scans again until no thread can be in a fork
//! of this kind.

mod entries;
mod newborn;
mod outcome;
mod restoring;
#[cfg(test)]
mod tests;

pub use entries::restore_entry;
pub use outcome::{End, Outcome, Restored, ThreadRestored};
pub use restoring::Restoring;

use crate::Explanation;
use crate::directory::Directory;
use crate::kernel::Kernel;
use crate::table::Table;
use sched::Nanos;
use sys::shared::Lock;

/// Maximum time that restoring waits for forks that began before their thread was restored. A thread without a CPU
/// would delay the end of the daemon. A thread without a CPU would also delay the guardian, which must restore all
/// threads within a second. The guardian may have spent a part of the second on a lock or a hung daemon.
pub const PATIENCE: Nanos = Nanos::ms(300);

/// Restores the threads of `table` and their new children. While a fork that began before the restoration may be in
/// progress, calls `pause` between scans, for [`PATIENCE`] at most. The rows stay; only stops are cleared.
pub fn restore<K: Kernel>(kernel: &K, table: &Table, mut pause: impl FnMut(Nanos)) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    loop {
        restoring.look(kernel, table);
        match restoring.pause().filter(|_| restoring.time() < PATIENCE) {
            Some(rest) => pause(rest),
            None => return restoring.end(),
        }
    }
}

/// Restores threads like [`restore`], without waiting, for a caller that restores again later.
pub fn restore_at_once<K: Kernel>(kernel: &K, table: &Table) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    restoring.look(kernel, table);
    restoring.end()
}

/// The result of a replay of a leftover table.
#[derive(Debug)]
pub enum Replayed {
    /// No table existed, or all its threads had been restored.
    Nothing,
    /// The table was from a previous boot of the machine, whose threads are gone.
    Stale,
    /// The table was restored. The table is removed if nothing is left to do.
    Done(Restored),
}

/// Restores the threads of a leftover table, and then removes the table. A process that has the table open observes
/// that the table is finished.
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
        Replayed::Done(restore(kernel, &table, sys::clock::sleep))
    };
    if !matches!(&done, Replayed::Done(restored) if !restored.is_settled()) {
        table.finish();
        directory.remove_table(held)?;
    }
    Ok(done)
}
