//! [`Entrance`]: the socket through which front ends reach a resident core.

use crate::Explanation;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use sys::{peer, privileges};

/// The socket through which front ends reach a resident core. Only root, the user of the core, and the user of the front
/// end may connect. The file is removed with the value.
#[derive(Debug)]
pub struct Entrance {
    listener: UnixListener,
    path: PathBuf,
    /// Inode of the socket: another core may have replaced it.
    inode: Option<u64>,
    /// User ID of the front end, besides root and the user of the core.
    user: Option<u32>,
}

impl Entrance {
    /// Creates the socket at `path`, which belongs to `user`, the user of the front end; `None`: to this user. Replaces a
    /// socket at which no process listens.
    ///
    /// # Errors
    /// A process listens at `path`, another file has the path, or the socket cannot be created.
    pub fn at(path: &Path, user: Option<u32>) -> Result<Entrance, Explanation> {
        let failed = |error: io::Error| {
            let why = format!("cannot listen at {}: {error}", path.display());
            Explanation::new(why, "use a path in a directory where this process may create files")
        };
        match UnixStream::connect(path) {
            Ok(_) => {
                let why = format!("another process listens at {}", path.display());
                return Err(Explanation::new(why, "end it, or use another path"));
            }
            // A core that was killed has left its socket.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let entrance = Entrance { listener, path: path.to_path_buf(), inode: inode(path), user };
        // A process that connects before these calls is checked by its credentials.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        if user.is_some() {
            chown(path, user, None).map_err(failed)?;
        }
        entrance.listener.set_nonblocking(true).map_err(failed)?;
        Ok(entrance)
    }

    /// Accepts a connection, if one is waiting. A connection of any other user is closed, and counts as none.
    pub(super) fn accept(&self) -> io::Result<Option<UnixStream>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_allowed = |user: u32| user == 0 || user == privileges::user() || Some(user) == self.user;
        Ok(peer::of(&stream).is_ok_and(|peer| is_allowed(peer.user)).then_some(stream))
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|found| found.ino())
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_listener_is_replaced_and_a_living_one_or_a_file_is_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("core.sock");
        drop(UnixListener::bind(&path).unwrap());
        let entrance = Entrance::at(&path, Some(privileges::user())).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(entrance.accept().unwrap().is_none());
        let taken = Entrance::at(&path, None).unwrap_err();
        assert!(taken.reason.contains("another process listens"), "{taken}");
        assert!(entrance.accept().unwrap().is_some(), "the second has tried to connect");
        let _front = UnixStream::connect(&path).unwrap();
        assert!(entrance.accept().unwrap().is_some());
        drop(entrance);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(Entrance::at(&path, None).unwrap_err().reason.contains("cannot listen"));
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }
}
