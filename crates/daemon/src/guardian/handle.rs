//! The daemon's handle to its guardian.

use super::name::COMMAND;
use super::succession::Standby;
use super::watch::Pulse;
use crate::Explanation;
use crate::directory::Directory;
use crate::kernel::priority;
use crate::linux::pass_on_mount;
use crate::table::{Beating, Table};
use sched::{Instant, Nanos};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use sys::attributes::{self, Attributes};
use sys::clock;
use sys::process::Process;
use sys::thread::{self, Identity, Thread};

/// Maximum time to wait for a guardian to start.
const BEGIN: Nanos = Nanos::s(2);
/// Maximum time to wait for a guardian to end once nothing is left to guard. A guardian checks at every beat whether
/// anything is left to guard.
const END: Nanos = Nanos::s(1);
/// Interval between two checks of a starting guardian.
const LOOK: Nanos = Nanos::ms(1);

/// A guardian, a child of this process. Dropping the handle does not end the guardian, which must outlive a daemon
/// that ends abruptly. The file descriptor of the handle becomes readable when the guardian ends.
#[derive(Debug)]
pub struct Handle {
    process: Process,
    identity: Identity,
    pulse: Pulse,
}

/// Returns a path that opens the file of this program even after another file has replaced that file.
#[must_use]
pub fn this_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

impl Handle {
    /// Starts `program` with the arguments `guardian DIRECTORY`, and the number of the descriptor of this process's private
    /// mount of the freezer, if it has one. The process stands by while another guardian watches.
    ///
    /// # Errors
    /// The process does not start.
    pub fn spawn(directory: &Directory, table: &Table, program: &Path) -> Result<Handle, Explanation> {
        // The guardian needs an absolute path: it runs in `/`, so that its working directory does not prevent a file
        // system from being unmounted.
        let path = std::path::absolute(directory.path()).map_err(|error| failed(&error.to_string()))?;
        let mut command = Command::new(program);
        command.arg0("tactus").arg(COMMAND).arg(path).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        // The only other child of this process, the trial of a new program, ends soon.
        command.args(pass_on_mount().map(|number| number.to_string()));
        let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        // The child is not reaped yet, so its pid is not reused.
        match Process::open(child.id()).and_then(|process| Ok((process, Thread::open(child.id())?.identity()))) {
            Ok((process, identity)) => Ok(Handle { process, identity, pulse: Pulse::begin(table, clock::now()) }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Returns the handle to the guardian or the standby with identity `identity`, which an earlier program of this process
    /// has started; `None` if it has ended.
    #[must_use]
    pub fn of_former(identity: Identity, table: &Table) -> Option<Handle> {
        let process = Process::open_as(identity).ok().filter(|process| !process.has_ended())?;
        Some(Handle { process, identity, pulse: Pulse::begin(table, clock::now()) })
    }

    /// Starts a guardian like [`Handle::spawn`]. Returns when the guardian watches the daemon.
    ///
    /// # Errors
    /// The guardian does not start, ends at once, or does not watch the daemon within two seconds. After an error, the
    /// guardian has ended or is killed.
    pub fn start(directory: &Directory, table: &Table, program: &Path) -> Result<Handle, Explanation> {
        let before = table.beats(Beating::Guardian);
        let mut handle = urgently(|| Handle::spawn(directory, table, program))?;
        let end = clock::now() + BEGIN;
        while !(handle.watches(table) && table.beats(Beating::Guardian) != before) {
            let has_ended = handle.process.ends_within(LOOK);
            if has_ended || clock::now() >= end {
                drop(handle.kill());
                let why = if has_ended {
                    "it has ended at once".to_string()
                } else {
                    format!("it is not ready after {BEGIN}")
                };
                return Err(failed(&why));
            }
        }
        handle.begin_watch(table);
        Ok(handle)
    }

    /// Begins to watch over this guardian, which watches the daemon from now on.
    pub fn begin_watch(&mut self, table: &Table) {
        self.pulse = Pulse::begin(table, clock::now());
    }

    /// Returns whether `table` names this process as the guardian.
    fn watches(&self, table: &Table) -> bool {
        table.guardian() == Some(self.identity)
    }

    /// Returns the state of this process as a standby.
    #[must_use]
    pub fn as_standby(&self, table: &Table) -> Standby {
        if self.process.has_ended() {
            Standby::HasEnded
        } else if self.watches(table) {
            Standby::Watches
        } else if table.standby() == Some(self.identity) {
            Standby::Ready
        } else {
            Standby::Starts
        }
    }

    /// Returns whether the guardian is alive and beats, according to `table` at `now`. Call this function at least once
    /// per interval [`CHECK`](super::CHECK), because a call counts at most one check.
    pub fn is_alive(&mut self, table: &Table, now: Instant) -> bool {
        self.pulse.is_felt(table, now) && !self.process.has_ended()
    }

    /// Returns the pid of the guardian.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the guardian ends. The table must be finished, so that nothing is left to guard. Kills a guardian
    /// that does not end within a second, and waits for one second more.
    pub fn stop(self) {
        if !self.process.ends_within(END) {
            // The guardian hangs, and is no longer needed.
            let _ = self.process.kill();
            let _ = self.process.ends_within(END);
        }
        let _ = self.process.reap();
    }

    /// Kills the guardian, so that a new guardian can be started. Does not wait for its end, which a system call may delay.
    /// The caller reaps the process.
    pub fn kill(self) -> Process {
        // The guardian may have ended already.
        let _ = self.process.kill();
        self.process
    }
}

/// Runs `work` at the guardian's priority, if permitted, so that a process or thread that `work` starts does not wait behind a hog.
pub(crate) fn urgently<T>(work: impl FnOnce() -> T) -> T {
    let me = thread::current();
    let before = attributes::get(me);
    let class = Attributes::of(attributes::Policy::Fifo { priority: priority::GUARDIAN });
    let raised = attributes::apply(me, class).is_ok();
    let done = work();
    if let (true, Ok(before)) = (raised, before) {
        // Returning to the previous class takes no privilege.
        let _ = attributes::apply(me, before);
    }
    done
}

fn failed(why: &str) -> Explanation {
    Explanation::new(format!("cannot start the guardian: {why}"), "try again")
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}
