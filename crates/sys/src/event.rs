//! Waiting for several events at once, and wake-ups by another thread.

use crate::clock::{now, timespec};
use crate::{Error, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::futex;
use sched::Instant;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// A counter of rings, with a file descriptor that becomes readable when a thread rings the bell.
#[derive(Debug)]
pub struct Bell {
    handle: OwnedFd,
}

impl Bell {
    /// Creates a bell that has not been rung.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new() -> Result<Bell> {
        match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
            Ok(handle) => Ok(Bell { handle }),
            Err(errno) => Err(Error::from(errno, "create an eventfd", "use a kernel with eventfd")),
        }
    }

    /// Rings the bell, and so wakes a thread that waits for the bell.
    pub fn ring(&self) {
        // The write fails only after 2^64 − 2 unread rings. In that case, the bell is already readable.
        let _ = rustix::io::write(&self.handle, &1_u64.to_ne_bytes());
    }

    /// Returns the number of rings since the last call.
    #[must_use]
    pub fn rings(&self) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.handle, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// A gate at which one thread waits until another thread opens it. Opening an open gate takes no system call.
#[derive(Debug, Default)]
pub struct Gate {
    /// 1 while the gate is open.
    open: AtomicU32,
}

impl Gate {
    /// Creates a closed gate.
    #[must_use]
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Opens the gate. The waiting thread, or the next thread at the gate, passes.
    pub fn open(&self) {
        // A thread that passes the gate sees all earlier stores of this thread.
        if self.open.swap(1, Ordering::SeqCst) == 0 {
            // The call fails only for an invalid address.
            let _ = futex::wake(&self.open, futex::Flags::PRIVATE, 1);
        }
    }

    /// Waits until the gate is open, and then closes the gate.
    pub fn pass(&self) {
        while self.open.swap(0, Ordering::SeqCst) == 0 {
            // Another thread opened the gate in the meantime, or a signal arrived. The loop checks again in both cases.
            let _ = futex::wait(&self.open, futex::Flags::PRIVATE, 0, None);
        }
    }
}

/// A set of event sources, each with a number that the caller chooses.
#[derive(Debug)]
pub struct Waiting {
    handle: OwnedFd,
}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Waiting {
    /// Creates an empty set.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new() -> Result<Waiting> {
        match epoll::create(CreateFlags::CLOEXEC) {
            Ok(handle) => Ok(Waiting { handle }),
            Err(errno) => Err(Error::from(errno, "create an epoll instance", "use a kernel with epoll")),
        }
    }

    /// Adds `source`. Closing the source removes it from the set.
    ///
    /// # Errors
    /// The source is in the set already, or cannot be waited for.
    pub fn add(&self, source: impl AsFd, number: u64) -> Result<()> {
        epoll::add(&self.handle, source, EventData::new_u64(number), EventFlags::IN).map_err(|errno| {
            Error::from(errno, format!("wait for source {number}"), "use a descriptor that can be polled")
        })
    }

    /// Adds `source`, edge-triggered: the source is reported once each time it becomes readable. Intended for sources
    /// that stay readable permanently.
    ///
    /// # Errors
    /// The source is in the set already, or cannot be waited for.
    pub fn add_edges(&self, source: impl AsFd, number: u64) -> Result<()> {
        epoll::add(&self.handle, source, EventData::new_u64(number), EventFlags::IN | EventFlags::ET).map_err(|errno| {
            Error::from(errno, format!("wait for source {number}"), "use a descriptor that can be polled")
        })
    }

    /// Adds the socket `source`, which is reported once: when the other end is closed. Received data is not reported.
    ///
    /// # Errors
    /// The source is in the set already, or cannot be waited for.
    pub fn add_hang_up(&self, source: impl AsFd, number: u64) -> Result<()> {
        epoll::add(&self.handle, source, EventData::new_u64(number), EventFlags::RDHUP | EventFlags::ET)
            .map_err(|errno| Error::from(errno, format!("wait for source {number}"), "use a socket with another end"))
    }

    /// Removes `source`.
    ///
    /// # Errors
    /// The source is not in the set.
    pub fn remove(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.handle, source)
            .map_err(|errno| Error::from(errno, "stop waiting for a source", "use a source that was added"))
    }

    /// Waits until `end` for a readable source. Returns the number of the source; `None` if no source has become
    /// readable. Does not allocate memory. If several sources are readable, successive calls return them in turn.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn next(&self, end: Instant) -> Result<Option<u64>> {
        self.next_from(now(), end)
    }

    /// Waits as [`next`](Waiting::next) does, for a caller that has just read the clock.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn next_from(&self, mut at: Instant, end: Instant) -> Result<Option<u64>> {
        loop {
            let left = timespec(end.saturating_since(at).as_ns());
            let limit = if end == Instant::NEVER { None } else { Some(&left) };
            let mut ready = [MaybeUninit::<epoll::Event>::uninit(); 1];
            match epoll::wait(&self.handle, &mut ready, limit) {
                Ok((events, _)) => {
                    // The value is copied because the field is not aligned.
                    return Ok(events.first().map(|event| { event.data }.u64()));
                }
                Err(Errno::INTR) => at = now(),
                Err(errno) => return Err(Error::from(errno, "wait", "use the descriptor of an epoll instance")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::clock::Timer;
    use crate::process::Process;
    use sched::Nanos;

    #[test]
    fn bells_timers_and_ends_of_processes_are_waited_for_together() {
        let (waiting, bell, timer) = (Waiting::new().unwrap(), Bell::new().unwrap(), Timer::new().unwrap());
        let child = Child::start(Work::Sleep).unwrap();
        let process = Process::open(child.pid()).unwrap();
        waiting.add(&bell, 1).unwrap();
        waiting.add(&timer, 2).unwrap();
        waiting.add(&process, 3).unwrap();
        assert!(waiting.add(&bell, 4).is_err());
        let begin = now();
        assert_eq!(waiting.next(begin + Nanos::ms(1)).unwrap(), None);
        assert!(now() >= begin + Nanos::ms(1));
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            assert_eq!(waiting.next(Instant::NEVER).unwrap(), Some(1));
        });
        bell.ring();
        assert_eq!((bell.rings(), bell.rings()), (2, 0));
        timer.set(now() + Nanos::us(200)).unwrap();
        assert_eq!(waiting.next(Instant::NEVER).unwrap(), Some(2));
        assert!(timer.went_off());
        process.kill().unwrap();
        assert_eq!(waiting.next(Instant::NEVER).unwrap(), Some(3));
        waiting.remove(&process).unwrap();
        waiting.add_edges(&process, 5).unwrap();
        assert_eq!((waiting.next(Instant::NEVER).unwrap(), waiting.next(Instant::ZERO).unwrap()), (Some(5), None));
        waiting.remove(&process).unwrap();
        assert_eq!(waiting.next(Instant::ZERO).unwrap(), None);
        assert!(waiting.remove(&process).is_err());
    }

    #[test]
    fn a_socket_reports_once_that_its_other_end_is_closed() {
        use std::io::Write;
        use std::os::unix::net::UnixStream;
        let (waiting, (ours, mut theirs)) = (Waiting::new().unwrap(), UnixStream::pair().unwrap());
        waiting.add_hang_up(&ours, 7).unwrap();
        theirs.write_all(b"data").unwrap();
        assert_eq!(waiting.next(Instant::ZERO).unwrap(), None);
        drop(theirs);
        assert_eq!((waiting.next(Instant::NEVER).unwrap(), waiting.next(Instant::ZERO).unwrap()), (Some(7), None));
    }

    #[test]
    fn a_gate_lets_through_once_however_often_it_was_opened() {
        let (gate, passed) = (Gate::new(), AtomicU32::new(0));
        gate.open();
        gate.open();
        gate.pass();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    gate.pass();
                    passed.fetch_add(1, Ordering::SeqCst);
                }
            });
            crate::clock::sleep(Nanos::ms(5));
            assert_eq!(passed.load(Ordering::SeqCst), 0, "it is shut again");
            for nth in 1..=1_000 {
                gate.open();
                while passed.load(Ordering::SeqCst) < nth {
                    std::thread::yield_now();
                }
            }
        });
    }
}
