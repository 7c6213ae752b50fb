//! [`Entrance`]: the socket through which front ends reach a resident core.

use crate::Explanation;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use sys::local_socket::{LocalListener, peer};
use sys::privileges;

/// The socket through which front ends reach a resident core. Only root, the user of the core, and the user of the front
/// end may connect.
#[derive(Debug)]
pub struct Entrance {
    listener: LocalListener,
    /// User ID of the front end, besides root and the user of the core.
    user: Option<u32>,
}

impl Entrance {
    /// Creates the socket at `path`, which belongs to `user`, the user of the front end; `None`: to this user.
    ///
    /// # Errors
    /// The errors of [`LocalListener::at`].
    pub fn at(path: &Path, user: Option<u32>) -> Result<Entrance, Explanation> {
        Ok(Entrance { listener: LocalListener::at(path, 0o600, user)?, user })
    }

    /// Returns the socket that the former program of this process has created.
    ///
    /// # Errors
    /// `socket` is no Unix socket that listens at a path.
    pub(super) fn of_former(socket: OwnedFd, user: Option<u32>) -> Result<Entrance, Explanation> {
        Ok(Entrance { listener: LocalListener::of_former(socket)?, user })
    }

    /// Accepts a connection, if one is waiting. A connection of any other user is closed, and counts as none. A process that
    /// connects before the socket has its mode is refused here.
    pub(super) fn accept(&self) -> io::Result<Option<UnixStream>> {
        let is_allowed = |user: u32| user == 0 || user == privileges::user() || Some(user) == self.user;
        let stream = self.listener.accept()?;
        Ok(stream.filter(|stream| peer(stream).is_ok_and(|peer| is_allowed(peer.user))))
    }
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
