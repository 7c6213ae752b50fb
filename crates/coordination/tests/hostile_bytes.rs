//! Random bytes at both ends of a channel: intact messages, truncated and changed ones, and noise.

mod seeds;

use coordination::wire::{FromGuest, FromHost, Hint, MAGIC, Malformed, SIZE, Sources, VERSION};
use coordination::{GuestChoice, Inbox, Stream};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use sched::Instant;

/// Number of vCPUs of the guest.
const VCPUS: usize = 4;

fn below(random: &mut ChaCha8Rng, most: usize) -> usize {
    random.next_u64() as usize % most
}

fn noise(random: &mut ChaCha8Rng) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Returns random bytes that begin as a message does.
fn nearly(random: &mut ChaCha8Rng) -> [u8; SIZE] {
    let mut bytes = noise(random);
    bytes[..4].copy_from_slice(&MAGIC);
    (bytes[4], bytes[5]) = (VERSION, [1, 2, 3, 4, 129, 130, 131, 132][below(random, 8)]);
    // Most fields have a small range, and the last bytes are zero.
    bytes[56..].fill(0);
    for byte in &mut bytes[6..] {
        *byte &= [0, 1, 7, 0xff][below(random, 4)];
    }
    bytes
}

fn hint(random: &mut ChaCha8Rng) -> FromGuest {
    let choice = GuestChoice { runs: true, task_boost: None, waits: false, sleeps: false, locked: false };
    FromGuest::Hint(Hint {
        vcpu: below(random, VCPUS) as u16,
        number: random.next_u32(),
        sent: Instant::at_ns(random.next_u64() >> 8),
        choice,
        expiry: None,
        sources: Sources::default(),
    })
}

/// A message of an agent or of a host that is read is the same when it is written and read again.
fn is_written_as_read(bytes: &[u8; SIZE]) {
    if let Ok(message) = FromGuest::read(bytes) {
        assert_eq!(FromGuest::read(&message.bytes()), Ok(message));
        assert!(matches!(FromHost::read(bytes), Err(Malformed::Kind(_))), "{message:?} is of one end only");
    } else if let Ok(message) = FromHost::read(bytes) {
        assert_eq!(FromHost::read(&message.bytes()), Ok(message));
    }
}

/// Returns the bytes of a stream, and the intact messages in it.
fn stream(random: &mut ChaCha8Rng) -> (Vec<u8>, Vec<FromGuest>) {
    let (mut bytes, mut intact) = (Vec::new(), Vec::new());
    for _ in 0..below(random, 20) {
        let message = hint(random);
        match below(random, 4) {
            0 => bytes.extend(&noise(random)[..below(random, SIZE)]),
            1 => bytes.extend(&message.bytes()[..below(random, SIZE)]),
            2 => bytes.extend(nearly(random)),
            _ => {
                bytes.extend(message.bytes());
                intact.push(message);
            }
        }
    }
    (bytes, intact)
}

/// All intact messages are found, in order.
fn stream_goes_on(random: &mut ChaCha8Rng) {
    let (bytes, intact) = stream(random);
    let (mut stream, mut found, mut inbox) = (Stream::default(), Vec::new(), Inbox::new(VCPUS));
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + below(random, rest.len()));
        stream.read(piece, FromGuest::read, |message| found.push(message));
        rest = after;
    }
    assert!(found.len() * SIZE + stream.skipped as usize <= bytes.len());
    assert!(bytes.len() - found.len() * SIZE - (stream.skipped as usize) < SIZE, "what is left is part of a message");
    let mut later = found.iter();
    assert!(intact.iter().all(|wanted| later.any(|message| message == wanted)), "{intact:?} are among {found:?}");
    for message in found {
        if let FromGuest::Hint(hint) = message {
            inbox.receive(hint);
        }
    }
    assert!((0..VCPUS).filter_map(|vcpu| inbox.latest(vcpu)).all(|hint| usize::from(hint.vcpu) < VCPUS));
}

#[test]
fn hostile_bytes_do_no_harm() {
    seeds::each("hostile_bytes", 50_000, |_, random| {
        is_written_as_read(&nearly(random));
        stream_goes_on(random);
    });
}
