//! [`Audit`]: the log of all requested changes.

use crate::caller::Caller;
use api::Desired;
use daemon::Explanation;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file.
const FILE: &str = "audit.jsonl";
/// Length of a file from which on the next line begins a new one. Unit: bytes.
const LENGTH_MOST: u64 = 16 << 20;
/// Number of earlier files that are kept: `audit.1.jsonl` is the latest of them.
const EARLIER_MOST: usize = 9;

/// The log of all requested changes: a line of JSON for each, also for those that were refused.
#[derive(Debug)]
pub(crate) struct Audit {
    directory: PathBuf,
    file: File,
    /// Length of the file. Unit: bytes.
    length: u64,
    /// Whether the last line may be incomplete.
    is_torn: bool,
    /// Whether lines may not be on disk yet.
    is_dirty: bool,
}

/// A requested change.
#[derive(Serialize)]
struct Line<'l> {
    /// Time in UTC.
    at: String,
    by: String,
    vm: &'l str,
    /// Reason that the client has given.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'l str>,
    from: &'l Desired,
    to: &'l Desired,
    /// The reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'l str>,
}

/// A request in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) by: &'e Caller,
    pub(crate) vm: &'e str,
    pub(crate) why: Option<&'e str>,
    pub(crate) from: &'e Desired,
    pub(crate) to: &'e Desired,
}

impl Audit {
    /// Opens the log in `directory`, which exists.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(directory: &Path) -> Result<Audit, Explanation> {
        let path = directory.join(FILE);
        let opened = open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| {
            Explanation::new(format!("cannot write {}: {error}", path.display()), "use --state with another directory")
        })?;
        // A crash may have torn the last line.
        Ok(Audit { directory: directory.to_path_buf(), file, length, is_torn: length > 0, is_dirty: false })
    }

    /// Adds a request, and the reason if it was refused. [`Audit::sync`] brings the line to the disk, so that a client with
    /// many refused requests does not make others wait for the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&mut self, entry: Entry<'_>, refused: Option<&str>) -> io::Result<()> {
        let Entry { by, vm, why, from, to } = entry;
        let at = jiff::Timestamp::now().to_string();
        let mut line = serde_json::to_vec(&Line { at, by: by.to_string(), vm, why, from, to, refused })?;
        line.push(b'\n');
        if self.length >= LENGTH_MOST {
            self.begin_file()?;
        }
        if self.is_torn {
            line.insert(0, b'\n');
        }
        self.is_torn = true;
        self.file.write_all(&line)?;
        self.length += line.len() as u64;
        (self.is_torn, self.is_dirty) = (false, true);
        Ok(())
    }

    /// Begins a new file. The present one becomes the latest of the earlier files, and the oldest of these is removed.
    fn begin_file(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let earlier = |nth: usize| self.directory.join(format!("audit.{nth}.jsonl"));
        for nth in (1..EARLIER_MOST).rev() {
            match std::fs::rename(earlier(nth), earlier(nth + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let path = self.directory.join(FILE);
        std::fs::rename(&path, earlier(1))?;
        self.file = open(&path)?;
        (self.length, self.is_torn, self.is_dirty) = (0, false, false);
        Ok(())
    }

    /// Waits until all lines are on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_dirty) { self.file.sync_data() } else { Ok(()) }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_caller_the_change_and_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(place.path()).unwrap();
        let (from, to) = (Desired::default(), Desired { weight: Some(50), ..Desired::default() });
        let by = &Caller::Local(1000);
        audit.add(Entry { by, vm: "vm1", why: Some("a batch VM"), from: &from, to: &to }, None).unwrap();
        audit.add(Entry { by, vm: "vm1", why: None, from: &to, to: &from }, Some("no room")).unwrap();
        let text = std::fs::read_to_string(place.path().join(FILE)).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty());
        let lines: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["by"], &lines[0]["why"]), (&"uid:1000".into(), &"a batch VM".into()));
        assert_eq!((&lines[0]["to"]["weight"], &lines[1]["from"]["weight"]), (&50.into(), &50.into()));
        assert_eq!((&lines[0]["refused"], &lines[1]["refused"]), (&serde_json::Value::Null, &"no room".into()));
        assert!(lines[0]["at"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn a_long_file_is_followed_by_a_new_one_and_the_oldest_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let desired = Desired::default();
        let by = &Caller::Local(1000);
        let add = |audit: &mut Audit, vm: &str| {
            audit.add(Entry { by, vm, why: None, from: &desired, to: &desired }, None).unwrap();
        };
        let mut audit = Audit::open(place.path()).unwrap();
        for nth in 0..=EARLIER_MOST + 1 {
            add(&mut audit, &format!("vm{nth}"));
            // As if the file had grown.
            audit.length = LENGTH_MOST;
        }
        let lines = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        assert!(lines(FILE).contains("\"vm10\"") && lines(FILE).lines().count() == 1, "{}", lines(FILE));
        assert!(lines("audit.1.jsonl").contains("\"vm9\"") && lines("audit.9.jsonl").contains("\"vm1\""));
        assert!(!path("audit.10.jsonl").exists());
        // A file that cannot be renamed stays, and the line is refused.
        std::fs::remove_file(path("audit.9.jsonl")).unwrap();
        std::fs::create_dir_all(path("audit.9.jsonl/x")).unwrap();
        assert!(audit.add(Entry { by, vm: "vm", why: None, from: &desired, to: &desired }, None).is_err());
        assert!(lines(FILE).contains("\"vm10\""));
    }
}
