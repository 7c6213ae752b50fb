//! System interface of Tactus: thread scheduling and identity, CPU time, timers, context switches, freezers, and
//! properties of the machine.
//!
//! This is the only crate with unsafe code. The crate makes no decisions: every call performs one operation and reports
//! its error. If the kernel may apply a value other than the requested value, the call reads the value back.
//! [`attributes::apply`] is an exception.
//!
//! | module | content |
//! |---|---|
//! | [`attributes`], [`affinity`], [`autogroup`] | scheduling of a thread, and the CPUs where it may run |
//! | [`thread`], [`process`] | identity, and handles that never refer to a later thread or process |
//! | [`process_events`] | executed programs and ended processes, reported by the kernel |
//! | [`inheritance`] | lending a priority to a thread without a change to its attributes |
//! | [`usage`] | CPU time and run state, read without allocating memory |
//! | [`clock`], [`cpu_timer`], [`event`] | the monotonic clock, timers of time and of CPU time, and waiting for several events at once |
//! | [`switches`], [`arrivals`], [`births`] | context switches, arrivals on a CPU and forks, reported as they happen |
//! | [`cgroup`], [`freezer`] | control groups that Tactus creates, and freezing their tasks |
//! | [`realtime`], [`privileges`], [`cpus`], [`kernel`] | limits, privileges, CPUs and kernel of this machine |
//! | [`memory`], [`shared`] | locked memory, and memory that outlives a process |
//! | [`local_socket`] | Unix sockets: listening at a path, and the process at the other end |
//! | [`directory_watch`] | changes of the files in a directory |
//! | [`child`], [`launch`] | child processes for trials, and programs that Tactus starts |
//! | [`failing`] | system calls that fail on request, for fault injection |

pub mod affinity;
pub mod arrivals;
pub mod attributes;
pub mod autogroup;
pub mod births;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod cpu_timer;
pub mod cpus;
pub mod directory_watch;
pub mod event;
pub mod failing;
mod file;
pub mod freezer;
pub mod inheritance;
pub mod kernel;
pub mod launch;
pub mod local_socket;
pub mod memory;
mod private_mount;
pub mod privileges;
pub mod process;
pub mod process_events;
pub mod realtime;
pub mod scheduler_trace;
pub mod shared;
pub mod switches;
pub mod thread;
pub mod topology;
pub mod usage;
mod wake_source;

use rustix::io::Errno;
use rustix::process::Pid;
use sched::Explanation;
use std::path::PathBuf;
use std::{fmt, io};

/// An error of a system call. Each message names the operation, its object and the kernel's answer. [`Error::remedy`]
/// returns a remedy if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process or thread has ended, or never existed.
    Gone(u32),
    /// The kernel refuses permission.
    NotPermitted {
        /// The attempted operation.
        what: String,
        /// The kernel's answer.
        source: io::Error,
        /// The remedy, in the imperative.
        remedy: &'static str,
    },
    /// The kernel accepted the call, but applied another value.
    NotKept {
        /// The attempted operation.
        what: String,
        /// The value in force.
        kept: String,
        /// The remedy, in the imperative.
        remedy: &'static str,
    },
    /// The kernel or the machine lacks a feature.
    Absent {
        /// The missing feature.
        what: String,
        /// Reason for the absence.
        why: String,
        /// The remedy, in the imperative.
        remedy: &'static str,
    },
    /// The object is in a transition. The operation may succeed later.
    Busy {
        /// The attempted operation.
        what: String,
    },
    /// A file has unexpected content.
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Expected content of the file.
        wanted: &'static str,
    },
    /// Any other error of a call.
    Call {
        /// The attempted operation.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Returns whether a thread or process has this number. Sends no signal.
pub(crate) fn exists(tid: u32) -> bool {
    let pid = i32::try_from(tid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

impl Error {
    /// Returns the error of operation `what` on thread or process `tid`. ESRCH counts as the end of the thread only if no
    /// thread has this tid: a filter of system calls can answer in place of the kernel.
    fn of_existing(error: impl Into<io::Error>, tid: u32, what: impl Into<String>, remedy: &'static str) -> Error {
        let source = error.into();
        if source.raw_os_error() == Some(libc::ESRCH) && !exists(tid) {
            return Error::Gone(tid);
        }
        Error::from(source, what, remedy)
    }

    /// Returns the error of operation `what` on thread or process `tid`. ESRCH counts as the end of the thread: the
    /// operation fails so for a thread that still exists but is about to end.
    fn of(error: impl Into<io::Error>, tid: u32, what: impl Into<String>, remedy: &'static str) -> Error {
        let source = error.into();
        if source.raw_os_error() == Some(libc::ESRCH) { Error::Gone(tid) } else { Error::from(source, what, remedy) }
    }

    /// Returns the error of operation `what`. Unlike [`Error::of`], does not treat ESRCH specially.
    fn from(error: impl Into<io::Error>, what: impl Into<String>, remedy: &'static str) -> Error {
        let (source, what) = (error.into(), what.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted { what, source, remedy },
            _ => Error::Call { what, source },
        }
    }

    /// Returns the error message without the remedy.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Error::Gone(tid) => format!("there is no thread {tid}; it has ended, or never existed"),
            Error::NotPermitted { what, source, .. } | Error::Call { what, source } => {
                format!("cannot {what}: {source}")
            }
            Error::NotKept { what, kept, .. } => format!("cannot {what}: the kernel kept {kept}"),
            Error::Absent { what, why, .. } => format!("{what} is not available: {why}"),
            Error::Busy { what } => format!("cannot {what} just now"),
            Error::Malformed { path, wanted } => format!("{} is not {wanted}", path.display()),
        }
    }

    /// Returns the remedy, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Error::NotPermitted { remedy, .. } | Error::NotKept { remedy, .. } | Error::Absent { remedy, .. } => {
                Some(remedy)
            }
            Error::Gone(_) | Error::Busy { .. } | Error::Malformed { .. } | Error::Call { .. } => None,
        }
    }

    /// Returns the kernel's error number, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Gone(_) => Some(libc::ESRCH),
            Error::NotPermitted { source, .. } | Error::Call { source, .. } => source.raw_os_error(),
            Error::NotKept { .. } | Error::Absent { .. } | Error::Busy { .. } | Error::Malformed { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl From<Error> for Explanation {
    fn from(error: Error) -> Explanation {
        Explanation::new(error.reason(), error.remedy().unwrap_or_default())
    }
}

/// Result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_reason_and_a_remedy() {
        let error = Error::from(io::Error::from_raw_os_error(libc::EPERM), "do it", "try another day");
        assert_eq!(error.to_string(), "cannot do it: Operation not permitted (os error 1); try another day");
        assert_eq!(error.reason(), "cannot do it: Operation not permitted (os error 1)");
        assert_eq!((error.remedy(), error.errno()), (Some("try another day"), Some(libc::EPERM)));
        assert_eq!((Error::Gone(7).remedy(), Error::Gone(7).errno()), (None, Some(libc::ESRCH)));
        assert_eq!(Error::Busy { what: "do it".into() }.to_string(), "cannot do it just now");
    }
}
