//! The records between the bridge in the kernel and its user side: `bpf/interface.h`.

use sched::id::CPUS_MAX;
use sched::{CpuId, CpuSet, Instant, Nanos};
use serde::Serialize;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MASK_WORDS: usize = CPUS_MAX / 64;
/// Maximum number of commands in a batch.
pub const COMMANDS_MAX: usize = 32;

/// What has happened to a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The bridge schedules the thread from now on.
    Attach {
        /// The thread that created it; 0: not known.
        parent: i32,
        /// The attributes of the thread.
        about: Box<About>,
    },
    /// The bridge no longer schedules the thread.
    Detach,
    /// The thread has become runnable.
    Wake {
        /// The thread that caused it; 0: not known.
        waker: i32,
    },
    /// The thread is no longer runnable. If it ran, it has ceased to run.
    Sleep,
    /// The thread begins to run.
    Run {
        /// The CPU of the thread.
        cpu: CpuId,
    },
    /// The thread ceases to run.
    Stop,
    /// The thread has called `sched_yield`.
    Yield,
    /// The attributes of the thread have changed.
    Change(Box<About>),
    /// The bridge has chosen the thread for a CPU, because no other thread waited. The thread begins to run.
    Choice {
        /// The CPU.
        cpu: CpuId,
        /// Number of batches of commands before it.
        batches: u32,
    },
    /// Periods of a promise have ended. The tid of the event is the number of the promise.
    Periods(EndedPeriods),
}

/// Attributes of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Range: −20 … 19.
    pub nice: i32,
    /// Scheduling policy of the thread, as `sched_setscheduler` has it.
    pub policy: u32,
    /// CPUs on which the thread may run.
    pub mask: CpuSet,
}

/// An event of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Instant of the event.
    pub at: Instant,
    /// The thread.
    pub tid: i32,
    /// What has happened.
    pub kind: Kind,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEvent {
    at: u64,
    kind: u32,
    cpu: i32,
    tid: i32,
    other: i32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawAbout {
    nice: i32,
    policy: u32,
    mask: [u64; MASK_WORDS],
}

/// Periods of a promise that have ended one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedPeriods {
    /// CPU time that was due in each period.
    pub due: Nanos,
    /// CPU time that was delivered in the first period, and in none of the others.
    pub delivered: Nanos,
    /// Whether the promise was runnable throughout.
    pub throughout: bool,
    /// Number of the periods.
    pub count: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawPeriods {
    due: u64,
    delivered: u64,
    passed: u64,
}

impl Event {
    /// Reads an event; `None`: the bytes are no event of this build.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Event> {
        let (raw, rest) = RawEvent::read_from_prefix(bytes).ok()?;
        let about = || About::from_bytes(rest);
        let cpu = || Some(CpuId::new(usize::try_from(raw.cpu).ok().filter(|&cpu| cpu < CPUS_MAX)?));
        let kind = match raw.kind {
            1 => Kind::Attach { parent: raw.other, about: Box::new(about()?) },
            2 => Kind::Detach,
            3 => Kind::Wake { waker: raw.other },
            4 => Kind::Sleep,
            5 => Kind::Run { cpu: cpu()? },
            6 => Kind::Stop,
            7 => Kind::Yield,
            8 => Kind::Change(Box::new(about()?)),
            9 => {
                let (RawPeriods { due, delivered, passed }, _) = RawPeriods::read_from_prefix(rest).ok()?;
                let (due, delivered, throughout) = (Nanos::ns(due), Nanos::ns(delivered), raw.other != 0);
                Kind::Periods(EndedPeriods { due, delivered, throughout, count: passed })
            }
            10 => Kind::Choice { cpu: cpu()?, batches: raw.other.cast_unsigned() },
            _ => return None,
        };
        Some(Event { at: Instant::at_ns(raw.at), tid: raw.tid, kind })
    }
}

impl About {
    fn from_bytes(bytes: &[u8]) -> Option<About> {
        let (raw, _) = RawAbout::read_from_prefix(bytes).ok()?;
        let mut mask = CpuSet::EMPTY;
        for (word, bits) in raw.mask.iter().enumerate() {
            for bit in (0..64).filter(|bit| bits & (1 << bit) != 0) {
                mask.insert(CpuId::new(word * 64 + bit));
            }
        }
        Some(About { nice: raw.nice, policy: raw.policy, mask })
    }
}

/// An instruction for the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// This CPU runs this thread, or none of the managed threads.
    Run {
        /// The CPU.
        cpu: CpuId,
        /// The thread.
        tid: Option<i32>,
    },
    /// The bridge does not manage this thread any longer.
    Release {
        /// The thread.
        tid: i32,
    },
}

/// A command, as the kernel reads it.
#[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawCommand {
    cpu: i32,
    tid: i32,
}

/// A batch of commands.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Batch {
    count: u32,
    is_part: u32,
    commands: [RawCommand; COMMANDS_MAX],
}

impl Batch {
    /// Creates a batch of the first [`COMMANDS_MAX`] commands. `is_part`: another batch follows before the CPUs look.
    #[must_use]
    pub fn new(commands: &[Command], is_part: bool) -> Batch {
        let commands_none = [RawCommand::default(); COMMANDS_MAX];
        let mut batch = Batch { count: 0, is_part: u32::from(is_part), commands: commands_none };
        for (raw, command) in batch.commands.iter_mut().zip(commands) {
            *raw = match *command {
                Command::Run { cpu, tid } => {
                    let cpu = i32::try_from(cpu.index()).unwrap_or(-1);
                    RawCommand { cpu, tid: tid.unwrap_or(0) }
                }
                Command::Release { tid } => RawCommand { cpu: -1, tid },
            };
            batch.count += 1;
        }
        batch
    }
}

/// State of the bridge after a batch.
#[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Report {
    /// Number of events that found the buffer full.
    pub lost: u64,
    /// Number of dispatches of chosen threads.
    pub dispatched: u64,
    /// Number of dispatches whose chosen thread was not there.
    pub absent: u64,
    /// Whether the bridge dispatches by itself; 0: no.
    pub is_fallback: u32,
    /// Number of times that the bridge began to dispatch by itself because the user side was late.
    pub fallbacks: u32,
    /// Number of batches, modulo 2³².
    pub batches: u32,
    /// Whether the bridge has ended; 0: no.
    pub has_ended: u32,
}

/// Settings of the bridge before it begins.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Settings {
    /// 1: all threads of user processes are managed; 0: those of listed processes.
    pub manages_all: u32,
    /// The process of the user side.
    pub own_pid: u32,
    /// 1: a CPU always runs a thread that last ran there, if no other thread is runnable.
    pub is_conserving: u32,
}

/// What the port of `bmq` has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, Immutable, KnownLayout, Serialize)]
#[repr(C)]
pub struct BmqCounts {
    /// Number of switches to a thread.
    pub switches: u64,
    /// Number of slices that were used up.
    pub expired: u64,
    /// Number of threads pulled from other CPUs.
    pub stolen: u64,
    /// Number of threads that ran for a slice because they had waited for too long.
    pub rescued: u64,
}

impl BmqCounts {
    /// Adds the counts of another CPU or of another time.
    pub fn add(&mut self, other: &BmqCounts) {
        self.switches += other.switches;
        self.expired += other.expired;
        self.stolen += other.stolen;
        self.rescued += other.rescued;
    }
}

/// Flag of the code of an ending: the scheduler is to be loaded again. The kernel sets it when a CPU goes offline or online. Source:
/// kernel/sched/ext.c (`SCX_ECODE_ACT_RESTART`).
const RESTART: i64 = 1 << 48;

/// Why the bridge has ended.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ending {
    code: i64,
    /// The kernel's `enum scx_exit_kind`; 0: the bridge has not ended.
    pub kind: u32,
    reserved: u32,
    reason: [u8; 128],
    message: [u8; 512],
}

impl Ending {
    /// Returns whether the scheduler is to be loaded again: the CPUs have changed.
    #[must_use]
    pub fn requests_restart(&self) -> bool {
        self.code & RESTART != 0
    }

    /// Returns the kernel's words.
    #[must_use]
    pub fn text(&self) -> String {
        let text = |bytes: &[u8]| {
            let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let (reason, message) = (text(&self.reason), text(&self.message));
        if message.is_empty() { reason } else { format!("{reason}: {message}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_other_bytes_are_not() {
        let raw = RawEvent { at: 7, kind: 5, cpu: 3, tid: 9, other: 0 };
        let event = Event { at: Instant::at_ns(7), tid: 9, kind: Kind::Run { cpu: CpuId::new(3) } };
        assert_eq!(Event::from_bytes(raw.as_bytes()), Some(event));
        let mut about = RawAbout { nice: -5, policy: 3, mask: [0; MASK_WORDS] };
        about.mask[1] = 0b101;
        let bytes = [RawEvent { kind: 8, ..raw }.as_bytes(), about.as_bytes()].concat();
        let Some(Event { kind: Kind::Change(about), .. }) = Event::from_bytes(&bytes) else { panic!("it is a change") };
        assert_eq!((about.nice, about.policy, about.mask.to_string().as_str()), (-5, 3, "64,66"));
        assert_eq!(Event::from_bytes(&bytes[..40]), None);
        assert_eq!(Event::from_bytes(RawEvent { kind: 99, ..raw }.as_bytes()), None);
        assert_eq!(Event::from_bytes(RawEvent { cpu: -1, ..raw }.as_bytes()), None);
    }

    #[test]
    fn only_an_exit_that_requests_a_restart_begins_a_session_again() {
        let ending = |code: i64| Ending { code, kind: 66, reserved: 0, reason: [0; 128], message: [0; 512] };
        // SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG; the reason alone; a code of a scheduler.
        let codes = [1 << 48 | 1 << 32, 1 << 32, 7, 0];
        assert_eq!(codes.map(|code| ending(code).requests_restart()), [true, false, false, false]);
    }

    #[test]
    fn a_batch_has_all_commands_up_to_the_maximum() {
        let run = Command::Run { cpu: CpuId::new(2), tid: Some(5) };
        let batch = Batch::new(&[run, Command::Release { tid: 8 }], false);
        let of = |raw: &RawCommand| (raw.cpu, raw.tid);
        assert_eq!((batch.count, of(&batch.commands[0]), of(&batch.commands[1])), (2, (2, 5), (-1, 8)));
        let part = Batch::new(&[run; COMMANDS_MAX + 1], true);
        assert_eq!((part.count, part.is_part), (32, 1));
    }
}
