//! [`Files`]: a reader of the files to which a scenario refers. The caller provides the reader, so this crate and the
//! crates that use it need no file system.

use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// A reader of the files to which a scenario refers.
pub trait Files {
    /// Returns the bytes of the file `name`, a path with `/`. Relative paths start at the directory of the scenario.
    /// For a file larger than [`FILE_BYTES_MAX`](crate::text::FILE_BYTES_MAX), returns more bytes than this limit, so
    /// that the caller detects the excess.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable>;
}

impl fmt::Debug for dyn Files + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

/// The reason why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Unreadable {
    /// The file does not exist. The string is the reason.
    #[error("{0}")]
    Missing(String),
    /// The file is a directory, a device or a pipe.
    #[error("not a file")]
    NotAFile,
    /// The file exists but cannot be read. The string is the reason.
    #[error("{0}")]
    Denied(String),
}

/// A reader without files: every file is missing.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _name: &str) -> Result<Vec<u8>, Unreadable> {
        Err(Unreadable::Missing("no other file is at hand".to_string()))
    }
}

/// Files in memory, by name.
impl Files for BTreeMap<String, Vec<u8>> {
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        self.get(name).cloned().ok_or_else(|| Unreadable::Missing("there is no such file".to_string()))
    }
}

/// Resolves the path `file` relative to the directory of the file `beside`. An absolute path stays unchanged.
#[must_use]
pub fn resolved(beside: &str, file: &str) -> String {
    match beside.rsplit_once('/') {
        Some((directory, _)) if !file.starts_with('/') => format!("{directory}/{file}"),
        _ => file.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_name_continues_the_path_of_the_file_that_names_it() {
        for (beside, file, right) in [
            ("a/b/x.toml", "y.json", "a/b/y.json"),
            ("x.toml", "y.json", "y.json"),
            ("/x.toml", "y.json", "/y.json"),
            ("a/x.toml", "/y.json", "/y.json"),
            ("a/x.toml", "../y.json", "a/../y.json"),
        ] {
            assert_eq!(resolved(beside, file), right);
        }
    }

    #[test]
    fn files_in_memory_are_read_by_name_and_others_are_missing() {
        let files = BTreeMap::from([("a/y.json".to_string(), b"{}".to_vec())]);
        assert_eq!(files.read("a/y.json"), Ok(b"{}".to_vec()));
        assert!(matches!(files.read("y.json"), Err(Unreadable::Missing(_))));
        assert!(matches!(NoFiles.read("a/y.json"), Err(Unreadable::Missing(_))));
    }
}
