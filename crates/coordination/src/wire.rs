//! The messages between a guest agent, here the agent, and its host, as bytes.
//!
//! Every message has [`SIZE`] bytes. Numbers are little-endian, and unused bytes are zero. A virtio-serial port carries a
//! stream of messages, which [`Stream`](crate::Stream) reads; a shared page has a place for the latest hint of each vCPU.
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 3 | [`MAGIC`] |
//! | 4 | version of the format, 1 |
//! | 5 | kind |
//! | 6, 7 | vCPU, or number of vCPUs |
//! | 8 to 11 | number of the hint, or tid |
//! | 12 to 15 | flags |
//! | 16 to 55 | five numbers of 64 bits; each kind has its own |
//! | 56 to 63 | zero |
//!
//! The first six bytes are the same in all versions. An agent that also writes newer versions begins with a hello of version 1,
//! which has the range of its versions, and the host answers with the version of all further messages. A guest is not trusted: each field is checked, and a message with a wrong
//! field is dropped as a whole.

pub use crate::source::{Source, Sources};
use crate::wake_up::{TaskName, WakeUp};
use crate::{Boost, GuestChoice, Protocol};
use sched::{Class, Instant, Nanos, RtPriority, Weight};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Name of the virtio-serial port of the messages.
pub const PORT: &str = "tactus.hints";
/// Length of every message. Unit: bytes.
pub const SIZE: usize = 64;
/// First bytes of every message.
pub const MAGIC: [u8; 4] = *b"TcHi";
/// Version of the format.
pub const VERSION: u8 = 1;
/// Maximum number of vCPUs of a guest with hints.
pub const VCPUS_MAX: u16 = 1_024;

const HELLO: u8 = 1;
const HINT: u8 = 2;
const GOODBYE: u8 = 3;
const WOKEN: u8 = 4;
const WELCOME: u8 = 129;
const REFUSED: u8 = 130;
const OUTLOOK: u8 = 131;
const WATCH: u8 = 132;

const RUNS: u32 = 1;
const WAITS: u32 = 1 << 1;
const SLEEPS: u32 = 1 << 2;
const LOCKED: u32 = 1 << 3;
const HAS_EXPIRY: u32 = 1 << 4;
const BOOSTED: u32 = 1 << 5;
const WATCHES: u32 = 1;
/// The kind of the running task's boost, in two bits: none, SCHED_FIFO, SCHED_RR, a weight.
const BOOST_AT: u32 = 8;
/// The priority of the running task's boost, in eight bits.
const PRIORITY_AT: u32 = 16;
/// One more than the number of the source that woke a task, in the flags of a wake-up; 0: none.
const SOURCE: u32 = 0xff;
/// The vCPU on which a task slept, in the high half of the flags of a wake-up.
const SLEPT_AT: u32 = 16;

/// What an agent publishes about a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The vCPU, from 0.
    pub vcpu: u16,
    /// Number among the hints of this vCPU since the agent's hello. Wraps around.
    pub number: u32,
    /// Instant of the hint on the guest's CLOCK_MONOTONIC.
    pub sent: Instant,
    /// The choice of the guest's scheduler on the vCPU.
    pub choice: GuestChoice,
    /// Earliest expiry among the timers of urgent sleeping tasks that last ran on the vCPU, on the guest's CLOCK_MONOTONIC.
    pub expiry: Option<Instant>,
    /// Sources of interrupts that wake urgent sleeping tasks of the vCPU.
    pub sources: Sources,
}

/// A message of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromGuest {
    /// The agent has started. All earlier hints are void.
    Hello {
        /// Number of the guest's vCPUs. Range: 1 to [`VCPUS_MAX`].
        vcpus: u16,
        /// Oldest and newest version of the format that the agent reads and writes.
        versions: (u8, u8),
        /// The guest's boot, from /proc/sys/kernel/random/boot_id.
        boot: u128,
    },
    /// A hint.
    Hint(Hint),
    /// A wake-up whose latency the host has asked for.
    Woken(WakeUp),
    /// The agent ends. All hints are void.
    Goodbye,
}

/// A message of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromHost {
    /// The host reads the agent's hints.
    Welcome {
        /// Version of the format of all further messages.
        version: u8,
        /// Meaning of the hints.
        protocol: Protocol,
        /// Maximum boosted time in a window, over all vCPUs of the VM.
        budget: Nanos,
        /// Length of a window.
        window: Nanos,
    },
    /// The host ignores the agent.
    Refused(Refusal),
    /// What a vCPU can expect.
    Outlook {
        /// The vCPU, from 0.
        vcpu: u16,
        /// Whether the vCPU is boosted.
        is_boosted: bool,
        /// CPU time of the vCPU in the last window, in parts of a million of a CPU.
        share_ppm: u32,
        /// Time in the last window that the vCPU was runnable without a CPU.
        steal: Nanos,
    },
    /// The host asks for the wake-ups of urgent tasks whose latency is at least this long; `None`: for none, as at the begin.
    Watch(Option<Nanos>),
}

/// Why a host ignores an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The versions of the format have nothing in common.
    Version,
    /// The number of vCPUs is not that of the VM.
    Vcpus,
    /// The operator has not attached the VM, or has detached it.
    Detached,
}

impl Refusal {
    const ALL: [Refusal; 3] = [Refusal::Version, Refusal::Vcpus, Refusal::Detached];
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The first bytes are not [`MAGIC`].
    Magic,
    /// The version is not [`VERSION`].
    Version(u8),
    /// No message that the receiver reads has this kind.
    Kind(u8),
    /// A field is out of its range.
    Field(&'static str),
}

/// The bytes of a message.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    version: u8,
    kind: u8,
    vcpu: U16,
    number: U32,
    flags: U32,
    words: [U64; 6],
}

impl Raw {
    fn new(kind: u8) -> Raw {
        let zero = U64::new(0);
        Raw {
            magic: MAGIC,
            version: VERSION,
            kind,
            vcpu: 0.into(),
            number: 0.into(),
            flags: 0.into(),
            words: [zero; 6],
        }
    }

    fn bytes(self) -> [u8; SIZE] {
        zerocopy::transmute!(self)
    }

    fn read(bytes: &[u8; SIZE]) -> Result<Raw, Malformed> {
        let raw: Raw = zerocopy::transmute!(*bytes);
        match raw {
            Raw { magic, .. } if magic != MAGIC => Err(Malformed::Magic),
            Raw { version, .. } if version != VERSION => Err(Malformed::Version(version)),
            // So the begin of the next message completes no partial message.
            _ if raw.word(5) != 0 => Err(Malformed::Field("last bytes")),
            _ => Ok(raw),
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.words[at].get()
    }

    fn flag(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    fn set_flag(&mut self, flag: u32, is_set: bool) {
        self.flags |= U32::new(if is_set { flag } else { 0 });
    }
}

impl FromGuest {
    /// Returns the bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> [u8; SIZE] {
        match self {
            FromGuest::Hello { vcpus, versions: (oldest, newest), boot } => {
                let mut raw = Raw { vcpu: U16::new(*vcpus), ..Raw::new(HELLO) };
                raw.flags = (u32::from(*oldest) | u32::from(*newest) << 8).into();
                raw.words[0] = ((*boot >> 64) as u64).into();
                raw.words[1] = (*boot as u64).into();
                raw
            }
            FromGuest::Hint(hint) => hint.raw(),
            FromGuest::Woken(wake_up) => wake_up.raw(),
            FromGuest::Goodbye => Raw::new(GOODBYE),
        }
        .bytes()
    }

    /// Returns the message with these bytes.
    ///
    /// # Errors
    /// The bytes are no message of an agent.
    pub fn read(bytes: &[u8; SIZE]) -> Result<FromGuest, Malformed> {
        let raw = Raw::read(bytes)?;
        match raw.kind {
            HELLO => {
                let [oldest, newest, ..] = raw.flags.get().to_le_bytes();
                let vcpus = raw.vcpu.get();
                if vcpus == 0 || vcpus > VCPUS_MAX {
                    return Err(Malformed::Field("number of vCPUs"));
                }
                if oldest == 0 || oldest > newest {
                    return Err(Malformed::Field("versions"));
                }
                let boot = u128::from(raw.word(0)) << 64 | u128::from(raw.word(1));
                Ok(FromGuest::Hello { vcpus, versions: (oldest, newest), boot })
            }
            HINT => Hint::of(&raw).map(FromGuest::Hint),
            WOKEN => WakeUp::of(&raw).map(FromGuest::Woken),
            GOODBYE => Ok(FromGuest::Goodbye),
            kind => Err(Malformed::Kind(kind)),
        }
    }
}

impl Hint {
    fn raw(&self) -> Raw {
        let mut raw = Raw { vcpu: self.vcpu.into(), number: self.number.into(), ..Raw::new(HINT) };
        let GuestChoice { runs, task_boost, waits, sleeps, locked } = self.choice;
        let flags =
            [(RUNS, runs), (WAITS, waits), (SLEEPS, sleeps), (LOCKED, locked), (HAS_EXPIRY, self.expiry.is_some())];
        flags.into_iter().for_each(|(flag, is_set)| raw.set_flag(flag, is_set));
        let (kind, priority, weight) = match task_boost {
            None => (0, 0, 0),
            Some(Boost::Class { round_robin: false, priority }) => (1, priority.number(), 0),
            Some(Boost::Class { round_robin: true, priority }) => (2, priority.number(), 0),
            Some(Boost::Weight(weight)) => (3, 0, weight.as_linux()),
        };
        raw.flags |= U32::new(kind << BOOST_AT | u32::from(priority) << PRIORITY_AT);
        raw.words[0] = self.sent.as_ns().into();
        raw.words[1] = self.expiry.map_or(0, Instant::as_ns).into();
        raw.words[2] = u64::from(self.sources.bits()).into();
        raw.words[3] = u64::from(weight).into();
        raw
    }

    fn of(raw: &Raw) -> Result<Hint, Malformed> {
        if raw.vcpu.get() >= VCPUS_MAX {
            return Err(Malformed::Field("vCPU"));
        }
        let sources = u8::try_from(raw.word(2)).ok().and_then(Sources::of_bits);
        let choice = GuestChoice {
            runs: raw.flag(RUNS),
            task_boost: boost_of(raw)?,
            waits: raw.flag(WAITS),
            sleeps: raw.flag(SLEEPS),
            locked: raw.flag(LOCKED),
        };
        Ok(Hint {
            vcpu: raw.vcpu.get(),
            number: raw.number.get(),
            sent: instant(raw.word(0))?,
            choice,
            expiry: raw.flag(HAS_EXPIRY).then(|| instant(raw.word(1))).transpose()?,
            sources: sources.ok_or(Malformed::Field("sources"))?,
        })
    }
}

impl WakeUp {
    fn raw(&self) -> Raw {
        let mut raw = Raw { vcpu: self.vcpu.into(), number: self.tid.into(), ..Raw::new(WOKEN) };
        let source = self.source.map_or(0, |source| 1 + source as u32);
        raw.flags = (source | u32::from(self.slept_on) << SLEPT_AT).into();
        let [first, second] = self.name.words();
        let instants = [self.due, self.woken, self.ran].map(Instant::as_ns);
        for (word, number) in raw.words.iter_mut().zip(instants.into_iter().chain([first, second])) {
            *word = number.into();
        }
        raw
    }

    fn of(raw: &Raw) -> Result<WakeUp, Malformed> {
        let slept_on = (raw.flags.get() >> SLEPT_AT) as u16;
        if raw.vcpu.get() >= VCPUS_MAX || slept_on >= VCPUS_MAX {
            return Err(Malformed::Field("vCPU"));
        }
        let source = match (raw.flags.get() & SOURCE) as usize {
            0 => None,
            number => Some(*Source::ALL.get(number - 1).ok_or(Malformed::Field("source"))?),
        };
        let [due, woken, ran] = [0, 1, 2].map(|nth| instant(raw.word(nth)));
        let (due, woken, ran) = (due?, woken?, ran?);
        if due > woken || woken > ran {
            return Err(Malformed::Field("order of instants"));
        }
        let name = TaskName::of_words([raw.word(3), raw.word(4)]);
        let (vcpu, tid) = (raw.vcpu.get(), raw.number.get());
        Ok(WakeUp { slept_on, vcpu, tid, name, source, due, woken, ran })
    }
}

/// Returns the boost for the running task of a hint.
fn boost_of(raw: &Raw) -> Result<Option<Boost>, Malformed> {
    let priority = || RtPriority::new((raw.flags.get() >> PRIORITY_AT) as u8).ok_or(Malformed::Field("priority"));
    let boost = match raw.flags.get() >> BOOST_AT & 3 {
        0 => return Ok(None),
        1 => Boost::like(Class::Fifo(priority()?)),
        2 => Boost::like(Class::RoundRobin(priority()?)),
        _ => u32::try_from(raw.word(3)).ok().and_then(Weight::linux).map(Boost::Weight),
    };
    boost.map(Some).ok_or(Malformed::Field("weight"))
}

/// Returns an instant of a message, which is far enough from the largest one for sums.
fn instant(ns: u64) -> Result<Instant, Malformed> {
    if ns > sched::time::SPAN_MAX.as_ns() {
        return Err(Malformed::Field("instant"));
    }
    Ok(Instant::at_ns(ns))
}

impl FromHost {
    /// Returns the bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> [u8; SIZE] {
        match *self {
            FromHost::Welcome { version, protocol, budget, window } => {
                let protocol = Protocol::ALL.iter().position(|&(_, known)| known == protocol).expect("all are listed");
                let mut raw = Raw { number: u32::from(version).into(), ..Raw::new(WELCOME) };
                raw.words[0] = (protocol as u64).into();
                raw.words[1] = budget.as_ns().into();
                raw.words[2] = window.as_ns().into();
                raw
            }
            FromHost::Refused(why) => Raw { number: (why as u32).into(), ..Raw::new(REFUSED) },
            FromHost::Outlook { vcpu, is_boosted, share_ppm, steal } => {
                let mut raw = Raw { vcpu: vcpu.into(), number: share_ppm.into(), ..Raw::new(OUTLOOK) };
                raw.set_flag(BOOSTED, is_boosted);
                raw.words[0] = steal.as_ns().into();
                raw
            }
            FromHost::Watch(least) => {
                let mut raw = Raw::new(WATCH);
                raw.set_flag(WATCHES, least.is_some());
                raw.words[0] = least.map_or(0, Nanos::as_ns).into();
                raw
            }
        }
        .bytes()
    }

    /// Returns the message with these bytes.
    ///
    /// # Errors
    /// The bytes are no message of a host.
    pub fn read(bytes: &[u8; SIZE]) -> Result<FromHost, Malformed> {
        let raw = Raw::read(bytes)?;
        match raw.kind {
            WELCOME => {
                let protocol = usize::try_from(raw.word(0)).ok().and_then(|at| Protocol::ALL.get(at));
                Ok(FromHost::Welcome {
                    version: u8::try_from(raw.number.get()).map_err(|_| Malformed::Field("version"))?,
                    protocol: protocol.ok_or(Malformed::Field("protocol"))?.1,
                    budget: Nanos::ns(raw.word(1)),
                    window: Nanos::ns(raw.word(2)),
                })
            }
            REFUSED => {
                let why = usize::try_from(raw.number.get()).ok().and_then(|at| Refusal::ALL.get(at));
                Ok(FromHost::Refused(*why.ok_or(Malformed::Field("reason"))?))
            }
            OUTLOOK => Ok(FromHost::Outlook {
                vcpu: raw.vcpu.get(),
                is_boosted: raw.flag(BOOSTED),
                share_ppm: raw.number.get(),
                steal: Nanos::ns(raw.word(0)),
            }),
            WATCH => Ok(FromHost::Watch(raw.flag(WATCHES).then(|| Nanos::ns(raw.word(0))))),
            kind => Err(Malformed::Kind(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint() -> Hint {
        let task_boost = Boost::like(Class::RoundRobin(RtPriority::new(8).unwrap()));
        Hint {
            vcpu: 3,
            number: 0x0102_0304,
            sent: Instant::at_ns(1_000),
            choice: GuestChoice { runs: true, task_boost, waits: false, sleeps: true, locked: true },
            expiry: Some(Instant::at_ns(2_000)),
            sources: Sources::default().with(Source::Timer).with(Source::Disk),
        }
    }

    fn wake_up() -> WakeUp {
        let [due, woken, ran] = [1_000, 2_000, 3_000].map(Instant::at_ns);
        let name = TaskName::new(b"sixteen-bytes-ab");
        WakeUp { slept_on: 1_023, vcpu: 2, tid: 4_000_000, name, source: None, due, woken, ran }
    }

    fn is_equal(message: FromGuest) {
        assert_eq!(FromGuest::read(&message.bytes()), Ok(message));
        assert!(matches!(FromHost::read(&message.bytes()), Err(Malformed::Kind(_))));
    }

    #[test]
    fn messages_of_a_guest_are_read_as_they_were_written() {
        is_equal(FromGuest::Hello { vcpus: 1_024, versions: (1, 7), boot: u128::MAX - 5 });
        is_equal(FromGuest::Goodbye);
        let like = |class| Boost::like(class);
        let at = |priority| RtPriority::new(priority).unwrap();
        let boosts =
            [None, like(Class::Fifo(at(99))), like(Class::RoundRobin(at(1))), Weight::nice(-20).map(Boost::Weight)];
        for task_boost in boosts {
            for flag in 0..4 {
                let [waits, sleeps, locked] = [1, 2, 3].map(|nth| flag == nth);
                let choice = GuestChoice { runs: task_boost.is_some(), task_boost, waits, sleeps, locked };
                is_equal(FromGuest::Hint(Hint { choice, ..hint() }));
            }
        }
        is_equal(FromGuest::Hint(Hint { expiry: None, sources: Sources::default(), ..hint() }));
        for source in Source::ALL.map(Some).into_iter().chain([None]) {
            is_equal(FromGuest::Woken(WakeUp { source, ..wake_up() }));
        }
    }

    #[test]
    fn messages_of_a_host_are_read_as_they_were_written() {
        let mut all: Vec<FromHost> = Refusal::ALL.map(FromHost::Refused).to_vec();
        for (_, protocol) in Protocol::ALL {
            let (budget, window) = (Nanos::ms(30), Nanos::ms(100));
            all.push(FromHost::Welcome { version: VERSION, protocol, budget, window });
        }
        for is_boosted in [false, true] {
            all.push(FromHost::Outlook { vcpu: 7, is_boosted, share_ppm: 350_000, steal: Nanos::us(9) });
        }
        all.extend([Some(Nanos::ms(1)), None].map(FromHost::Watch));
        for message in all {
            assert_eq!(FromHost::read(&message.bytes()), Ok(message));
            assert!(matches!(FromGuest::read(&message.bytes()), Err(Malformed::Kind(_))));
        }
    }

    #[test]
    fn the_places_of_the_fields_are_those_of_the_format() {
        let bytes = FromGuest::Hint(hint()).bytes();
        let begin = [
            b'T', b'c', b'H', b'i', 1, 2, 3, 0, 4, 3, 2, 1, // runs, sleeps, locked, has an expiry
            0b1_1101, 2, 8, 0, 0xe8, 3,
        ];
        assert_eq!(bytes[..begin.len()], begin);
        assert_eq!((bytes[24], bytes[25], bytes[32]), (0xd0, 7, 0b101));
    }

    #[test]
    fn a_wrong_field_is_named() {
        let with = |at: usize, byte: u8| {
            let mut bytes = FromGuest::Hint(hint()).bytes();
            bytes[at] = byte;
            FromGuest::read(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b't'), Malformed::Magic);
        assert_eq!(with(4, 2), Malformed::Version(2));
        assert_eq!(with(5, 9), Malformed::Kind(9));
        assert_eq!(with(7, 4), Malformed::Field("vCPU"));
        assert_eq!(with(14, 100), Malformed::Field("priority"));
        assert_eq!(with(13, 3), Malformed::Field("weight"));
        assert_eq!(with(23, 0xff), Malformed::Field("instant"));
        assert_eq!(with(31, 0xff), Malformed::Field("instant"));
        assert_eq!(with(32, 0x20), Malformed::Field("sources"));
        assert_eq!(with(63, 1), Malformed::Field("last bytes"));
        let woken = |wake_up: WakeUp| FromGuest::read(&FromGuest::Woken(wake_up).bytes());
        let order = Err(Malformed::Field("order of instants"));
        assert_eq!(woken(WakeUp { due: Instant::at_ns(2_001), ..wake_up() }), order);
        assert_eq!(woken(WakeUp { ran: Instant::at_ns(1_999), ..wake_up() }), order);
        let mut bytes = FromGuest::Woken(wake_up()).bytes();
        bytes[12] = 6;
        assert_eq!(FromGuest::read(&bytes), Err(Malformed::Field("source")));
        let hello = |vcpus, versions| FromGuest::read(&FromGuest::Hello { vcpus, versions, boot: 0 }.bytes());
        assert_eq!(hello(0, (1, 1)), Err(Malformed::Field("number of vCPUs")));
        assert_eq!(hello(1_025, (1, 1)), Err(Malformed::Field("number of vCPUs")));
        assert_eq!(hello(1, (2, 1)), Err(Malformed::Field("versions")));
    }
}
