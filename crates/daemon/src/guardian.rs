//! The guardian: a process of its own that restores everybody when the daemon dies, and ends it when it hangs.
//!
//! It shares the table of originals with the daemon, and runs above everybody the daemon raises. That it is there is what
//! allows the daemon to raise anybody: without a live guardian the daemon restores all, begins a new one, and only then goes on.

mod handle;
mod watch;

pub use handle::{Handle, this_program};
pub use watch::{Daemon, Pulse, Verdict, Watch};

use crate::Reason;
use crate::directory::{Directory, Refused};
use crate::kernel::priority;
use crate::linux::Linux;
use crate::restore::{End, Restored, restore, restore_at_once};
use crate::table::Table;
use sched::{CpuSet, Nanos};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use sys::attributes::{self, Attributes};
use sys::event::Waiting;
use sys::process::{self, Process};
use sys::shared::Lock;
use sys::thread::{self, Thread};
use sys::{affinity, clock, cpus, memory};

/// Between two beats of the guardian.
pub const INTERVAL: Nanos = Nanos::ms(50);
/// How many beats in a row go by without one of somebody else's before that one is taken to hang.
pub const PATIENCE: u32 = 6;
/// How many beats in a row the end of a daemon that was killed is awaited before everybody is restored all the same, and again
/// after as many. It does nothing more of its own from when it was killed; but a thread of it that is to end may wait for a CPU
/// behind somebody who was raised.
pub const AWAITED: u32 = 2;
/// What the hidden command is called that makes a process the guardian.
pub const COMMAND: &str = "guardian";
/// What a guardian is called in lists of processes.
pub(crate) const NAME: &str = "tactus-guardian";
/// How many threads are told of one by one.
const TOLD: usize = 32;

/// Makes this process the guardian of the daemon whose table is in `directory`. Returns when nothing is left to guard.
#[must_use]
pub fn main(directory: &Path) -> ExitCode {
    process::ignore_requests();
    let mut report = String::new();
    let settled = guard(&Directory::at(directory), &mut report).unwrap_or_else(|reason| {
        let _ = writeln!(report, "tactus guardian: {}", reason.why);
        false
    });
    // Said last: who reads it may be slow, or gone.
    let _ = std::io::stderr().lock().write_all(report.as_bytes());
    if settled { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Guards; says whether nothing was left to be done, and writes into `report` what was.
fn guard(directory: &Directory, report: &mut String) -> Result<bool, Reason> {
    let table = directory.open_table()?.ok_or_else(|| {
        let why = format!("there is no table of originals in {}", directory.path().display());
        Reason::new(why, "a daemon that has made one")
    })?;
    let kernel = Linux::new()?;
    // Of interest only where it has something to do.
    let mut complaints = String::new();
    let me = prepare(&mut complaints)?;
    let waiting = Waiting::new()?;
    let daemon = match Process::open_as(table.daemon()) {
        Ok(daemon) => Some(daemon),
        Err(sys::Error::Gone(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(daemon) = &daemon {
        waiting.add(daemon, 0)?;
    }
    table.set_guardian(me.identity());
    let mut watch = Watch::default();
    let mut due = clock::now();
    loop {
        let state = match &daemon {
            Some(daemon) if !daemon.has_ended() => Daemon::Lives,
            _ => Daemon::HasEnded,
        };
        let verdict = watch.step(&table, state);
        if matches!(verdict, Verdict::Kill { .. } | Verdict::Restore) {
            report.push_str(&std::mem::take(&mut complaints));
        }
        match verdict {
            Verdict::Fine => {}
            Verdict::End => return Ok(true),
            Verdict::Kill { agent } => {
                let missed = INTERVAL.saturating_mul(PATIENCE.into());
                let _ = writeln!(
                    report,
                    "tactus guardian: agent {agent} of the daemon has not beaten for {missed}: it is killed"
                );
                // It has ended if it is gone.
                if let Some(Err(error)) = daemon.as_ref().map(Process::kill) {
                    let _ = writeln!(report, "tactus guardian: {error}");
                }
            }
            Verdict::Restore => {
                if let Some(settled) = bring_back(&kernel, directory, &table, state, report) {
                    return Ok(settled);
                }
            }
        }
        due = due.saturating_add(INTERVAL);
        if due <= clock::now() {
            // Beats that are past are left out: a machine that stood still is no reason to count faster.
            due = clock::now().saturating_add(INTERVAL);
        }
        if waiting.next(due).is_err() {
            clock::sleep_until(due);
        }
    }
}

/// Makes this process one that gets past whoever hangs, as far as it may.
fn prepare(report: &mut String) -> sys::Result<Thread> {
    thread::set_name(NAME);
    let me = thread::current();
    let mut tried = |outcome: sys::Result<()>| {
        if let Err(error) = outcome {
            let _ = writeln!(report, "tactus guardian: {error}");
        }
    };
    // Whoever began it may have been pinned. A cpuset may keep it from some.
    let everywhere: CpuSet = cpus::online()?;
    match affinity::set(me, &everywhere) {
        Err(sys::Error::NotKept { .. }) => {}
        outcome => tried(outcome),
    }
    // It leads a group already where it was begun by hand.
    let _ = process::leave_session();
    tried(clock::set_slack(Nanos::ns(1)));
    tried(memory::lock());
    tried(attributes::set(me, Attributes::raised(priority::GUARDIAN)));
    Thread::open(me)
}

/// Restores everybody. Says how that ended, if that was the last that was to be done.
fn bring_back(
    kernel: &Linux,
    directory: &Directory,
    table: &Table,
    daemon: Daemon,
    report: &mut String,
) -> Option<bool> {
    let begin = clock::now();
    let held = match daemon {
        Daemon::HasEnded => match wait_for_lock(directory, table) {
            Waited::Done => return Some(true),
            Waited::Held(lock) => lock,
        },
        // It was killed, and does nothing more but finish the calls it was in: whatever they change is restored at its end.
        Daemon::Lives => None,
    };
    let restored = match daemon {
        Daemon::HasEnded => restore(kernel, table, clock::sleep),
        // Whom they are beginning is found at the end of the daemon too.
        Daemon::Lives => restore_at_once(kernel, table),
    };
    let took = clock::now().saturating_since(begin);
    if !(restored.threads.is_empty() && restored.is_settled()) {
        let (process, end) = (table.daemon().tid, if daemon == Daemon::Lives { "was killed" } else { "has ended" });
        let _ = writeln!(report, "tactus guardian: the daemon, process {process}, {end}: {restored}, within {took}");
        tell(&restored, report);
    }
    if daemon == Daemon::Lives {
        return None;
    }
    let settled = restored.is_settled();
    if settled {
        table.finish();
        if let Some(Err(reason)) = held.map(|lock| directory.remove_table_of(table.daemon(), &lock)) {
            let _ = writeln!(report, "tactus guardian: {}", reason.why);
        }
    } else {
        let _ = writeln!(report, "tactus guardian: `tactus restore` tries again");
    }
    Some(settled)
}

/// What came of waiting for the right to restore.
enum Waited {
    /// Somebody else had it, and has restored everybody.
    Done,
    /// It is ours; or it is somebody's who does nothing with it, or cannot be had, and nobody is to wait for that.
    Held(Option<Lock>),
}

/// Waits for the right to restore, but not long: somebody else who has it restores, as everybody does first.
fn wait_for_lock(directory: &Directory, table: &Table) -> Waited {
    for _ in 0..PATIENCE {
        match directory.try_lock() {
            Ok(lock) => return Waited::Held(Some(lock)),
            Err(Refused::Failed(_)) => break,
            Err(Refused::Held(_)) => clock::sleep(INTERVAL),
        }
        if table.is_finished() {
            return Waited::Done;
        }
    }
    Waited::Held(None)
}

/// Writes down what was done to whom.
fn tell(restored: &Restored, report: &mut String) {
    let changed = |end: End| matches!(end, End::Restored | End::Failed | End::Left);
    let mut told = restored.threads.iter().filter(|thread| changed(thread.end()));
    for thread in told.by_ref().take(TOLD) {
        let _ = writeln!(report, "  {thread}");
    }
    match told.count() {
        0 => {}
        more => {
            let _ = writeln!(report, "  and {more} more");
        }
    }
}
