//! What Tactus asks of a Linux kernel: how threads are scheduled and who they are, CPU time, timers, context switches,
//! freezers, and what the machine is like.
//!
//! The only crate with unsafe code. It decides nothing: every call does one thing, and says what went wrong with the
//! thing it was asked for. What was set is read back where the kernel may set something else.
//!
//! | module | what it is about |
//! |---|---|
//! | [`attributes`], [`affinity`], [`autogroup`] | how a thread is scheduled, and where it may run |
//! | [`thread`], [`process`] | who a thread is, and holding on to it when its number is given to another |
//! | [`usage`] | CPU time and run state, read without allocating |
//! | [`clock`], [`event`] | the monotonic clock, timers, and waiting for several things at once |
//! | [`switches`], [`births`] | context switches, and threads that begin, as it happens |
//! | [`cgroup`], [`freezer`] | control groups of our own, and stopping what is in them |
//! | [`realtime`], [`privileges`], [`cpus`], [`kernel`] | what this machine allows, has and is |
//! | [`memory`], [`shared`] | memory that stays: in place, and when a process ends |
//! | [`child`], [`launch`] | processes of our own to try things on, and programs that we begin |

pub mod affinity;
pub mod attributes;
pub mod autogroup;
pub mod births;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod cpus;
pub mod event;
mod file;
pub mod freezer;
pub mod kernel;
pub mod launch;
pub mod memory;
pub mod privileges;
pub mod process;
pub mod realtime;
pub mod shared;
pub mod switches;
pub mod thread;
pub mod usage;

use std::io;
use std::path::PathBuf;

/// Why the kernel did not do what it was asked for. Every message names what was tried on what, what the kernel said, and,
/// where that is known, what would be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such process or thread (any more).
    #[error("there is no thread {0}; it has ended, or never was")]
    Gone(u32),
    /// The kernel does not let us.
    #[error("cannot {what}: {source}; right would be {right}")]
    NotPermitted {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: io::Error,
        /// What would help.
        right: &'static str,
    },
    /// The kernel accepted the call and did something else.
    #[error("cannot {what}: the kernel kept {kept}; right would be {right}")]
    NotKept {
        /// What was asked for.
        what: String,
        /// What is in force.
        kept: String,
        /// What would help.
        right: &'static str,
    },
    /// This kernel or machine has no such thing.
    #[error("{what} is not there: {why}; right would be {right}")]
    Absent {
        /// What was asked for.
        what: String,
        /// Why it is not there.
        why: String,
        /// What would help.
        right: &'static str,
    },
    /// A file does not say what it should.
    #[error("{} is not {wanted}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
    },
    /// Any other error of a call.
    #[error("cannot {what}: {source}")]
    Call {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// What became of trying to do `what` to thread `tid`.
    fn of(error: impl Into<io::Error>, tid: u32, what: impl Into<String>, right: &'static str) -> Error {
        let source = error.into();
        if source.raw_os_error() == Some(libc::ESRCH) { Error::Gone(tid) } else { Error::from(source, what, right) }
    }

    /// What became of trying to do `what` to something that is no thread.
    fn from(error: impl Into<io::Error>, what: impl Into<String>, right: &'static str) -> Error {
        let (source, what) = (error.into(), what.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted { what, source, right },
            _ => Error::Call { what, source },
        }
    }

    /// What was tried and what came of it, without what would be right.
    #[must_use]
    pub fn reason(&self) -> String {
        let whole = self.to_string();
        match whole.split_once("; right would be ") {
            Some((reason, _)) => reason.to_string(),
            None => whole,
        }
    }

    /// What would be right, where that is known.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Error::NotPermitted { right, .. } | Error::NotKept { right, .. } | Error::Absent { right, .. } => {
                Some(right)
            }
            Error::Gone(_) | Error::Malformed { .. } | Error::Call { .. } => None,
        }
    }

    /// What the kernel said, where it said a number.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Gone(_) => Some(libc::ESRCH),
            Error::NotPermitted { source, .. } | Error::Call { source, .. } => source.raw_os_error(),
            Error::NotKept { .. } | Error::Absent { .. } | Error::Malformed { .. } => None,
        }
    }
}

/// What came of it.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_reason_and_a_remedy() {
        let error = Error::from(io::Error::from_raw_os_error(libc::EPERM), "do it", "another day");
        assert_eq!(error.to_string(), "cannot do it: Operation not permitted (os error 1); right would be another day");
        assert_eq!(error.reason(), "cannot do it: Operation not permitted (os error 1)");
        assert_eq!((error.remedy(), error.errno()), (Some("another day"), Some(libc::EPERM)));
        assert_eq!((Error::Gone(7).remedy(), Error::Gone(7).errno()), (None, Some(libc::ESRCH)));
    }
}
