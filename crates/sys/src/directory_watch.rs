//! Changes of the files in a directory, reported by inotify.

use crate::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// Size of the buffer for events. Unit: bytes. It has room for an event with the longest name.
const BUFFER: usize = 4096;

/// A watch of the files in a directory. The directory need not exist yet, and may be replaced.
#[derive(Debug)]
pub struct DirectoryWatch {
    handle: OwnedFd,
    path: PathBuf,
    is_watching: bool,
}

impl DirectoryWatch {
    /// Watches the directory at `path`.
    ///
    /// # Errors
    /// The user has too many instances of inotify.
    pub fn new(path: &Path) -> Result<DirectoryWatch> {
        match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(handle) => Ok(DirectoryWatch { handle, path: path.to_path_buf(), is_watching: false }),
            Err(errno) => Err(Error::from(errno, "watch a directory", "raise fs.inotify.max_user_instances")),
        }
    }

    /// Returns whether a file may have changed since the last call: its content, its owner or its mode. The first call
    /// returns true if the directory exists.
    pub fn has_changed(&mut self) -> bool {
        let has_changed = self.read();
        if self.is_watching {
            return has_changed;
        }
        let files = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let content = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
        let flags = files | content | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        self.is_watching = inotify::add_watch(&self.handle, &self.path, flags).is_ok();
        // Files may have changed before the watch.
        has_changed || self.is_watching
    }

    /// Reads all events.
    fn read(&mut self) -> bool {
        let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&self.handle, &mut buffer);
        let mut has_changed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    has_changed = true;
                    let flags = event.events();
                    if flags.contains(ReadFlags::MOVE_SELF) {
                        // The path may name another directory now.
                        let _ = inotify::remove_watch(&self.handle, event.wd());
                    }
                    self.is_watching &= !flags.intersects(ReadFlags::MOVE_SELF | ReadFlags::IGNORED);
                }
                Err(Errno::INTR) => {}
                Err(_) => return has_changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn changed_files_are_reported_once_and_a_directory_may_appear_later_and_be_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("watched"), place.path().join("other"));
        let mut watch = DirectoryWatch::new(&path).unwrap();
        assert!(!watch.has_changed(), "there is no directory");
        fs::create_dir(&path).unwrap();
        assert_eq!((watch.has_changed(), watch.has_changed()), (true, false));
        let file = path.join("file");
        fs::write(&file, "1").unwrap();
        assert_eq!((watch.has_changed(), watch.has_changed()), (true, false));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(watch.has_changed());
        fs::rename(&file, place.path().join("elsewhere")).unwrap();
        assert!(watch.has_changed());
        fs::rename(&path, &other).unwrap();
        assert!(watch.has_changed());
        fs::create_dir(&path).unwrap();
        assert!(watch.has_changed());
        fs::write(other.join("file"), "1").unwrap();
        assert!(!watch.has_changed(), "it is another directory now");
        fs::write(path.join("file"), "1").unwrap();
        assert!(watch.has_changed());
        fs::remove_dir_all(&path).unwrap();
        assert!(watch.has_changed());
        fs::create_dir(&path).unwrap();
        assert_eq!((watch.has_changed(), watch.has_changed()), (true, false));
    }
}
