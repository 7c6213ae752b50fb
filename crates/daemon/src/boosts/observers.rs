//! [`Observers`]: another process that reads what the agent of a boosted VM says. [`Observed`] is its end.
//!
//! The observer sends the least latency of the wake-ups for which the agent is asked, as a number of nanoseconds in eight bytes, and
//! receives frames of [`FRAME`] bytes: the instant of the receipt of a message, and the message. Numbers are little-endian. The first frame is a hello of
//! the process that boosts.

use coordination::wire::{FromGuest, SIZE, VERSION};
use sched::{Instant, Nanos};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use sys::{clock, local_socket, privileges};

/// Length of a frame. Unit: bytes.
const FRAME: usize = 8 + SIZE;
/// Maximum time until the process that boosts says hello.
const HELLO: Duration = Duration::from_secs(2);
/// Pause after a process that may not observe, or that could not be accepted: any user can connect as often as it likes.
const REFUSED: Nanos = Nanos::ms(100);

/// The observers of a VM, of which one at a time is served.
#[derive(Debug)]
pub(super) struct Observers<'l> {
    listener: &'l UnixListener,
    /// The number of the VM's vCPUs, which the hello has.
    vcpus: u16,
    pub(super) observer: Option<UnixStream>,
    /// Instant from which observers are accepted again.
    resumes: Instant,
    /// Whether the sources of events have changed since the last call of [`has_changed`](Observers::has_changed).
    changed: bool,
}

impl<'l> Observers<'l> {
    /// The observers that connect to `listener`, which does not block from now on.
    pub(super) fn new(listener: &'l UnixListener, vcpus: usize) -> io::Result<Observers<'l>> {
        listener.set_nonblocking(true)?;
        Ok(Observers {
            listener,
            vcpus: u16::try_from(vcpus).unwrap_or(u16::MAX),
            observer: None,
            resumes: Instant::ZERO,
            changed: false,
        })
    }

    /// Returns the socket of the observers; `None`: none is accepted before [`resumes`](Observers::resumes).
    pub(super) fn listener(&self, now: Instant) -> Option<&'l UnixListener> {
        (self.resumes <= now).then_some(self.listener)
    }

    /// Returns the instant from which observers are accepted again; [`Instant::NEVER`]: they are.
    pub(super) fn resumes(&self, now: Instant) -> Instant {
        if self.resumes <= now { Instant::NEVER } else { self.resumes }
    }

    /// Accepts an observer, which replaces the present one. Only root and the user of this process may observe: messages have names of tasks.
    pub(super) fn accept(&mut self) {
        let accepted = self.listener.accept().ok().map(|(socket, _)| socket);
        let accepted = accepted.filter(|socket| is_trusted(socket) && socket.set_nonblocking(true).is_ok());
        self.changed = true;
        match accepted {
            Some(socket) => {
                self.observer = Some(socket);
                self.pass(FromGuest::Hello { vcpus: self.vcpus, versions: (VERSION, VERSION), boot: 0 }, clock::now());
            }
            None => self.resumes = clock::now().saturating_add(REFUSED),
        }
    }

    /// Reads what the observer asks for. `None`: the observer has left.
    pub(super) fn request(&mut self) -> Option<Nanos> {
        let mut bytes = [0; 8];
        match self.observer.as_ref()?.read(&mut bytes) {
            Ok(8) => Some(Nanos::ns(u64::from_le_bytes(bytes))),
            _ => {
                (self.observer, self.changed) = (None, true);
                None
            }
        }
    }

    /// Passes a message to the observer. An observer that does not read in time is dropped.
    pub(super) fn pass(&mut self, message: FromGuest, at: Instant) {
        let Some(mut observer) = self.observer.as_ref() else { return };
        let mut frame = [0; FRAME];
        frame[..8].copy_from_slice(&at.as_ns().to_le_bytes());
        frame[8..].copy_from_slice(&message.bytes());
        if !matches!(observer.write(&frame), Ok(FRAME)) {
            (self.observer, self.changed) = (None, true);
        }
    }

    /// Whether the sources of events have changed since the last call.
    pub(super) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// Whether the process at the other end is of root or of the user of this process.
fn is_trusted(socket: &UnixStream) -> bool {
    local_socket::peer(socket).is_ok_and(|peer| peer.user == 0 || peer.user == privileges::user())
}

/// An observer's end: the messages of the agent of a VM that another process boosts.
#[derive(Debug)]
pub struct Observed {
    socket: UnixStream,
    partial: Vec<u8>,
}

impl Observed {
    /// Observes a VM through `socket`, and asks for the wake-ups of urgent tasks whose latency is at least `least`.
    ///
    /// # Errors
    /// The process at the other end passes nothing on.
    pub fn begin(mut socket: UnixStream, least: Nanos) -> io::Result<Observed> {
        if !is_trusted(&socket) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the other process is of another user"));
        }
        socket.set_read_timeout(Some(HELLO))?;
        socket.write_all(&least.as_ns().to_le_bytes())?;
        let mut hello = [0; FRAME];
        let read = socket.read_exact(&mut hello);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::new(ErrorKind::TimedOut, "it does not answer"),
            _ => error,
        })?;
        socket.set_read_timeout(None)?;
        socket.set_nonblocking(true)?;
        Ok(Observed { socket, partial: Vec::new() })
    }

    /// Returns the descriptor that becomes readable when there is a message.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Reads messages, and passes them to `each`, with the instants of their receipt. Returns false if the other process has ended.
    pub fn read(&mut self, mut each: impl FnMut(FromGuest, Instant)) -> bool {
        let mut bytes = [0; 64 * FRAME];
        match self.socket.read(&mut bytes) {
            Ok(0) => return false,
            Ok(length) => self.partial.extend(&bytes[..length]),
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
        let whole = self.partial.len() / FRAME * FRAME;
        for frame in self.partial[..whole].chunks_exact(FRAME) {
            let (at, message) = frame.split_at(8);
            let at = Instant::at_ns(u64::from_le_bytes(at.try_into().expect("a frame begins with eight bytes")));
            if let Ok(message) = FromGuest::read(message.try_into().expect("a frame has a message")) {
                each(message, at);
            }
        }
        self.partial.drain(..whole);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    #[test]
    fn an_observer_asks_and_hears_until_it_leaves_or_does_not_read() {
        let name = format!("tactus-observers-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let mut observers = Observers::new(&listener, 2).unwrap();
        observers.accept();
        assert!(observers.observer.is_none(), "there is none");
        let client =
            std::thread::spawn(move || Observed::begin(UnixStream::connect_addr(&address).unwrap(), Nanos::ms(3)));
        while observers.observer.is_none() {
            clock::sleep(Nanos::ms(1));
            observers.accept();
        }
        let mut observed = client.join().unwrap().unwrap();
        assert_eq!(observers.request(), Some(Nanos::ms(3)));
        let at = Instant::at_ns(77);
        observers.pass(FromGuest::Goodbye, at);
        let mut heard = Vec::new();
        assert!(observed.read(|message, at| heard.push((message, at))));
        assert_eq!(heard, [(FromGuest::Goodbye, at)]);
        // The observer reads no more: when its socket is full, it is dropped.
        let most = 1_000_000;
        let passed = (0..most).take_while(|_| {
            observers.pass(FromGuest::Goodbye, at);
            observers.observer.is_some()
        });
        assert!((100..most).contains(&passed.count()));
        let mut count = 0;
        while observed.read(|message, _| count += u32::from(message == FromGuest::Goodbye)) {}
        assert!(count >= 100, "what was passed before arrives");
    }
}
