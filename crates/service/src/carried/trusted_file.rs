//! Files that no other user may write.

use crate::complaint::complain;
use daemon::Explanation;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bits of the mode with which other users may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Returns whether the service trusts the files of `user`: root, and the user of the service.
pub(super) fn is_trusted(user: u32) -> bool {
    user == 0 || user == sys::privileges::user()
}

/// Returns the content of the file at `path`, which has at most `most` bytes.
///
/// # Errors
/// The file cannot be read, is too long, or can be written by another user.
pub(super) fn read(path: &Path, most: u64) -> Result<String, Explanation> {
    let failed = |error: io::Error| Explanation::new(format!("cannot be read: {error}"), "check its permissions");
    // A pipe in the place of the file must not block.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Explanation::new("is not a file", "remove it"));
    }
    let file = File::open(path).map_err(failed)?;
    let of_file = file.metadata().map_err(failed)?;
    if !is_trusted(of_file.uid()) || of_file.mode() & WRITABLE_BY_OTHERS != 0 {
        let remedy = "use a file of root or of the user of the service, with mode 0644";
        return Err(Explanation::new("can be written by other users", remedy));
    }
    if of_file.len() > most {
        return Err(Explanation::new("is too long", format!("use at most {most} bytes")));
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Returns the entries of a directory, none if it does not exist. Returns `None` after another error: what was read before
/// stays.
pub(super) fn entries(directory: &Path) -> Option<Vec<PathBuf>> {
    let paths = || std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    match paths() {
        Ok(paths) => Some(paths),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Vec::new()),
        Err(error) => {
            complain(&format!("cannot read {}: {error}", directory.display()));
            None
        }
    }
}
