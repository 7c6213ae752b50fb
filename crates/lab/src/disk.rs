//! [`Disk`]: the files of this machine, for scenarios and task sets that name them.

use input::files::{Files, Unreadable};
use input::problem::Problems;
use input::text::{FILE_BYTES_MAX, unreadable};
use scenario::Scenario;
use scenario::taskset::{self, Task};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The files of this machine. Files that a scenario names are read only if they are regular files, because reading a
/// device or a pipe may never end.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        let path = Path::new(name);
        match std::fs::metadata(path) {
            Ok(about) if about.is_file() => begin(path).map_err(|why| Unreadable::Denied(why.to_string())),
            Ok(_) => Err(Unreadable::NotAFile),
            Err(why) => Err(Unreadable::Missing(why.to_string())),
        }
    }
}

/// Reads the file at `path`, but at most one byte more than [`FILE_BYTES_MAX`].
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the file at `path`, which may be a pipe, but at most one byte more than [`FILE_BYTES_MAX`].
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Problems> {
    begin(path).map_err(|why| unreadable(&path.to_string_lossy(), &Unreadable::Denied(why.to_string())).into())
}

/// Reads the scenario in the file at `path`, with all files that the scenario names.
///
/// # Errors
/// The file cannot be read, or [`Scenario::with_files`] reports an error.
pub fn scenario(path: &Path) -> Result<Scenario, Problems> {
    Scenario::with_files(&path.display().to_string(), read(path)?, Arc::new(Disk))
}

/// Reads the task set in the file at `path`.
///
/// # Errors
/// The file cannot be read, or [`taskset::from_bytes`] reports an error.
pub fn tasks(path: &Path) -> Result<Vec<Task>, Problems> {
    taskset::from_bytes(&path.display().to_string(), read(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_a_file_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'\n'; FILE_BYTES_MAX + 1]).unwrap();
        for said in [scenario(file.path()).unwrap_err(), tasks(file.path()).unwrap_err()] {
            assert!(said.to_string().ends_with("is too large; use a file of at most 8 MiB"), "{said}");
        }
        let endless = scenario("/dev/zero".as_ref()).unwrap_err().to_string();
        assert!(endless.contains("too large"), "{endless}");
    }

    #[test]
    fn a_missing_file_is_a_problem_like_any_other() {
        let said = tasks(Path::new("/nowhere/at/all.csv")).unwrap_err().to_string();
        assert!(said.starts_with("`/nowhere/at/all.csv` cannot be read: "), "{said}");
    }

    #[test]
    fn a_scenario_names_files_and_neither_devices_nor_directories() {
        let folder = tempfile::tempdir().unwrap();
        let text = |loads: &str| {
            format!(
                "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"cfs\"\n[[task]]\nname = \"it\"\n\
                 workload.load_playback = {{ loads = \"{loads}\" }}\n"
            )
        };
        let path = folder.path().join("x.toml");
        std::fs::write(folder.path().join("load.txt"), "0.5\n").unwrap();
        std::fs::write(&path, text("load.txt")).unwrap();
        assert_eq!(scenario(&path).unwrap_or_else(|why| panic!("{why}")).applications.len(), 1);
        for named in ["/dev/zero", ".", "gone.txt"] {
            std::fs::write(&path, text(named)).unwrap();
            let said = scenario(&path).expect_err("it is no file").to_string();
            assert!(said.contains("there is no such file"), "{said}");
        }
    }
}
