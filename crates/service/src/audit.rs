//! [`Audit`]: the log of all requested changes.

use crate::caller::Caller;
use api::Desired;
use daemon::Explanation;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the file.
const FILE: &str = "audit.jsonl";

/// The log of all requested changes: a line of JSON for each, also for those that were refused.
#[derive(Debug)]
pub(crate) struct Audit {
    file: File,
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
        let opened = OpenOptions::new().create(true).append(true).mode(0o640).open(&path);
        // A line that a crash has torn ends here.
        opened.map(|file| Audit { file, is_torn: true, is_dirty: false }).map_err(|error| {
            Explanation::new(format!("cannot write {}: {error}", path.display()), "use --state with another directory")
        })
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
        if self.is_torn && self.file.metadata()?.len() > 0 {
            line.insert(0, b'\n');
        }
        self.is_torn = true;
        self.file.write_all(&line)?;
        (self.is_torn, self.is_dirty) = (false, true);
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
}
