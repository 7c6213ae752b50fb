//! Release of a directory: ends the daemon of the directory, if it still lives, and replays its table.

use crate::directory::{Directory, Refused};
use crate::linux::{Linux, lower_all};
use crate::restore::{Replayed, is_foreign, replay};
use crate::table::Table;
use crate::{Explanation, guardian};
use sched::Nanos;
use std::io::ErrorKind;
use sys::process::Process;
use sys::shared::{Lock, own_directory};
use sys::thread::Identity;
use sys::{Error, kernel};

/// Time that a daemon has to end after SIGTERM.
pub const PATIENCE: Nanos = Nanos::s(5);
/// Maximum time from SIGKILL to the end of a process.
const KILLED: Nanos = Nanos::s(1);

/// A daemon or guardian that was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Pid of the process.
    pub pid: u32,
    /// Whether the process did not end in time after SIGTERM, and was killed.
    pub was_killed: bool,
}

/// What was given back.
#[derive(Debug)]
pub struct Released {
    /// The daemon that was ended; `None`: no daemon was alive.
    pub ended: Option<Ended>,
    /// The replay of the table.
    pub replayed: Replayed,
}

/// Ends the daemon with the table in `directory`, if it lives, and restores the threads of the table. Works without any
/// living process of Tactus.
///
/// # Errors
/// The directory or the table cannot be used, or a process keeps the lock.
pub fn release(directory: &Directory) -> Result<Released, Explanation> {
    // Without the directory, there is no table. The lock would create the directory.
    match directory.path().symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Released { ended: None, replayed: Replayed::Nothing });
        }
        Err(error) => {
            let why = format!("cannot use {}: {error}", directory.path().display());
            return Err(Explanation::new(why, "let its user reach this directory"));
        }
        Ok(_) => {}
    }
    own_directory(directory.path())?;
    let table = directory.open_table()?;
    let here = match &table {
        Some(table) if table.boot() == kernel::boot_id()? => Some(table),
        _ => None,
    };
    let ended = match here.map(Table::daemon) {
        Some(daemon) => end(daemon, PATIENCE)?,
        None => None,
    };
    let held = lock(directory, here)?;
    let replayed = replay(&Linux::new()?, directory, &held)?;
    guardian::sweep();
    Ok(Released { ended, replayed })
}

/// Requests the end of a process of Tactus with SIGTERM, and kills it after `patience`. `None`: the process had ended.
fn end(identity: Identity, patience: Nanos) -> Result<Option<Ended>, Explanation> {
    let process = match Process::open_as(identity) {
        Ok(process) if !process.has_ended() => process,
        Ok(_) | Err(Error::Gone(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let pid = process.pid();
    if is_foreign(&Linux::new()?, identity) {
        let why = format!("process {pid} belongs to another user, and the table names it as a process of Tactus");
        return Err(Explanation::new(why, "remove the table if another program has written it"));
    }
    unless_gone(process.terminate())?;
    if process.ends_within(patience) {
        return Ok(Some(Ended { pid, was_killed: false }));
    }
    unless_gone(process.kill())?;
    // The donors of the process may wait for CPU time behind the threads that inherit from them.
    unless_gone(lower_all(identity))?;
    if process.ends_within(KILLED) {
        return Ok(Some(Ended { pid, was_killed: true }));
    }
    let why = format!("process {pid} was killed and has not ended within {KILLED}");
    Err(Explanation::new(why, "try again"))
}

/// Locks the directory. Kills the guardian of `table` if it holds the lock and hangs.
fn lock(directory: &Directory, table: Option<&Table>) -> Result<Lock, Explanation> {
    let holder = match directory.lock() {
        Err(Refused::Held(Some(holder))) => holder,
        outcome => return Ok(outcome?),
    };
    let guardian = table.and_then(Table::guardian).filter(|guardian| guardian.tid == holder);
    if let Some(guardian) = guardian {
        // A guardian ignores SIGTERM.
        end(guardian, Nanos::ZERO)?;
    }
    Ok(directory.lock()?)
}

fn unless_gone(outcome: sys::Result<()>) -> Result<(), Explanation> {
    match outcome {
        Err(Error::Gone(_)) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
