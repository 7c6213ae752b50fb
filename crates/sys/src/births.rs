//! Threads and processes that begin, told by the kernel as it happens.

use crate::switches::refused;
use crate::{Error, Result};
use perf_event::events::Software;
use perf_event::{Builder, Sampler};
use rustix::fd::{AsFd, BorrowedFd};
use std::os::fd::AsRawFd;

/// How many bytes of records the kernel keeps: some hundred births. Were more not read, the last would still be told of.
const BUFFER: usize = 4096;

/// What one thread begins. Its descriptor becomes readable when it has begun another thread or a process.
pub struct Children {
    sampler: Sampler,
}

impl std::fmt::Debug for Children {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Children").field("descriptor", &self.sampler.as_raw_fd()).finish()
    }
}

impl Children {
    /// Those of thread `tid`, from now on.
    ///
    /// # Errors
    /// It is gone or not ours, we lack the privilege, or this kernel does not tell.
    pub fn of_thread(tid: u32) -> Result<Children> {
        let raw = i32::try_from(tid).map_err(|_| Error::Gone(tid))?;
        let mut builder = Builder::new(Software::DUMMY);
        builder.task(true).wakeup_watermark(1).observe_pid(raw).any_cpu();
        let begun = builder.build().and_then(|counter| counter.sampled(BUFFER)).and_then(|mut sampler| {
            sampler.as_counter_mut().enable()?;
            Ok(Children { sampler })
        });
        begun.map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => Error::Gone(tid),
            _ => refused(error, format!("be told what thread {tid} begins")),
        })
    }

    /// Forgets what was told so far. Who asks looks for itself.
    pub fn clear(&mut self) {
        while self.sampler.next_record().is_some() {}
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the sampler is, which we own and which outlives what is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.sampler.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::event::Waiting;
    use sched::Nanos;

    #[test]
    fn what_a_thread_begins_is_told_at_once() {
        let mut children = match Children::of_thread(crate::thread::current()) {
            Ok(children) => children,
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                return eprintln!("SKIPPED: {refused}");
            }
            Err(other) => panic!("{other}"),
        };
        let waiting = Waiting::new().unwrap();
        waiting.add(&children, 7).unwrap();
        assert_eq!(waiting.next(now() + Nanos::ms(2)).unwrap(), None);
        std::thread::spawn(|| ()).join().unwrap();
        assert_eq!(waiting.next(now() + Nanos::s(5)).unwrap(), Some(7));
        children.clear();
        assert_eq!(waiting.next(now() + Nanos::ms(2)).unwrap(), None);
        assert!(matches!(Children::of_thread(u32::MAX >> 2), Err(Error::Gone(_))));
    }
}
