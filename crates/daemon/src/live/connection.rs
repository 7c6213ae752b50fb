//! [`Connection`]: a stream of messages between the core and its front end.
//!
//! Both processes first send a greeting with the version of the messages. A message is its length (32 bits,
//! little-endian) and its content in the format of postcard.

use crate::Explanation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Version of the messages. A process refuses to talk to a process with another version.
pub const VERSION: u32 = 8;
const MAGIC: [u8; 8] = *b"TACTUSMS";
/// Interval at which a process that waits for the other process checks whether to go on.
const CHECK: Duration = Duration::from_millis(100);
/// Maximum number of bytes for which memory is allocated at once. A damaged length therefore requests little memory.
const PART: usize = 1 << 16;

/// One end of a stream of messages.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
}

/// A received message.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Received<T> {
    /// A message.
    Message(T),
    /// Content that is no message. The stream continues with the next message.
    Malformed(Explanation),
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(CHECK))?;
        stream.set_write_timeout(Some(CHECK))?;
        Ok(Connection { stream })
    }

    /// Sends and receives a greeting. While the other process does not respond, calls `goes_on`, and fails once
    /// `goes_on` returns false.
    ///
    /// # Errors
    /// The stream is closed, or the other process does not speak this version of the messages.
    pub(super) fn greet(&mut self, version: u32, mut goes_on: impl FnMut() -> bool) -> Result<(), Explanation> {
        let failed = |error: io::Error| Explanation::new(format!("cannot talk to a process of Tactus: {error}"), "");
        let sent = [&MAGIC[..], &version.to_le_bytes()].concat();
        self.write(&sent, &mut goes_on).map_err(failed)?;
        let mut greeting = [0; MAGIC.len() + 4];
        self.read(&mut greeting, &mut goes_on).map_err(failed)?;
        let (magic, found) = greeting.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Explanation::new("the other process is no process of Tactus", "start it with `tactus run`"));
        }
        if found != version.to_le_bytes() {
            let found = found.iter().rev().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
            let why = format!("the other process sends messages of version {found}, and this program of {version}");
            return Err(Explanation::new(why, "use programs of the same version"));
        }
        Ok(())
    }

    /// Sends a message. While the other process does not read, calls `goes_on`, and fails once `goes_on` returns false.
    ///
    /// # Errors
    /// The stream is closed, or `goes_on` has returned false.
    pub(super) fn send(&mut self, message: &impl Serialize, goes_on: impl FnMut() -> bool) -> io::Result<()> {
        let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.write(&bytes, goes_on)
    }

    /// Receives a message of at most `most` bytes. While the other process does not write, calls `goes_on`, and fails
    /// once `goes_on` returns false.
    ///
    /// # Errors
    /// The stream is closed, `goes_on` has returned false, or the message is too long. The stream cannot be used after
    /// an error.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        most: usize,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<Received<T>> {
        let mut length = [0; 4];
        self.read(&mut length, &mut goes_on)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > most {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes is too long")));
        }
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let begin = bytes.len();
            bytes.resize(length.min(begin + PART), 0);
            self.read(&mut bytes[begin..], &mut goes_on)?;
        }
        Ok(match decode(&bytes) {
            Ok(message) => Received::Message(message),
            Err(reason) => Received::Malformed(reason),
        })
    }

    fn write(&mut self, mut bytes: &[u8], mut goes_on: impl FnMut() -> bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => check(error, &mut goes_on)?,
            }
        }
        Ok(())
    }

    fn read(&mut self, mut into: &mut [u8], mut goes_on: impl FnMut() -> bool) -> io::Result<()> {
        while !into.is_empty() {
            match self.stream.read(into) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => into = &mut into[count..],
                Err(error) => check(error, &mut goes_on)?,
            }
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns `error` unless the call can be repeated: after a signal, or after a timeout if `goes_on` returns true.
fn check(error: io::Error, goes_on: &mut impl FnMut() -> bool) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut if goes_on() => Ok(()),
        _ => Err(error),
    }
}

/// Decodes the content of a message.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Explanation> {
    let malformed =
        |why: &str| Explanation::new(format!("malformed message: {why}"), "use programs of the same version");
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(malformed(&format!("{} bytes too many", rest.len()))),
        Err(error) => Err(malformed(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Command, Message, Opening};
    use super::*;

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Connection::new(ours).unwrap(), theirs)
    }

    #[test]
    fn messages_arrive_in_order_and_a_malformed_one_does_not_end_the_stream() {
        let (mut ours, theirs) = pair();
        let mut theirs = Connection::new(theirs).unwrap();
        theirs.send(&Command::EndShare { pid: 7 }, || false).unwrap();
        theirs.write(&[2, 0, 0, 0, 200, 1], || false).unwrap();
        // A complete message with one byte too many.
        let [command] = postcard::to_stdvec(&Command::ReadNews).unwrap()[..] else { panic!("it has one byte") };
        theirs.write(&[2, 0, 0, 0, command, 0], || false).unwrap();
        theirs.send(&Command::End, || false).unwrap();
        drop(theirs);
        let mut next = || ours.receive::<Command>(100, || false);
        assert_eq!(next().unwrap(), Received::Message(Command::EndShare { pid: 7 }));
        assert!(matches!(next().unwrap(), Received::Malformed(_)));
        let Received::Malformed(reason) = next().unwrap() else { panic!("the last byte is ignored") };
        assert_eq!(reason.reason, "malformed message: 1 bytes too many");
        assert_eq!(next().unwrap(), Received::Message(Command::End));
        assert_eq!(next().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_length_above_the_limit_is_an_error_before_memory_is_allocated() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(ours.receive::<Command>(100, || false).unwrap_err().kind(), ErrorKind::InvalidData);
        // A length within the limit, without its content.
        let most = 1_usize << 30;
        theirs.write_all(&u32::try_from(most).unwrap().to_le_bytes()).unwrap();
        drop(theirs);
        let allocated = allocation_counter::measure(|| {
            assert_eq!(ours.receive::<Command>(most, || false).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
        assert!(allocated.bytes_max < 1 << 20, "{allocated:?}");
    }

    #[test]
    fn a_process_that_does_not_read_or_write_is_awaited_only_as_long_as_wanted() {
        let (mut ours, _theirs) = pair();
        let mut checks = 0;
        let mut goes_on = || {
            checks += 1;
            checks < 3
        };
        assert!(ours.receive::<Command>(100, &mut goes_on).is_err());
        // The stream is full at some time.
        while ours.send(&Command::ReadJournal, &mut goes_on).is_ok() {}
        assert_eq!(checks, 4);
    }

    #[test]
    fn a_process_with_another_version_is_refused_by_both() {
        let (mut ours, theirs) = pair();
        let other = std::thread::spawn(move || Connection::new(theirs).unwrap().greet(VERSION + 1, || true));
        let reason = ours.greet(VERSION, || true).unwrap_err();
        let said = format!("sends messages of version {}, and this program of {VERSION}", VERSION + 1);
        assert!(reason.reason.ends_with(&said), "{reason}");
        assert_eq!(reason.remedy, "use programs of the same version");
        assert!(other.join().unwrap().is_err());
        let (mut ours, mut theirs) = pair();
        theirs.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert!(ours.greet(VERSION, || true).unwrap_err().reason.contains("no process of Tactus"));
    }

    #[test]
    fn random_bytes_are_refused_without_a_panic_or_much_memory() {
        let seed = 0x7ac7_0015_u64;
        eprintln!("seed {seed:#x}");
        let mut state = seed;
        let mut random = || {
            // xorshift64, of Marsaglia.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let valid = postcard::to_stdvec(&Message::Ended(Ok(()))).unwrap();
        assert!(decode::<Message>(&valid).is_ok());
        let mut refused = 0;
        for _ in 0..100_000 {
            let length = random() % 64;
            // Small numbers are variants and short lengths, so that the decoder gets far.
            let mask = if random().is_multiple_of(2) { 0xff } else { 0x0f };
            let bytes: Vec<u8> = (0..length).map(|_| (random() & mask) as u8).collect();
            let allocated = allocation_counter::measure(|| {
                let all = [
                    decode::<Command>(&bytes).is_err(),
                    decode::<Message>(&bytes).is_err(),
                    decode::<Opening>(&bytes).is_err(),
                ];
                refused += all.into_iter().filter(|is_refused| *is_refused).count();
            });
            assert!(allocated.bytes_max < 4 << 20, "{bytes:?}: {allocated:?}");
        }
        assert!(refused > 200_000, "{refused} of 300000 are refused");
    }
}
