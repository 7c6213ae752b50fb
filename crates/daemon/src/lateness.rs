//! Timer lateness, measured with threads of different classes that sleep until equidistant instants.

use crate::Explanation;
use hdrhistogram::Histogram;
use sched::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use sys::attributes::{self, Attributes, Policy};
use sys::clock::{self, Beats};

/// The longest lateness that the histogram resolves.
const LONGEST: Nanos = Nanos::s(60);
/// Priority of the real-time thread, equal to the priority of the agents.
const PRIORITY: u32 = 98;

/// The class of the woken thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// SCHED_OTHER, the default class.
    Other,
    /// SCHED_FIFO.
    Fifo,
}

impl Class {
    /// Both classes of the measurement.
    pub const ALL: [Class; 2] = [Class::Other, Class::Fifo];

    /// Returns the name of the class in the kernel.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Other => "SCHED_OTHER",
            Class::Fifo => "SCHED_FIFO",
        }
    }

    /// Moves the calling thread into the class.
    fn enter(self) -> sys::Result<()> {
        let me = sys::thread::current();
        match self {
            Class::Fifo => attributes::set(me, Attributes::raised(PRIORITY)),
            // The thread keeps an inherited nice value.
            Class::Other if matches!(attributes::get(me)?.policy, Policy::Other { .. }) => Ok(()),
            Class::Other => attributes::set(me, Attributes::of(Policy::Other { nice: 0 })),
        }
    }
}

/// Lateness of wake-ups.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Number of wake-ups.
    pub wakeups: u64,
    /// Median lateness.
    pub p50: Nanos,
    /// 99th percentile of the lateness.
    pub p99: Nanos,
    /// Maximum lateness.
    pub longest: Nanos,
    /// Timer slack: the maximum delay that the kernel may add to a timer of the thread; zero in SCHED_FIFO.
    pub slack: Nanos,
}

/// The results of both classes.
pub type Measured = [(Class, Result<Lateness, Explanation>); 2];

/// Measures for `length` with one thread per class. Each thread wakes at equidistant instants, `interval` apart; the
/// instants of the two threads are half an interval apart. Calls `progress` every 50 ms with the elapsed time. The
/// threads end before this function returns, and sleep almost all the time.
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
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(Explanation::new("the thread ended early", ""))),
                Err(error) => Err(Explanation::new(
                    format!("cannot start a thread: {error}"),
                    "reduce the number of threads, or raise the limit (ulimit -u)",
                )),
            };
            (class, outcome)
        })
    })
}

/// Measures the lateness of this thread in class `class`.
fn sleep_in(class: Class, interval: Nanos, times: u64, done: &AtomicU64) -> Result<Lateness, Explanation> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST.as_ns(), 3)
        .map_err(|error| Explanation::new(error.to_string(), ""))?;
    let mut longest = Nanos::ZERO;
    class.enter()?;
    let slack = if class == Class::Fifo { Nanos::ZERO } else { clock::slack()? };
    let begin = clock::now();
    // The loop ends after this time, not after a number of wake-ups, because [`Beats`] skips missed instants.
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
        let mut passed_times = Vec::new();
        let begin = clock::now();
        let measured = measure(Nanos::ms(1), Nanos::ms(300), &mut |passed| passed_times.push(passed));
        assert!(clock::now() >= begin + Nanos::ms(300));
        assert!(
            passed_times.is_sorted() && passed_times.last().is_some_and(|&last| last <= Nanos::ms(300)),
            "{passed_times:?}"
        );
        for (class, lateness) in measured {
            match lateness {
                Ok(found) => {
                    assert!((1..=301).contains(&found.wakeups), "{found:?}");
                    assert!(found.p50 <= found.p99 && found.p99 <= found.longest, "{found:?}");
                    assert_eq!(found.slack.is_zero(), class == Class::Fifo, "{found:?}");
                }
                Err(reason) => {
                    assert_eq!(class, Class::Fifo, "{reason:?}");
                    eprintln!("SKIPPED: {}", reason.reason);
                }
            }
        }
    }
}
