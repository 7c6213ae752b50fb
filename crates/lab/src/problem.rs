//! [`Problem`]: why an experiment or a claim cannot be read, played or judged.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong, where, and what would be right.
#[derive(Debug, Error)]
pub enum Problem {
    /// A file cannot be read or written.
    #[error("{} cannot be {done}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        done: &'static str,
        /// As the system says.
        why: std::io::Error,
    },
    /// A file does not say what it should.
    #[error("{}: {what}\n  use {right}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the key or expression.
        what: String,
        /// What would be right.
        right: String,
    },
    /// A scenario that an experiment makes is wrong, or cannot be played.
    #[error("{of}: its scenario cannot be played\n{why:?}")]
    Scenario {
        /// The experiment, its point and seed.
        of: String,
        /// As of every scenario.
        why: miette::Report,
    },
    /// It was asked to end.
    #[error("interrupted")]
    Interrupted,
}

impl Problem {
    pub(crate) fn wrong(path: &Path, what: impl Into<String>, right: impl Into<String>) -> Problem {
        Problem::Wrong { path: path.to_path_buf(), what: what.into(), right: right.into() }
    }

    pub(crate) fn unread(path: &Path, why: std::io::Error) -> Problem {
        Problem::File { path: path.to_path_buf(), done: "read", why }
    }

    pub(crate) fn unwritten(path: &Path, why: std::io::Error) -> Problem {
        Problem::File { path: path.to_path_buf(), done: "written", why }
    }

    /// Whether it is the input that is wrong.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Problem::File { done: "written", .. } | Problem::Interrupted)
    }
}

/// The text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|why| Problem::unread(path, why))
}
