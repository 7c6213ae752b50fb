//! The process at the other end of a Unix socket.

use crate::{Error, Result};
use rustix::net::sockopt::socket_peercred;
use std::os::fd::AsFd;

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
pub fn of(socket: impl AsFd) -> Result<Peer> {
    let found = socket_peercred(socket)
        .map_err(|errno| Error::from(errno, "identify the other end of a socket", "use a connected Unix socket"))?;
    let pid = u32::try_from(found.pid.as_raw_nonzero().get()).expect("a pid is positive");
    Ok(Peer { pid, user: found.uid.as_raw(), group: found.gid.as_raw() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = of(&ours).unwrap();
        assert_eq!((peer.pid, peer.user), (std::process::id(), crate::privileges::user()));
        assert!(of(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
