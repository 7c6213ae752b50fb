//! [`Stream`]: finds messages in the bytes of a virtio-serial port.

use crate::wire::{MAGIC, Malformed, SIZE};

/// Reads messages from pieces of bytes. After an agent that ended within a message, and after bytes that are no message, the
/// stream goes on at the next [`MAGIC`]. A message with [`MAGIC`] in its fields is dropped: it would be part of a message,
/// completed by the next one.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The bytes of a message so far.
    partial: [u8; SIZE],
    length: usize,
    /// Number of bytes that belong to no message.
    pub skipped: u64,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream { partial: [0; SIZE], length: 0, skipped: 0 }
    }
}

impl Stream {
    /// Reads the next piece of bytes. Calls `receive` with each message that `read` accepts, in order.
    pub fn read<T>(
        &mut self,
        mut piece: &[u8],
        read: impl Fn(&[u8; SIZE]) -> Result<T, Malformed>,
        mut receive: impl FnMut(T),
    ) {
        loop {
            let taken = piece.len().min(SIZE - self.length);
            self.partial[self.length..][..taken].copy_from_slice(&piece[..taken]);
            (self.length, piece) = (self.length + taken, &piece[taken..]);
            if self.length < SIZE {
                return;
            }
            let has_begin_within = self.partial[1..].windows(MAGIC.len()).any(|bytes| bytes == MAGIC);
            match read(&self.partial) {
                Ok(message) if !has_begin_within => {
                    self.length = 0;
                    receive(message);
                }
                _ => self.skip(),
            }
        }
    }

    /// Drops the first byte, and all others before the next possible begin of a message. The last bytes may be the first
    /// ones of [`MAGIC`].
    fn skip(&mut self) {
        let begins = |at: &usize| self.partial[*at..].iter().zip(MAGIC).all(|(&byte, of_magic)| byte == of_magic);
        let next = (1..SIZE).find(begins).unwrap_or(SIZE);
        self.partial.copy_within(next.., 0);
        self.length -= next;
        self.skipped += next as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FromGuest;

    fn hello(vcpus: u16) -> FromGuest {
        FromGuest::Hello { vcpus, versions: (1, 1), boot: 0x0123_4567 }
    }

    /// Returns the messages in `bytes`, which arrive in pieces of this length, and the number of skipped bytes.
    fn messages(bytes: &[u8], piece: usize) -> (Vec<FromGuest>, u64) {
        let (mut stream, mut found) = (Stream::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            stream.read(piece, FromGuest::read, |message| found.push(message));
        }
        (found, stream.skipped)
    }

    #[test]
    fn messages_are_found_in_pieces_of_any_length() {
        let bytes = [hello(1).bytes(), FromGuest::Goodbye.bytes(), hello(2).bytes()].concat();
        for piece in 1..=bytes.len() {
            assert_eq!(messages(&bytes, piece), (vec![hello(1), FromGuest::Goodbye, hello(2)], 0), "{piece}");
        }
    }

    #[test]
    fn the_stream_goes_on_after_every_partial_message() {
        for sent in 1..SIZE {
            let bytes = [&hello(1).bytes()[..sent], &hello(2).bytes(), &hello(3).bytes()].concat();
            let (found, skipped) = messages(&bytes, 7);
            assert_eq!((found, skipped), (vec![hello(2), hello(3)], sent as u64), "{sent} bytes");
        }
    }

    #[test]
    fn other_bytes_are_skipped_and_counted() {
        let wrong = FromGuest::Hello { vcpus: 0, versions: (1, 1), boot: 0 }.bytes();
        let bytes = [b"TcTcHTcHi".as_slice(), &wrong, &hello(4).bytes(), b"TcH"].concat();
        for piece in 1..=bytes.len() {
            let (found, skipped) = messages(&bytes, piece);
            assert_eq!((found, skipped), (vec![hello(4)], 9 + SIZE as u64), "{piece}");
        }
    }
}
