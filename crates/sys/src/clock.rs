//! The monotonic clock: its time, sleeping until an instant, and timers for which a thread can wait together with other
//! events.

use crate::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use sched::{Instant, Nanos};
use std::num::NonZeroU64;

/// Returns the time of CLOCK_MONOTONIC.
#[must_use]
pub fn now() -> Instant {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Instant::at_ns(tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs())
}

/// Returns the time of CLOCK_REALTIME. Unit: ns since 1970.
pub(crate) fn real_now_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}

/// Returns the CPU time of the calling thread up to now (CLOCK_THREAD_CPUTIME_ID).
#[must_use]
pub fn thread_time() -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Nanos::ns(tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs())
}

/// Converts nanoseconds into a `timespec`.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).expect("a moment of a 64-bit clock in ns is few seconds"),
        tv_nsec: i64::try_from(ns % 1_000_000_000).expect("below a second"),
    }
}

/// Sleeps until `at`; returns at once if `at` has passed. Signals do not interrupt the sleep.
///
/// # Panics
/// A filter of system calls forbids both `clock_nanosleep` and `ppoll`.
pub fn sleep_until(at: Instant) {
    let request = timespec(at.as_ns());
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &request) {
            Ok(()) => return,
            Err(Errno::INTR) => {}
            // The kernel refuses no instant of its clock, but a filter can forbid the call.
            Err(_) => return poll_until(at),
        }
    }
}

/// Sleeps until `at` as [`sleep_until`] does, by `ppoll`.
fn poll_until(at: Instant) {
    loop {
        let left = at.saturating_since(now());
        match rustix::event::poll(&mut [], Some(&timespec(left.as_ns()))) {
            Err(Errno::INTR) => {}
            Ok(_) if now() < at => {}
            Ok(_) => return,
            Err(errno) => panic!("no call can wait for a time: {errno}"),
        }
    }
}

/// Sleeps for `length`.
///
/// # Panics
/// See [`sleep_until`].
pub fn sleep(length: Nanos) {
    sleep_until(now().saturating_add(length));
}

/// Returns the timer slack of the calling thread: the maximum delay that the kernel may add to the thread's timers, so
/// that timers expire together. In real-time classes, the kernel adds no delay. Children inherit the slack.
///
/// # Errors
/// The kernel does not report the slack.
pub fn slack() -> Result<Nanos> {
    match rustix::thread::current_timer_slack() {
        Ok(ns) => Ok(Nanos::ns(ns)),
        Err(errno) => Err(Error::from(errno, "read the timer slack of this thread", "use a kernel with timer slack")),
    }
}

/// Sets the timer slack of the calling thread. A `slack` of zero sets the minimum, 1 ns.
///
/// # Errors
/// The kernel lacks timer slack.
pub fn set_slack(slack: Nanos) -> Result<()> {
    let ns = NonZeroU64::new(slack.as_ns()).unwrap_or(NonZeroU64::MIN);
    rustix::thread::set_current_timer_slack(Some(ns)).map_err(|errno| {
        Error::from(errno, format!("set the timer slack of this thread to {slack}"), "use at least 1ns")
    })
}

/// An iterator that sleeps until equidistant instants, and returns the lateness of each wake-up.
#[derive(Debug)]
pub struct Beats {
    due: Instant,
    interval: Nanos,
}

impl Beats {
    /// Returns an iterator whose instants are `interval` apart. The first instant is one `interval` from now.
    ///
    /// # Panics
    /// `interval` is zero.
    #[must_use]
    pub fn every(interval: Nanos) -> Beats {
        assert!(!interval.is_zero(), "a grid needs an interval");
        Beats { due: now(), interval }
    }
}

impl Iterator for Beats {
    type Item = Nanos;

    /// Sleeps until the next instant, and returns the lateness. Skips missed instants.
    fn next(&mut self) -> Option<Nanos> {
        let past = now().saturating_since(self.due).as_ns() / self.interval.as_ns();
        self.due = self.due.saturating_add(self.interval.saturating_mul(past + 1));
        sleep_until(self.due);
        Some(now().saturating_since(self.due))
    }
}

/// A timer that becomes readable at an instant of the monotonic clock.
#[derive(Debug)]
pub struct Timer {
    handle: OwnedFd,
}

impl Timer {
    /// Creates an unarmed timer.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new() -> Result<Timer> {
        match timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK) {
            Ok(handle) => Ok(Timer { handle }),
            Err(errno) => Err(Error::from(errno, "create a timer", "use a kernel with timerfd")),
        }
    }

    /// Returns the timer that another process has [shared](Timer::share) with this one.
    #[must_use]
    pub fn shared(handle: OwnedFd) -> Timer {
        Timer { handle }
    }

    /// Returns another handle to this timer, for another process. The timer goes off also if this process has ended or is stopped, and each
    /// expiry is reported to one of the processes.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn share(&self) -> Result<OwnedFd> {
        let remedy = "raise the limit of open files (ulimit -n)";
        self.handle.try_clone().map_err(|error| Error::from(error, "share a timer", remedy))
    }

    /// Arms the timer for `at`. The timer expires at once if `at` has passed. [`Instant::NEVER`] disarms the timer.
    /// Replaces an earlier setting.
    ///
    /// # Errors
    /// A filter of system calls forbids timers. The kernel itself refuses no instant.
    pub fn set(&self, at: Instant) -> Result<()> {
        // The value zero would disarm the timer.
        let value = if at == Instant::NEVER { timespec(0) } else { timespec(at.as_ns().max(1)) };
        let to = Itimerspec { it_interval: timespec(0), it_value: value };
        timerfd_settime(&self.handle, TimerfdTimerFlags::ABSTIME, &to)
            .map(drop)
            .map_err(|errno| Error::from(errno, "arm a timer", ""))
    }

    /// Returns whether the timer has expired. Each expiry is reported once, and not after the timer is set again.
    #[must_use]
    pub fn went_off(&self) -> bool {
        let mut times = [0; 8];
        rustix::io::read(&self.handle, &mut times).is_ok()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        let before = now();
        sleep_until(before);
        sleep_until(before + Nanos::ms(2));
        assert!(now() >= before + Nanos::ms(2));
    }

    #[test]
    fn a_thread_has_cpu_time_while_it_runs_and_none_while_it_sleeps() {
        let (begin, before) = (now(), thread_time());
        while thread_time() < before + Nanos::ms(2) {}
        assert!(now() >= begin + Nanos::ms(2), "no thread has more CPU time than passes");
        let before = thread_time();
        sleep(Nanos::ms(50));
        assert!(thread_time() < before + Nanos::ms(25));
    }

    #[test]
    fn beats_keep_their_grid() {
        let begin = now();
        let mut beats = Beats::every(Nanos::us(300));
        let grid = beats.due;
        for late in beats.by_ref().take(20) {
            assert!(late < Nanos::s(60), "{late}");
        }
        assert!(now() >= begin + Nanos::us(300 * 20));
        assert_eq!(beats.due.since(grid).as_ns() % 300_000, 0);
        sleep(Nanos::ms(2));
        let late = beats.next().unwrap();
        assert!(beats.due > begin + Nanos::us(300 * 20 + 2_000), "points that are past are left out: {late}");
    }

    #[test]
    fn a_timer_goes_off_once_and_not_before() {
        let timer = Timer::new().unwrap();
        assert!(!timer.went_off());
        let due = now() + Nanos::ms(2);
        timer.set(due).unwrap();
        while !timer.went_off() {
            sleep(Nanos::us(100));
        }
        assert!(now() >= due);
        assert!(!timer.went_off());
        timer.set(Instant::ZERO).unwrap();
        assert!(timer.went_off(), "what is past goes off at once");
        timer.set(now() + Nanos::us(100)).unwrap();
        timer.set(Instant::NEVER).unwrap();
        sleep(Nanos::ms(1));
        assert!(!timer.went_off(), "it was unset");
    }

    #[test]
    fn slack_is_a_threads_own() {
        std::thread::spawn(|| {
            set_slack(Nanos::us(1)).unwrap();
            assert_eq!(slack().unwrap(), Nanos::us(1));
        })
        .join()
        .unwrap();
        assert_ne!(slack().unwrap(), Nanos::us(1));
    }
}
