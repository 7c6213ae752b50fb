//! [`Store`]: the measurements of every finished run, so that no run is repeated.

use crate::problem::Problem;
use crate::results::Measured;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Name of the file in a directory of results.
const FILE: &str = "runs.jsonl";

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Hash of the sources and of all inputs of the run.
    key: String,
    measured: Measured,
}

/// Fingerprint of all files that determine the measurements of a run, such as sources and cost files. The executable is
/// not part of the fingerprint, because it differs between machines and changes with the command-line interface.
pub const SOURCES: &str = env!("TACTUS_SOURCES");

/// Returns a hash of the file at `path`, as 64 hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub fn hash_of(path: &Path) -> Result<String, Problem> {
    let bytes = std::fs::read(path).map_err(|why| Problem::unread(path, why))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// Finished runs, by all inputs that determine their outcome.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    /// Fingerprint of the sources. Runs that were stored with another fingerprint are repeated.
    sources: String,
    known: HashMap<String, Measured>,
}

impl Store {
    /// Opens the store in `directory` for sources with this fingerprint ([`SOURCES`]). Creates the directory if it does
    /// not exist. Ignores incomplete or broken lines.
    ///
    /// # Errors
    /// The directory or its file cannot be read or written.
    pub fn open(directory: &Path, sources: &str) -> Result<Store, Problem> {
        std::fs::create_dir_all(directory).map_err(|why| Problem::unwritten(directory, why))?;
        let path = directory.join(FILE);
        let bytes = match std::fs::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|why| Problem::unread(&path, why))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let known = lines.map(|line| (line.key, line.measured)).collect();
        let unwritten = |why| Problem::unwritten(&path, why);
        let mut file = File::options().create(true).append(true).open(&path).map_err(unwritten)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").map_err(unwritten)?;
        }
        Ok(Store { file, sources: sources.to_string(), known, path })
    }

    fn key(&self, inputs: &str) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.sources.as_bytes()).update(b"\n").update(inputs.as_bytes());
        hash.finalize().to_hex().to_string()
    }

    /// Returns the stored measurements of the run with these `inputs`.
    #[must_use]
    pub fn get(&self, inputs: &str) -> Option<&Measured> {
        self.known.get(&self.key(inputs))
    }

    /// Stores the measurements of the run with these `inputs`. The measurements are in the file when this function
    /// returns.
    ///
    /// # Errors
    /// The measurements cannot be written.
    pub fn put(&mut self, inputs: &str, measured: Measured) -> Result<(), Problem> {
        let key = self.key(inputs);
        let line = Line { key: key.clone(), measured: measured.clone() };
        let mut text = serde_json::to_string(&line).expect("all of it can be JSON");
        text.push('\n');
        // The line is written in one operation, so an interrupted process leaves a whole line or no line.
        self.file.write_all(text.as_bytes()).map_err(|why| Problem::unwritten(&self.path, why))?;
        self.known.insert(key, measured);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(number: u64) -> Measured {
        Measured::from([("n".to_string(), number.into())])
    }

    #[test]
    fn what_was_finished_is_known_again_and_half_a_line_is_not() {
        let directory = tempfile::tempdir().expect("there is room");
        let open = |sources| Store::open(directory.path(), sources).expect("it opens");
        open("a").put("one", measured(1)).expect("it is written");
        open("a").put("two", measured(2)).expect("it is written");
        let path = directory.path().join(FILE);
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::write(&path, &text[..text.len() - 5]).expect("it is cut");
        let mut store = open("a");
        assert_eq!(store.get("one"), Some(&measured(1)));
        assert_eq!(store.get("two"), None);
        store.put("two", measured(3)).expect("it is written");
        assert_eq!(open("a").get("two"), Some(&measured(3)));
        // After a crash of the machine, a file may contain arbitrary bytes.
        let broken = [&b"{\"key\": \xff\xfe\0\n"[..], &std::fs::read(&path).expect("it is there")].concat();
        std::fs::write(&path, broken).expect("it is written");
        assert_eq!(open("a").get("two"), Some(&measured(3)));
        assert_eq!(open("another").get("one"), None);
    }
}
