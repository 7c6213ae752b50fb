//! CPU time and state of a thread, from its files under /proc. The files stay open. A read is one system call and does
//! not allocate memory.

use crate::thread::{Identity, State, Thread, path, problem};
use crate::{Error, Result, file};
use rustix::fd::AsFd;
use rustix::fs::OFlags;
use sched::Nanos;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Accumulated CPU time of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// CPU time. The value is exact for a thread that does not run, and for a reader on the CPU that the thread has
    /// just left. For a thread that runs on another CPU, the value is up to a tick old.
    pub ran: Nanos,
    /// Time spent waiting for a CPU.
    pub waited: Nanos,
    /// Number of dispatches.
    pub dispatches: u64,
}

/// The schedstat file of a thread.
#[derive(Debug)]
pub struct Meter {
    identity: Identity,
    file: File,
}

impl Meter {
    /// Opens the schedstat file of thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, or the kernel has no schedstat.
    pub fn open(tid: u32) -> Result<Meter> {
        Thread::open(tid)?.meter()
    }

    pub(crate) fn of(identity: Identity, directory: impl AsFd) -> Result<Meter> {
        match file::open_in(&directory, "schedstat", OFlags::RDONLY) {
            Ok(file) => Ok(Meter { identity, file }),
            Err(_) if file::open_in(&directory, "stat", OFlags::RDONLY).is_ok() => Err(Error::Absent {
                what: path(identity.tid, "schedstat").display().to_string(),
                why: "this kernel does not count the CPU time of threads".to_string(),
                remedy: "use a kernel with CONFIG_SCHED_INFO",
            }),
            Err(error) => Err(problem(error, identity, "schedstat")),
        }
    }

    /// Returns the current usage of the thread. Allocates memory only on failure.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn read(&self) -> Result<Usage> {
        let mut bytes = [0; 96];
        let read = self.file.read_at(&mut bytes, 0).map_err(|error| problem(error, self.identity, "schedstat"))?;
        let malformed = || Error::Malformed { path: path(self.identity.tid, "schedstat"), wanted: "three numbers" };
        parse_usage(&bytes[..read]).ok_or_else(malformed)
    }
}

/// State and CPU of a thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doing {
    /// State of the thread.
    pub state: State,
    /// CPU of the thread; for a thread that does not run, its last CPU.
    pub cpu: usize,
}

/// The stat file of a thread, read only for the state and the CPU.
#[derive(Debug)]
pub struct StateMeter {
    identity: Identity,
    file: File,
}

impl StateMeter {
    /// Opens the stat file of thread `tid`.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn open(tid: u32) -> Result<StateMeter> {
        Thread::open(tid)?.state_meter()
    }

    pub(crate) fn of(identity: Identity, directory: impl AsFd) -> Result<StateMeter> {
        let file =
            file::open_in(directory, "stat", OFlags::RDONLY).map_err(|error| problem(error, identity, "stat"))?;
        Ok(StateMeter { identity, file })
    }

    /// Returns the current state of the thread. Allocates memory only on failure.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn read(&self) -> Result<Doing> {
        // The line has 52 fields: a short name, a letter, and numbers of at most 20 digits.
        let mut bytes = [0; 1200];
        let read = self.file.read_at(&mut bytes, 0).map_err(|error| problem(error, self.identity, "stat"))?;
        let malformed = || Error::Malformed { path: path(self.identity.tid, "stat"), wanted: "the status of a thread" };
        parse_doing(&bytes[..read]).ok_or_else(malformed)
    }
}

/// The file that reports the tid of the newest thread in this PID namespace. This tid changes whenever a thread or
/// process starts.
#[derive(Debug)]
pub struct Births {
    file: File,
}

/// Path of the file. The last word of the file is the tid of the newest thread.
const LOADAVG: &str = "/proc/loadavg";

impl Births {
    /// Opens the file for repeated reads.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn open() -> Result<Births> {
        let file = File::open(LOADAVG);
        file.map(|file| Births { file }).map_err(|error| Error::from(error, format!("open {LOADAVG}"), "mount /proc"))
    }

    /// Returns the tid of the newest thread. Allocates memory only on failure.
    ///
    /// # Errors
    /// The kernel does not report the tid.
    pub fn read(&self) -> Result<u64> {
        let mut bytes = [0; 96];
        let read = self.file.read_at(&mut bytes, 0);
        let read = read.map_err(|error| Error::from(error, format!("read {LOADAVG}"), "mount /proc"))?;
        let malformed = || Error::Malformed { path: LOADAVG.into(), wanted: "a line that ends in a number" };
        words(&bytes[..read]).last().and_then(number).ok_or_else(malformed)
    }
}

impl Thread {
    /// Opens the file that reports the thread's CPU time.
    ///
    /// # Errors
    /// The thread has ended, or the kernel has no schedstat.
    pub fn meter(&self) -> Result<Meter> {
        Meter::of(self.identity(), self.directory())
    }

    /// Opens the file that reports the thread's state.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn state_meter(&self) -> Result<StateMeter> {
        StateMeter::of(self.identity(), self.directory())
    }
}

/// Parses CPU time, waiting time and number of dispatches: three decimal numbers.
fn parse_usage(bytes: &[u8]) -> Option<Usage> {
    let mut numbers = words(bytes).map(number);
    let mut next = || numbers.next().flatten();
    Some(Usage { ran: Nanos::ns(next()?), waited: Nanos::ns(next()?), dispatches: next()? })
}

/// Parses state and CPU: the 1st and the 37th word after the name.
fn parse_doing(bytes: &[u8]) -> Option<Doing> {
    let end_of_name = bytes.iter().rposition(|&byte| byte == b')')?;
    let mut words = words(&bytes[end_of_name + 1..]);
    let state = State::of(*words.next()?.first()?);
    let cpu = usize::try_from(number(words.nth(35)?)?).ok()?;
    Some(Doing { state, cpu })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number(digits: &[u8]) -> Option<u64> {
    let digit = |sum: u64, byte: &u8| {
        byte.is_ascii_digit().then(|| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))).flatten()
    };
    digits.iter().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};

    #[test]
    fn numbers_are_read_or_refused() {
        let usage = Usage { ran: Nanos::ns(12), waited: Nanos::ns(3), dispatches: 4 };
        assert_eq!(parse_usage(b"12 3 4\n"), Some(usage));
        assert_eq!(parse_usage(b"12 3\n"), None);
        assert_eq!(parse_usage(b"12 x 4\n"), None);
        assert_eq!(parse_usage(b"99999999999999999999 1 1\n"), None);
        let stat =
            b"42 (a) b) R 7 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0";
        assert_eq!(parse_doing(stat), Some(Doing { state: State::Runnable, cpu: 3 }));
        assert_eq!(parse_doing(&stat[..40]), None);
    }

    #[test]
    fn cpu_time_of_this_thread_grows_as_it_runs() {
        let meter = Meter::open(crate::thread::current()).unwrap();
        let before = meter.read().unwrap();
        let mut sum = 0_u64;
        while meter.read().unwrap().ran < before.ran + Nanos::ms(5) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        let gone = Meter::open(u32::MAX >> 2).map(|_| ()).unwrap_err();
        assert!(matches!(gone, Error::Gone(_)), "{gone}");
    }

    #[test]
    fn a_spinning_child_runs_and_a_sleeping_one_does_not() {
        let spinning = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(1) }).unwrap();
        let sleeping = Child::start(Work::Sleep).unwrap();
        let asleep = StateMeter::open(sleeping.pid()).unwrap();
        let meters = [spinning.pid(), sleeping.pid()].map(|tid| Meter::open(tid).unwrap());
        while asleep.read().unwrap().state != State::Sleeping {
            crate::clock::sleep(Nanos::ms(1));
        }
        let before = meters.each_ref().map(|meter| meter.read().unwrap());
        while meters[0].read().unwrap().ran < before[0].ran + Nanos::ms(10) {
            crate::clock::sleep(Nanos::ms(1));
        }
        assert_eq!(meters[1].read().unwrap(), before[1]);
        assert_eq!(asleep.read().unwrap().state, State::Sleeping);
    }

    #[test]
    fn a_birth_is_seen() {
        let births = Births::open().unwrap();
        let before = births.read().unwrap();
        let child = Child::start(Work::Sleep).unwrap();
        let after = births.read().unwrap();
        assert!(after != before, "{before}");
        // Other threads may have started since the child. Thread IDs increase until they wrap around.
        assert!(after >= u64::from(child.pid()) || after < before, "{before} {after} {}", child.pid());
    }

    #[test]
    fn reading_allocates_nothing() {
        let me = crate::thread::current();
        let (usage, doing) = (Meter::open(me).unwrap(), StateMeter::open(me).unwrap());
        let births = Births::open().unwrap();
        let allocated = allocation_counter::measure(|| {
            assert!(usage.read().unwrap().dispatches > 0);
            assert!(births.read().unwrap() > 0);
            assert_eq!(doing.read().unwrap().state, State::Runnable);
        });
        assert_eq!(allocated.count_total, 0);
    }
}
