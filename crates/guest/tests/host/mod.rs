//! [`Host`]: the host's end of a port, which is a terminal of the kernel in place of a virtio-serial port.

// Each program uses a part.
#![allow(dead_code)]

use coordination::wire::{FromGuest, FromHost, Hint};
use coordination::{Protocol, Stream};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use sched::Nanos;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use sys::clock;

/// Maximum time to wait for a message.
pub(crate) const WAIT: Nanos = Nanos::s(20);

/// The host's end of a port.
pub(crate) struct Host {
    pub(crate) end: File,
    stream: Stream,
    unread: Vec<FromGuest>,
}

impl Host {
    /// Creates a port, which the agent finds at `path`.
    pub(crate) fn attach(path: &Path) -> Host {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let mut mode = tcgetattr(&end).unwrap();
        mode.make_raw();
        tcsetattr(&end, OptionalActions::Now, &mode).unwrap();
        fcntl_setfl(&end, OFlags::NONBLOCK).unwrap();
        let name = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        let _ = std::fs::remove_file(path);
        std::os::unix::fs::symlink(name, path).unwrap();
        Host { end: File::from(end), stream: Stream::default(), unread: Vec::new() }
    }

    pub(crate) fn say(&mut self, message: FromHost) {
        self.end.write_all(&message.bytes()).unwrap();
    }

    pub(crate) fn welcome(&mut self) {
        let (budget, window) = (Nanos::ms(30), Nanos::ms(100));
        self.say(FromHost::Welcome { version: 1, protocol: Protocol::S0, budget, window });
    }

    /// Waits for a message that `found` accepts.
    pub(crate) fn hear<T>(&mut self, mut found: impl FnMut(FromGuest) -> Option<T>) -> T {
        let end = clock::now() + WAIT;
        loop {
            if !self.unread.is_empty() {
                match found(self.unread.remove(0)) {
                    Some(it) => return it,
                    None => continue,
                }
            }
            assert!(clock::now() < end, "the agent does not say it");
            let mut piece = [0; 4096];
            match self.end.read(&mut piece) {
                Ok(length) => {
                    let unread = &mut self.unread;
                    self.stream.read(&piece[..length], FromGuest::read, |message| unread.push(message));
                }
                // A terminal that no process has opened gives an error, too.
                Err(_) => clock::sleep(Nanos::ms(1)),
            }
        }
    }

    /// Returns all messages of this time, and sleeps for `pause` between reads.
    pub(crate) fn read_for(&mut self, length: Nanos, pause: Nanos) -> Vec<FromGuest> {
        let end = clock::now() + length;
        let mut all = std::mem::take(&mut self.unread);
        while clock::now() < end {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = self.end.read(&mut piece) {
                self.stream.read(&piece[..length], FromGuest::read, |message| all.push(message));
            }
            clock::sleep(pause);
        }
        all
    }

    pub(crate) fn hear_hello(&mut self) -> u16 {
        self.hear(|message| match message {
            FromGuest::Hello { vcpus, versions: (1, 1), .. } => Some(vcpus),
            _ => None,
        })
    }

    pub(crate) fn hear_hint(&mut self, found: impl Fn(&Hint) -> bool) -> Hint {
        self.hear(|message| match message {
            FromGuest::Hint(hint) if found(&hint) => Some(hint),
            _ => None,
        })
    }
}
