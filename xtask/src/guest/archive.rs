//! The initial file system of a guest kernel: a cpio archive of programs with their shared libraries.

use crate::component::works;
use anyhow::{Context, Result, bail};
use cpio::NewcBuilder;
use cpio::newc::{self, ModeFileType};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An archive that is being written. All its files belong to root.
pub(crate) struct Archive {
    to: Option<BufWriter<File>>,
    /// Temporary file for a stripped program.
    scratch: PathBuf,
    /// Files and folders that the archive already contains.
    there: BTreeSet<PathBuf>,
    /// Number of entries. Each entry has its own inode number, because the kernel treats entries with equal numbers as
    /// one file.
    entries: u32,
}

impl Archive {
    /// Creates an archive in the file `archive` of `folder`.
    pub(crate) fn begin(folder: &Path) -> Result<Archive> {
        let path = folder.join("archive");
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let scratch = folder.join("stripped");
        let there = BTreeSet::from([PathBuf::from("/")]);
        let mut archive = Archive { to: Some(BufWriter::new(file)), scratch, there, entries: 0 };
        // The console is the standard output of the first program. A Rust program does not start without standard
        // output.
        archive.folder(Path::new("/dev"))?;
        let console = NewcBuilder::new("dev/console").mode(0o600).rdev_major(5).rdev_minor(1);
        archive.entry(console.set_mode_file_type(ModeFileType::Char), &[])?;
        Ok(archive)
    }

    /// Adds the program in the file `from` as `to`, without debug information, and the libraries that the program
    /// needs.
    pub(crate) fn program(&mut self, from: &Path, to: &str) -> Result<()> {
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&self.scratch).arg(from);
        let bytes = fs::read(if works(&mut strip) { &self.scratch } else { from });
        self.file(to, 0o755, &bytes.with_context(|| format!("cannot read {}", from.display()))?)?;
        for library in libraries(from)? {
            if !self.there.contains(&library) {
                let bytes = fs::read(&library).with_context(|| format!("cannot read {}", library.display()))?;
                self.file(&library.to_string_lossy(), 0o755, &bytes)?;
            }
        }
        Ok(())
    }

    /// Adds a file and its parent folders.
    pub(crate) fn file(&mut self, to: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let path = Path::new(to);
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        self.there.insert(path.to_path_buf());
        let entry = NewcBuilder::new(to.trim_start_matches('/')).mode(mode);
        self.entry(entry.set_mode_file_type(ModeFileType::Regular), bytes)
    }

    /// Adds the file `from` as `to`, or the files of the directory `from`, and those of its directories, below `to`.
    pub(crate) fn tree(&mut self, from: &Path, to: &str) -> Result<()> {
        let unreadable = || format!("cannot read {}", from.display());
        if !from.is_dir() {
            return self.file(to, 0o644, &fs::read(from).with_context(unreadable)?);
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(from).with_context(unreadable)? {
            names.push(entry.with_context(unreadable)?.file_name());
        }
        names.sort();
        names.iter().try_for_each(|name| self.tree(&from.join(name), &format!("{to}/{}", name.to_string_lossy())))
    }

    fn folder(&mut self, path: &Path) -> Result<()> {
        if !self.there.insert(path.to_path_buf()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        let name = path.to_string_lossy();
        let entry = NewcBuilder::new(name.trim_start_matches('/')).mode(0o755).nlink(2);
        self.entry(entry.set_mode_file_type(ModeFileType::Directory), &[])
    }

    fn entry(&mut self, entry: NewcBuilder, bytes: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(bytes.len()).context("a file of a guest has at most 4 GiB")?;
        let to = self.to.take().context("an archive that could not be written is not written further")?;
        let mut writer = entry.ino(self.entries).write(to, size);
        writer.write_all(bytes)?;
        self.to = Some(writer.finish()?);
        Ok(())
    }

    /// Completes the archive.
    pub(crate) fn end(self) -> Result<()> {
        let to = self.to.context("an archive that could not be written is not ended")?;
        newc::trailer(to)?.flush()?;
        // The file does not exist if no program was stripped.
        let _ = fs::remove_file(&self.scratch);
        Ok(())
    }
}

/// Returns the shared libraries of a program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Ignore the exit status, because ldd fails for a program without shared libraries.
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{} does not run here: {}", program.display(), line.trim());
    }
    Ok(paths(&text))
}

fn paths(text: &str) -> Vec<PathBuf> {
    let words = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.filter(|word| !word.ends_with(':')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn libraries_are_read_from_what_ldd_says() {
        let text = "\tlinux-vdso.so.1 (0x0)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x1)\n\t/lib64/ld.so.2 (0x2)\n";
        assert_eq!(paths(text), [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so.2")]);
        assert!(paths("\tstatically linked\n").is_empty());
    }

    #[test]
    fn an_archive_holds_each_folder_once_before_what_is_in_it_and_programs_with_their_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::begin(folder.path()).unwrap();
        archive.file("/a/b/one", 0o644, b"1").unwrap();
        archive.file("/a/b/two", 0o644, b"22").unwrap();
        let me = std::env::current_exe().unwrap();
        archive.program(&me, "/bin/me").unwrap();
        archive.end().unwrap();
        let mut file = File::open(folder.path().join("archive")).unwrap();
        let mut names = Vec::new();
        loop {
            let mut reader = cpio::NewcReader::new(file).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_string());
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            if names.last().unwrap() == "a/b/two" {
                assert_eq!(bytes, b"22");
            }
            file = reader.finish().unwrap();
        }
        assert_eq!(names[..7], ["dev", "dev/console", "a", "a/b", "a/b/one", "a/b/two", "bin"]);
        assert!(names.iter().any(|name| name.contains("libc.so")), "{names:?}");
    }
}
