//! The CPU time a thread has had: its schedstat, held open and read in one call.

use crate::{Error, Result};
use sched::Nanos;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What a thread has had so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// CPU time. Exact for a thread that is not running, and for who reads it on the CPU that the thread has just left; up
    /// to a tick old for one that runs on another CPU.
    pub ran: Nanos,
    /// Time it waited for a CPU.
    pub waited: Nanos,
    /// How often it was put on a CPU.
    pub dispatches: u64,
}

/// A thread's schedstat.
#[derive(Debug)]
pub struct Meter {
    tid: u32,
    file: File,
}

impl Meter {
    /// Of thread `tid`.
    ///
    /// # Errors
    /// It is gone, or the kernel has no schedstat.
    pub fn open(tid: u32) -> Result<Meter> {
        let path = PathBuf::from(format!("/proc/{tid}/schedstat"));
        match File::open(&path) {
            Ok(file) => Ok(Meter { tid, file }),
            Err(_) if !PathBuf::from(format!("/proc/{tid}")).exists() => Err(Error::Gone(tid)),
            Err(error) => Err(Error::File { path, what: error.to_string() }),
        }
    }

    /// What it has had.
    ///
    /// # Errors
    /// It is gone.
    pub fn read(&self) -> Result<Usage> {
        let mut bytes = [0; 96];
        let read = self.file.read_at(&mut bytes, 0).map_err(|_| Error::Gone(self.tid))?;
        parse(&bytes[..read]).ok_or_else(|| Error::File {
            path: PathBuf::from(format!("/proc/{}/schedstat", self.tid)),
            what: "is not three numbers".to_string(),
        })
    }
}

/// Three decimal numbers.
fn parse(bytes: &[u8]) -> Option<Usage> {
    let mut numbers = bytes.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).map(number);
    let mut next = || numbers.next().flatten();
    Some(Usage { ran: Nanos::ns(next()?), waited: Nanos::ns(next()?), dispatches: next()? })
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

    #[test]
    fn numbers_are_read_or_refused() {
        let usage = Usage { ran: Nanos::ns(12), waited: Nanos::ns(3), dispatches: 4 };
        assert_eq!(parse(b"12 3 4\n"), Some(usage));
        assert_eq!(parse(b"12 3\n"), None);
        assert_eq!(parse(b"12 x 4\n"), None);
        assert_eq!(parse(b"99999999999999999999 1 1\n"), None);
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
        assert!(matches!(Meter::open(u32::MAX >> 2), Err(Error::Gone(_))));
    }
}
