//! How late timers wake who waits for them: a thread that sleeps on a grid, in one class or another.

use crate::Reason;
use hdrhistogram::Histogram;
use sched::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use sys::attributes::{self, Attributes, Policy};
use sys::clock::{self, Beats};

/// The longest lateness that is told apart from longer ones.
const LONGEST: Nanos = Nanos::s(60);
/// The priority of the real-time thread: that of the agents which will dispatch.
const PRIORITY: u32 = 98;

/// The class of the thread that is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// SCHED_OTHER, as programs are that ask for nothing.
    Other,
    /// SCHED_FIFO.
    Fifo,
}

impl Class {
    /// Both.
    pub const ALL: [Class; 2] = [Class::Other, Class::Fifo];

    /// The kernel's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Other => "SCHED_OTHER",
            Class::Fifo => "SCHED_FIFO",
        }
    }

    /// Puts the calling thread into it.
    fn enter(self) -> sys::Result<()> {
        let me = sys::thread::current();
        match self {
            Class::Fifo => attributes::set(me, Attributes::raised(PRIORITY)),
            // Whatever nice value we were begun with.
            Class::Other if matches!(attributes::get(me)?.policy, Policy::Other { .. }) => Ok(()),
            Class::Other => attributes::set(me, Attributes::of(Policy::Other { nice: 0 })),
        }
    }
}

/// How late wake-ups were.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// How often the thread was woken.
    pub wakeups: u64,
    /// Half of them were later than this.
    pub p50: Nanos,
    /// One in a hundred was later than this.
    pub p99: Nanos,
    /// None was later than this.
    pub longest: Nanos,
    /// By how much the kernel was allowed to delay them.
    pub slack: Nanos,
}

/// What came of both classes.
pub type Measured = [(Class, Result<Lateness, Reason>); 2];

/// Has a thread of each class, at the same time and half an interval apart, sleep on a grid of `interval` for `length`.
/// `progress` is told now and then how much of it has passed. The threads sleep nearly always, and end with the call.
///
/// # Panics
/// `interval` is zero.
pub fn measure(interval: Nanos, length: Nanos, progress: &mut dyn FnMut(Nanos)) -> Measured {
    assert!(!interval.is_zero(), "a grid needs an interval");
    let times = length.as_ns().div_ceil(interval.as_ns());
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let mut delay = Nanos::ZERO;
        let threads = Class::ALL.map(|class| {
            let (done, later) = (&done, delay);
            delay = Nanos::ns(interval.as_ns() / 2);
            let body = move || {
                clock::sleep(later);
                sleep_in(class, interval, times, done)
            };
            (class, thread::Builder::new().name(format!("tactus-{}", class.name())).spawn_scoped(scope, body))
        });
        let is_over = || threads.iter().all(|(_, thread)| thread.as_ref().map_or(true, |thread| thread.is_finished()));
        while !is_over() {
            clock::sleep(Nanos::ms(50));
            progress(interval.saturating_mul(done.load(Ordering::Relaxed)).min(length));
        }
        threads.map(|(class, thread)| {
            let outcome = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(Reason::new("the thread ended early", ""))),
                Err(error) => Err(Reason::new(format!("cannot begin a thread: {error}"), "fewer threads")),
            };
            (class, outcome)
        })
    })
}

/// What this thread, in that class, is late by.
fn sleep_in(class: Class, interval: Nanos, times: u64, done: &AtomicU64) -> Result<Lateness, Reason> {
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, LONGEST.as_ns(), 3).map_err(|error| Reason::new(error.to_string(), ""))?;
    let mut longest = Nanos::ZERO;
    class.enter()?;
    let slack = if class == Class::Fifo { Nanos::ZERO } else { clock::slack()? };
    let begin = clock::now();
    // Points that were missed are not slept for again.
    let most = interval.saturating_mul(times);
    for late in Beats::every(interval) {
        histogram.saturating_record(late.as_ns().max(1));
        longest = longest.max(late);
        let passed = clock::now().saturating_since(begin);
        done.store(passed.as_ns() / interval.as_ns(), Ordering::Relaxed);
        if passed >= most {
            break;
        }
    }
    let at = |percent: f64| Nanos::ns(histogram.value_at_percentile(percent)).min(longest);
    Ok(Lateness { wakeups: histogram.len(), p50: at(50.0), p99: at(99.0), longest, slack })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_measured_in_each_class_that_is_permitted() {
        let mut told = Vec::new();
        let begin = clock::now();
        let measured = measure(Nanos::ms(1), Nanos::ms(300), &mut |passed| told.push(passed));
        assert!(clock::now() >= begin + Nanos::ms(300));
        assert!(told.is_sorted() && told.last().is_some_and(|&last| last <= Nanos::ms(300)), "{told:?}");
        for (class, lateness) in measured {
            match lateness {
                Ok(found) => {
                    assert!((1..=301).contains(&found.wakeups), "{found:?}");
                    assert!(found.p50 <= found.p99 && found.p99 <= found.longest, "{found:?}");
                    assert_eq!(found.slack.is_zero(), class == Class::Fifo, "{found:?}");
                }
                Err(reason) => {
                    assert_eq!(class, Class::Fifo, "{reason:?}");
                    eprintln!("SKIPPED: {}", reason.why);
                }
            }
        }
    }
}
