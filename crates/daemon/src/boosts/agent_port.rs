//! [`AgentPort`]: the host's end of the port of a VM, at which its agent says hello and sends its messages.

use coordination::wire::{self, FromGuest, FromHost, Refusal, VERSION};
use coordination::{Coordination, Stream};
use sched::{Instant, Nanos};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use sys::{Error, Result, clock};

/// Maximum number of bytes that are read at once, the pause after a read of so many, and that after any other read: a guest that floods its
/// port takes no more of the host.
const READ_MOST: usize = 64 * wire::SIZE;
const FLOODED: Nanos = Nanos::ms(5);
const READ_APART: Nanos = Nanos::us(200);

/// The host's end of a port. It answers hellos, and never waits for the guest.
#[derive(Debug)]
pub struct AgentPort {
    socket: UnixStream,
    stream: Stream,
    with: Coordination,
    vcpus: usize,
    is_welcome: bool,
    /// Least latency of the wake-ups that the agent is asked for.
    watched: Option<Nanos>,
    resumes: Instant,
}

impl AsFd for AgentPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AgentPort {
    /// The port of a VM with `vcpus` vCPUs. The agent learns the protocol, the budget and the window of `with`.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UnixStream, vcpus: usize, with: Coordination) -> Result<AgentPort> {
        socket.set_nonblocking(true).map_err(|source| Error::Call { what: "read a port".to_string(), source })?;
        let stream = Stream::default();
        Ok(AgentPort { socket, stream, with, vcpus, is_welcome: false, watched: None, resumes: Instant::ZERO })
    }

    /// Whether an agent is welcome now.
    #[must_use]
    pub fn is_welcome(&self) -> bool {
        self.is_welcome
    }

    /// Returns the instant from which the port is read again.
    #[must_use]
    pub fn resumes(&self) -> Instant {
        self.resumes
    }

    /// Returns the number of bytes that were no message.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.stream.skipped
    }

    /// Asks the agent for the wake-ups of urgent tasks whose latency is at least `least`, now and after each hello; `None`: for none.
    pub fn watch(&mut self, least: Option<Nanos>) {
        let is_new = std::mem::replace(&mut self.watched, least) != least;
        if self.is_welcome && is_new {
            self.say(FromHost::Watch(least));
        }
    }

    /// Reads messages, and passes those of a welcome agent to `each`, with the instant of their receipt. A hello and a goodbye make all earlier
    /// hints void. Returns false if the VM has closed the port.
    pub fn read(&mut self, mut each: impl FnMut(FromGuest, Instant)) -> bool {
        let mut bytes = [0; READ_MOST];
        let length = match self.socket.read(&mut bytes) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let now = clock::now();
        self.resumes = now.saturating_add(if length == READ_MOST { FLOODED } else { READ_APART });
        let mut messages = Vec::new();
        self.stream.read(&bytes[..length], FromGuest::read, |message| messages.push(message));
        for message in messages {
            match message {
                FromGuest::Hello { vcpus, versions, .. } => self.answer(vcpus, versions),
                FromGuest::Goodbye => self.is_welcome = false,
                FromGuest::Hint(_) | FromGuest::Woken(_) if !self.is_welcome => continue,
                FromGuest::Hint(_) | FromGuest::Woken(_) => {}
            }
            each(message, now);
        }
        true
    }

    /// Answers a hello.
    fn answer(&mut self, vcpus: u16, (oldest, newest): (u8, u8)) {
        let answer = if !(oldest..=newest).contains(&VERSION) {
            FromHost::Refused(Refusal::Version)
        } else if usize::from(vcpus) != self.vcpus {
            FromHost::Refused(Refusal::Vcpus)
        } else {
            let Coordination { protocol, budget, window, .. } = self.with;
            FromHost::Welcome { version: VERSION, protocol, budget, window }
        };
        self.is_welcome = matches!(answer, FromHost::Welcome { .. });
        self.say(answer);
        if self.is_welcome && self.watched.is_some() {
            self.say(FromHost::Watch(self.watched));
        }
    }

    /// The host never waits for a guest: an agent that misses an answer says hello again.
    fn say(&mut self, message: FromHost) {
        let _: std::io::Result<usize> = self.socket.write(&message.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordination::{Protocol, TaskName, WakeUp};

    fn heard(end: &mut UnixStream) -> Vec<FromHost> {
        let (mut bytes, mut stream, mut all) = ([0; 4_096], Stream::default(), Vec::new());
        while let Ok(length @ 1..) = end.read(&mut bytes) {
            stream.read(&bytes[..length], FromHost::read, |message| all.push(message));
        }
        all
    }

    #[test]
    fn an_agent_is_asked_for_wake_ups_after_each_welcome_and_when_the_question_changes() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut port = AgentPort::new(ours, 2, Coordination::new(Protocol::S0)).unwrap();
        let hello = |vcpus| FromGuest::Hello { vcpus, versions: (1, 1), boot: 7 };
        let (name, at) = (TaskName::new(b"task"), Instant::at_ns(5));
        let woken =
            FromGuest::Woken(WakeUp { slept_on: 0, vcpu: 1, tid: 9, name, source: None, due: at, woken: at, ran: at });
        let mut messages = |port: &mut AgentPort, said: &[FromGuest]| {
            said.iter().for_each(|message| theirs.write_all(&message.bytes()).unwrap());
            let mut read = Vec::new();
            assert!(port.read(|message, _| read.push(message)));
            (read, heard(&mut theirs))
        };
        port.watch(Some(Nanos::ms(1)));
        let (read, answers) = messages(&mut port, &[woken, hello(3)]);
        assert_eq!((read, answers), (vec![hello(3)], vec![FromHost::Refused(Refusal::Vcpus)]));
        let (read, answers) = messages(&mut port, &[hello(2), woken]);
        assert_eq!(read, [hello(2), woken]);
        let watch = |least| FromHost::Watch(least);
        assert!(matches!(answers[..], [FromHost::Welcome { .. }, asked] if asked == watch(Some(Nanos::ms(1)))));
        port.watch(Some(Nanos::ms(1)));
        port.watch(None);
        let (_, answers) = messages(&mut port, &[FromGuest::Goodbye, hello(2)]);
        assert!(matches!(answers[..], [ended, FromHost::Welcome { .. }] if ended == watch(None)), "{answers:?}");
        drop(theirs);
        assert!(!port.read(|message, _| panic!("{message:?}")));
    }
}
