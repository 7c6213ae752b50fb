//! [`Problem`]: the reason why an experiment or a claim cannot be read, run or judged.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// An error with its location and remedy.
#[derive(Debug, Error)]
pub enum Problem {
    /// A file cannot be read or written.
    #[error("{} cannot be {done}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Attempted operation: `read` or `written`.
        done: &'static str,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// A file has invalid content.
    #[error("{}: {what}\n  use {right}", path.display())]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// The error, with the key or expression.
        what: String,
        /// The valid syntax or value.
        right: String,
    },
    /// The scenario of an experiment is invalid, or cannot be run.
    #[error("{of}: its scenario cannot be played\n{why:?}")]
    Scenario {
        /// Experiment, point and seed of the scenario.
        of: String,
        /// Error of the scenario.
        why: miette::Report,
    },
    /// A run on this host has failed.
    #[error("{of}: {why}")]
    Live {
        /// Experiment, point and seed of the run.
        of: String,
        /// The reason.
        why: String,
    },
    /// The run was interrupted on request.
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

    /// Returns the problem in one line, without the lines of a scenario.
    pub(crate) fn brief(&self) -> String {
        let text = match self {
            // A report on several errors has them as related reports.
            Problem::Scenario { of, why } => match why.related().and_then(|mut errors| errors.next()) {
                Some(first) => format!("{of}: {first}"),
                None => format!("{of}: {why}"),
            },
            other => other.to_string(),
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns whether the cause is the input, and not a failure to write or an interruption.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Problem::File { done: "written", .. } | Problem::Live { .. } | Problem::Interrupted)
    }
}

/// Reads the text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|why| Problem::unread(path, why))
}
