//! Small files of the kernel, read and written whole, with errors that name the file.

use crate::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

/// Capacity with which a file is read. Most files of the kernel are shorter, and then one call reads all of it.
const USUAL: usize = 4096;

const REMEDY: &str = "run as root, outside of containers, on a kernel that is not locked down";

/// Returns the content of the file at `path`.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let text = File::open(path).and_then(whole).and_then(utf8);
    text.map_err(|error| Error::from(error, format!("read {}", path.display()), REMEDY))
}

/// Returns the content of an open file. `take` omits the calls for the size of the file, which is 0 for these files.
fn whole(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL);
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the trimmed content of the file at `path`, parsed.
pub(crate) fn value<T: FromStr>(path: impl AsRef<Path>, wanted: &'static str) -> Result<T> {
    let path = path.as_ref();
    read(path)?.trim().parse().map_err(|_| Error::Malformed { path: path.to_path_buf(), wanted })
}

/// Writes `text` into the file at `path` in one call, as control files require.
pub(crate) fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    let written = File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Error::from(error, format!("write `{text}` to {}", path.display()), REMEDY))
}

/// Opens a directory. Lookups in the open directory always refer to this directory, even if its path later names
/// another directory.
pub(crate) fn directory(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_ref(), flags, Mode::empty())?)
}

/// Opens the file `name` in a directory.
pub(crate) fn open_in(directory: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    Ok(File::from(openat(directory, name, flags | OFlags::CLOEXEC, Mode::empty())?))
}

/// Returns the content of the file `name` in a directory, whatever its encoding.
pub(crate) fn bytes_in(directory: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    open_in(directory, name, OFlags::RDONLY).and_then(whole)
}

/// Returns the content of the file `name` in a directory.
pub(crate) fn read_in(directory: impl AsFd, name: &str) -> io::Result<String> {
    bytes_in(directory, name).and_then(utf8)
}

/// Writes `text` into the file `name` in a directory.
pub(crate) fn write_in(directory: impl AsFd, name: &str, text: &str) -> io::Result<()> {
    open_in(directory, name, OFlags::WRONLY)?.write_all(text.as_bytes())
}

/// Returns the entries of directory `name` whose names are numbers, in ascending order. `name` is relative to
/// `directory`.
pub(crate) fn numbers_in(directory: impl AsFd, name: &str) -> io::Result<Vec<u32>> {
    let opened = openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut numbers = Vec::new();
    for entry in rustix::fs::Dir::new(opened)? {
        numbers.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the names and inode numbers of the subdirectories in ascending order, without names that start with a
/// period.
pub(crate) fn directories_in(directory: impl AsFd) -> io::Result<Vec<(String, u64)>> {
    let opened = openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type() == rustix::fs::FileType::Directory && !name.starts_with('.') {
            names.push((name, entry.ino()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_and_what_the_kernel_said() {
        let gone = read("/proc/no-such-file").unwrap_err().to_string();
        assert_eq!(gone, "cannot read /proc/no-such-file: No such file or directory (os error 2)");
        let odd = value::<u32>("/proc/version", "a number").unwrap_err().to_string();
        assert_eq!(odd, "/proc/version is not a number");
        let refused = write("/proc/version", "x").unwrap_err();
        assert!(refused.to_string().starts_with("cannot write `x` to /proc/version: "), "{refused}");
        assert!(refused.errno().is_some());
    }

    #[test]
    fn a_directory_is_held_and_read() {
        let me = directory("/proc/self").unwrap();
        assert!(read_in(&me, "stat").unwrap().starts_with(&std::process::id().to_string()));
        assert!(numbers_in(&me, "task").unwrap().contains(&std::process::id()));
        assert_eq!(read_in(&me, "no-such-file").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
