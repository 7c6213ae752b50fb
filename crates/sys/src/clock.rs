//! The monotonic clock, and sleeping until a moment of it.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use sched::{Instant, Nanos};

/// What CLOCK_MONOTONIC says.
#[must_use]
pub fn now() -> Instant {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Instant::at_ns(tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs())
}

/// Sleeps until `at`; returns at once if that is past. Signals do not end it.
///
/// # Panics
/// The kernel has no CLOCK_MONOTONIC.
pub fn sleep_until(at: Instant) {
    let ns = at.as_ns();
    let request = Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).expect("a moment of a 64-bit clock in ns is few seconds"),
        tv_nsec: i64::try_from(ns % 1_000_000_000).expect("below a second"),
    };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &request) {
            Ok(()) => return,
            Err(Errno::INTR) => {}
            Err(errno) => panic!("CLOCK_MONOTONIC cannot be slept on: {errno}"),
        }
    }
}

/// How late `times` sleeps of `interval`, one after the other on a grid, come back.
#[must_use]
pub fn lateness(interval: Nanos, times: u32) -> Vec<Nanos> {
    let mut due = now();
    let one = |_| {
        due = due.saturating_add(interval);
        sleep_until(due);
        let late = now().saturating_since(due);
        // Where a sleep came too late for the next, the grid goes on behind it.
        while due.saturating_add(interval) < now() {
            due = due.saturating_add(interval);
        }
        late
    };
    (0..times).map(one).collect()
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
        assert_eq!(lateness(Nanos::us(200), 20).len(), 20);
    }
}
