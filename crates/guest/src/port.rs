//! [`Port`]: the virtio-serial port to the host.

use crate::failure::Failure;
use coordination::Stream;
use coordination::wire::{FromGuest, FromHost, PORT};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory with the ports of this guest, and the directory of their devices.
const PORTS: &str = "/sys/class/virtio-ports";
const DEVICES: &str = "/dev";

/// An open port.
pub(crate) struct Port {
    file: File,
    stream: Stream,
    /// The rest of a message that the port has taken in part.
    unwritten: Vec<u8>,
    /// Whether the host has removed the device of this port.
    pub(crate) is_gone: bool,
    /// Number of hints that were not sent because the port was full.
    pub(crate) dropped: u64,
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the path of the port with the name [`PORT`], if the host has attached it.
pub(crate) fn find() -> Option<PathBuf> {
    found_in(Path::new(PORTS))
}

fn found_in(ports: &Path) -> Option<PathBuf> {
    let is_ours = |path: &PathBuf| std::fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT);
    let mut entries = std::fs::read_dir(ports).ok()?.flatten().map(|entry| entry.path());
    let port = entries.find(is_ours)?;
    Some(Path::new(DEVICES).join(port.file_name()?))
}

/// Whether the device has been removed.
fn is_gone(error: &io::Error) -> bool {
    [Errno::NODEV, Errno::IO].iter().any(|gone| error.raw_os_error() == Some(gone.raw_os_error()))
}

impl Port {
    /// Opens a port.
    ///
    /// # Errors
    /// There is no such port, another process has it, or the file is no device.
    pub(crate) fn open(path: &Path) -> io::Result<Port> {
        // Without the host's end, a write would wait for it.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.file_type().is_char_device() {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{} is no character device", path.display())));
        }
        Ok(Port { file, stream: Stream::default(), unwritten: Vec::new(), is_gone: false, dropped: 0 })
    }

    /// Sends messages. Hints that the port has no room for are dropped: later ones replace them. Returns false if the host has
    /// not opened its end, or takes nothing.
    pub(crate) fn send(&mut self, messages: &[FromGuest]) -> Result<bool, Failure> {
        let has_rest = !self.unwritten.is_empty();
        let rest = self.unwritten.len();
        self.unwritten.extend(messages.iter().flat_map(FromGuest::bytes));
        match self.file.write(&self.unwritten) {
            Ok(length) => {
                self.unwritten.drain(..length);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.unwritten.truncate(rest);
                self.dropped += messages.len() as u64;
                Ok(has_rest)
            }
            Err(error) if is_gone(&error) => {
                self.is_gone = true;
                Ok(false)
            }
            Err(error) => Err(Failure::Io("write to the port", error)),
        }
    }

    /// Passes the messages that have come to `receive`. Returns false if the host has closed its end.
    pub(crate) fn receive(&mut self, mut receive: impl FnMut(FromHost)) -> Result<bool, Failure> {
        let mut piece = [0; 1_024];
        loop {
            match self.file.read(&mut piece) {
                Ok(0) => return Ok(false),
                Err(error) if is_gone(&error) => {
                    self.is_gone = true;
                    return Ok(false);
                }
                Ok(length) => self.stream.read(&piece[..length], FromHost::read, &mut receive),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(Failure::Io("read from the port", error)),
            }
        }
    }

    /// Forgets partial messages: the host has another end now.
    pub(crate) fn restart(&mut self) {
        self.stream = Stream::default();
        self.unwritten.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let ports = tempfile::tempdir().unwrap();
        let add = |port: &str, name: &str| {
            std::fs::create_dir(ports.path().join(port)).unwrap();
            std::fs::write(ports.path().join(port).join("name"), name).unwrap();
        };
        add("vport1p1", "org.qemu.guest_agent.0\n");
        assert_eq!(found_in(ports.path()), None);
        add("vport2p3", "tactus.hints\n");
        assert_eq!(found_in(ports.path()), Some(PathBuf::from("/dev/vport2p3")));
        assert_eq!(found_in(Path::new("/nowhere")), None);
    }
}
