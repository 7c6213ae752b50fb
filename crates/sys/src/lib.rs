//! What Tactus asks of a Linux kernel: scheduling attributes, affinities, identities of threads, CPU time, timers, freezers.
//!
//! The only crate with unsafe code. It decides nothing: every call does one thing, and says what went wrong with the
//! thing it was asked for. What was set is read back where the kernel may set something else.

pub mod affinity;
pub mod attributes;
pub mod clock;
pub mod memory;
pub mod thread;
pub mod usage;

use std::path::PathBuf;

/// Why the kernel did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such process or thread (any more).
    #[error("there is no thread {0}; it has ended, or never was")]
    Gone(u32),
    /// The kernel does not let us.
    #[error("{what} is not permitted; {right}")]
    NotPermitted {
        /// What was asked for.
        what: String,
        /// What would help.
        right: &'static str,
    },
    /// The kernel accepted the call and did something else.
    #[error("{what}: the kernel kept {kept}")]
    NotKept {
        /// What was asked for.
        what: String,
        /// What is in force.
        kept: String,
    },
    /// This kernel or machine has no such thing.
    #[error("{what} is not there: {why}")]
    Absent {
        /// What was asked for.
        what: String,
        /// Why it is not there.
        why: String,
    },
    /// A file under /proc or /sys could not be read, or says what it should not.
    #[error("{}: {what}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Any other error of a call.
    #[error("{what}: {source}")]
    Call {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl Error {
    /// What became of asking `what` of thread `tid`.
    fn of(errno: rustix::io::Errno, tid: u32, what: impl Into<String>, right: &'static str) -> Error {
        match errno {
            rustix::io::Errno::SRCH => Error::Gone(tid),
            rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => Error::NotPermitted { what: what.into(), right },
            other => Error::Call { what: what.into(), source: other.into() },
        }
    }
}

/// What came of it.
pub type Result<T> = std::result::Result<T, Error>;
