//! [`Error`]: reasons why certificates cannot be made or used.

use std::io;
use std::path::PathBuf;
use thiserror::Error as Derive;

/// Reason why certificates cannot be made or used. Nothing has changed.
#[derive(Debug, Derive)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// What was tried: `read` or `write`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The content of a file cannot be used.
    #[error("{} cannot be used: {why}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// An authority already exists in the directory.
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    /// The name cannot be that of a client.
    #[error("`{0}` cannot be the name of a client")]
    Name(String),
    /// The name cannot be that of a host.
    #[error("`{0}` cannot be the name of a host")]
    HostName(String),
    /// A client of this name has a valid certificate.
    #[error("the client {0} has a valid certificate")]
    HasOne(String),
    /// The authority has issued no certificate to a client of this name.
    #[error("no certificate was issued to a client {0}")]
    Unknown(String),
    /// A certificate cannot be made or checked.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Returns the remedy, in the imperative; empty: there is none.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::File { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                "make certificates with `tactus certs init` and `tactus certs issue`, or name their directory"
            }
            Error::File { .. } => "check the permissions of the directory",
            Error::Content { .. } => "restore the file, or make new certificates in another directory",
            Error::Exists(_) => "use it with `tactus certs issue`, or name another directory",
            Error::Name(_) => "use 1 to 64 letters, digits and `.`, `_`, `@`, `-`, and begin with a letter or a digit",
            Error::HostName(_) => "use a DNS name or an IP address",
            Error::HasOne(_) => "revoke it with `tactus certs revoke`, or use another name",
            Error::Unknown(_) => "use a name of `tactus certs list`",
            Error::Failed(_) => "",
        }
    }
}
