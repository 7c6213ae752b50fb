//! Unix sockets: listening at a path, and the process at the other end.

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_peercred};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, getsockname, sendmsg, socket_with,
};
use sched::Nanos;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A socket that listens at a path, without blocking. The file is removed with the value, unless another process has
/// created or replaced it.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    inode: Option<u64>,
}

impl LocalListener {
    /// Creates the socket at `path`, with this mode and, unless `None`, this owner. Replaces a socket at which no process
    /// listens.
    ///
    /// # Errors
    /// A process listens at `path`, another file has the path, or the socket cannot be created.
    pub fn at(path: &Path, mode: u32, owner: Option<u32>) -> Result<LocalListener> {
        let remedy = "use a path in a directory where this process may create files";
        let failed = |error: io::Error| Error::from(error, format!("listen at {}", path.display()), remedy);
        match UnixStream::connect(path) {
            Ok(_) => {
                let what = format!("the path {}", path.display());
                let why = format!("another process listens at {}", path.display());
                return Err(Error::Absent { what, why, remedy: "end that process, or use another path" });
            }
            // A process that was killed has left its socket.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let socket = LocalListener { listener, path: path.to_path_buf(), inode: inode(path) };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        if owner.is_some() {
            chown(path, owner, None).map_err(failed)?;
        }
        socket.listener.set_nonblocking(true).map_err(failed)?;
        Ok(socket)
    }

    /// Returns the listening socket `socket`, which this process has inherited. Its file stays.
    ///
    /// # Errors
    /// `socket` is no Unix socket that listens at a path.
    pub fn inherited(socket: OwnedFd) -> Result<LocalListener> {
        let path =
            getsockname(&socket).ok().and_then(|address| SocketAddrUnix::try_from(address).ok()).and_then(|unix| {
                let path = unix.path_bytes().filter(|_| socket_acceptconn(&socket) == Ok(true))?;
                Some(PathBuf::from(OsStr::from_bytes(path)))
            });
        let path = path.ok_or_else(|| Error::Absent {
            what: "the inherited socket".to_string(),
            why: "it is no Unix socket that listens at a path".to_string(),
            remedy: "pass a socket like that of ListenStream=/run/tactus.sock (systemd.socket)",
        })?;
        let listener = UnixListener::from(socket);
        let failed = |error: io::Error| Error::from(error, format!("listen at {}", path.display()), "");
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(LocalListener { listener, path, inode: None })
    }

    /// Returns the listening socket `socket`, which an earlier program of this process has created. Its file is removed
    /// with the value.
    ///
    /// # Errors
    /// `socket` is no Unix socket that listens at a path.
    pub fn of_former(socket: OwnedFd) -> Result<LocalListener> {
        let mut listener = LocalListener::inherited(socket)?;
        listener.inode = inode(&listener.path);
        Ok(listener)
    }

    /// Returns the path at which the socket listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts a connection, if one is waiting.
    ///
    /// # Errors
    /// Too many files are open, for example.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns another handle to the socket, for a library that accepts connections itself.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn handle(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl AsFd for LocalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|found| found.ino())
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Connects to the socket at `path`. A process that is stopped accepts no connection, and its queue of connections may be full; the call
/// waits for at most `limit`.
///
/// # Errors
/// Nothing listens at `path`, or the queue has stayed full (`TimedOut`).
pub fn connect_within(path: &Path, limit: Nanos) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let stream = UnixStream::from(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?);
    // The kernel applies the limit of writes to connections, too (unix_stream_connect, net/unix/af_unix.c, Linux 6.18).
    stream.set_write_timeout(Some(Duration::from_nanos(limit.as_ns().max(1_000))))?;
    match connect(&stream, &address) {
        Err(Errno::AGAIN) => Err(io::Error::new(ErrorKind::TimedOut, "the process does not accept connections")),
        connected => Ok(connected?),
    }?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Sends `bytes` through `stream`, with a descriptor of this process for the process at the other end (SCM_RIGHTS, unix(7)).
///
/// # Errors
/// The other end is closed, takes no more bytes now, or takes no descriptor.
pub fn send_with(stream: &UnixStream, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let (mut space, descriptors) = ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))], [descriptor]);
    let mut rights = SendAncillaryBuffer::new(&mut space);
    assert!(rights.push(SendAncillaryMessage::ScmRights(&descriptors)), "the space is for one descriptor");
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut rights, SendFlags::NOSIGNAL)?;
    // The descriptor goes with the first byte.
    (&mut &*stream).write_all(&bytes[sent..])
}

/// Credentials of the process that has opened the other end of a Unix socket, as of that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Pid of the process. The process may have ended, and its pid may have been reused.
    pub pid: u32,
    /// Effective user ID.
    pub user: u32,
    /// Effective group ID.
    pub group: u32,
}

/// Returns the credentials of the process at the other end of `socket` (SO_PEERCRED, `unix(7)`).
///
/// # Errors
/// `socket` is no connected Unix socket.
pub fn peer(socket: impl AsFd) -> Result<Peer> {
    let found = socket_peercred(socket)
        .map_err(|errno| Error::from(errno, "identify the other end of a socket", "use a connected Unix socket"))?;
    let pid = u32::try_from(found.pid.as_raw_nonzero().get()).expect("a pid is positive");
    Ok(Peer { pid, user: found.uid.as_raw(), group: found.gid.as_raw() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_listener_is_replaced_and_a_living_one_or_a_file_is_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("core.sock");
        drop(UnixListener::bind(&path).unwrap());
        let listener = LocalListener::at(&path, 0o600, Some(crate::privileges::user())).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(listener.accept().unwrap().is_none());
        let taken = LocalListener::at(&path, 0o600, None).unwrap_err();
        assert!(taken.to_string().contains("another process listens"), "{taken}");
        assert!(listener.accept().unwrap().is_some(), "the second has tried to connect");
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(LocalListener::at(&path, 0o600, None).unwrap_err().to_string().contains("cannot listen"));
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }

    #[test]
    fn a_connection_to_a_process_that_accepts_none_has_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("monitor.sock");
        assert_eq!(connect_within(&path, Nanos::s(1)).unwrap_err().kind(), ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        // The queue has room for one connection.
        rustix::net::listen(&listener, 0).unwrap();
        let _first = connect_within(&path, Nanos::s(1)).unwrap();
        assert_eq!(connect_within(&path, Nanos::ms(20)).unwrap_err().kind(), ErrorKind::TimedOut);
        listener.accept().unwrap();
        let stream = connect_within(&path, Nanos::ms(20)).unwrap();
        assert_eq!(stream.write_timeout().unwrap(), None);
    }

    #[test]
    fn an_inherited_socket_listens_at_its_path_and_its_file_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("api.sock");
        let listener = LocalListener::inherited(UnixListener::bind(&path).unwrap().into()).unwrap();
        assert_eq!(listener.path(), path);
        assert!(listener.accept().unwrap().is_none(), "it does not block");
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(path.exists());
        let (one, other) = UnixStream::pair().unwrap();
        let inet = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for wrong in [OwnedFd::from(one), other.into(), inet.into(), std::fs::File::open("/dev/null").unwrap().into()] {
            let refused = LocalListener::inherited(wrong).unwrap_err();
            assert!(refused.to_string().contains("no Unix socket that listens"), "{refused}");
        }
    }

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let found = peer(&ours).unwrap();
        assert_eq!((found.pid, found.user), (std::process::id(), crate::privileges::user()));
        assert!(peer(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
