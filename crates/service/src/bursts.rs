//! [`Bursts`]: when a thread woke up, and how long it then ran and slept.

use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// Number of bursts that are kept, as the interface has them.
const BURSTS_MOST: usize = 1_000;

/// CPU time of a thread from a wake-up until it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Burst {
    at: Instant,
    ran: Nanos,
}

/// The latest bursts of a thread, each with the sleep after it.
#[derive(Debug, Default)]
pub struct Bursts {
    /// The present burst, or the burst before the present sleep; `None`: its start is not known.
    present: Option<Burst>,
    /// CPU time before the first sleep.
    ran_first: Nanos,
    sleeps_since: Option<Instant>,
    past: VecDeque<(Burst, Nanos)>,
}

impl Bursts {
    /// The thread wakes up.
    pub fn wake(&mut self, at: Instant) {
        if let (Some(burst), Some(since)) = (self.present, self.sleeps_since) {
            if self.past.len() == BURSTS_MOST {
                self.past.pop_front();
            }
            self.past.push_back((burst, at.saturating_since(since)));
        }
        (self.present, self.sleeps_since) = (Some(Burst { at, ran: Nanos::ZERO }), None);
    }

    /// The thread has run for `time`.
    pub fn run(&mut self, time: Nanos) {
        match &mut self.present {
            Some(burst) => burst.ran += time,
            None => self.ran_first += time,
        }
    }

    /// The thread begins to sleep.
    pub fn sleep(&mut self, at: Instant) {
        self.sleeps_since = Some(at);
    }

    /// Returns whether the thread sleeps.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.sleeps_since.is_some()
    }

    /// Returns the bursts since `from`, as the interface has them. A thread that has run without a whole burst, and does not
    /// sleep, has one burst with no sleep.
    #[must_use]
    pub fn since(&self, from: Instant) -> Vec<[u64; 3]> {
        let latest = self.past.iter().filter(|(burst, _)| from <= burst.at && !burst.ran.is_zero());
        let mut bursts: Vec<[u64; 3]> =
            latest.map(|(burst, slept)| [burst.at.since(from), burst.ran, *slept].map(Nanos::as_ns)).collect();
        let ran = self.present.map_or(self.ran_first, |burst| burst.ran);
        if bursts.is_empty() && !self.sleeps() && !ran.is_zero() {
            bursts.push([0, ran.as_ns(), 0]);
        }
        bursts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::at_ns(ns)
    }

    #[test]
    fn a_burst_ends_with_the_sleep_after_it() {
        let mut bursts = Bursts::default();
        bursts.run(Nanos::ns(5));
        assert_eq!(bursts.since(at(0)), [[0, 5, 0]], "it has not slept");
        bursts.sleep(at(5));
        assert!(bursts.sleeps());
        // The start of the burst before is not known.
        bursts.wake(at(12));
        for ran in [2, 1] {
            bursts.run(Nanos::ns(ran));
        }
        bursts.sleep(at(18));
        assert_eq!(bursts.since(at(0)), [[0; 3]; 0]);
        bursts.wake(at(27));
        assert_eq!((bursts.since(at(10)), bursts.since(at(13))), (vec![[2, 3, 9]], vec![]));
        bursts.run(Nanos::ns(1));
        for lap in 0..BURSTS_MOST as u64 {
            bursts.sleep(at(30 + 2 * lap));
            bursts.wake(at(31 + 2 * lap));
            bursts.run(Nanos::ns(1));
        }
        assert_eq!((bursts.since(at(0)).len(), bursts.since(at(0))[0]), (BURSTS_MOST, [27, 1, 1]));
    }

    #[test]
    fn a_thread_that_woke_up_and_never_slept_is_busy() {
        let mut bursts = Bursts::default();
        bursts.wake(at(3));
        bursts.run(Nanos::ns(4));
        assert_eq!(bursts.since(at(5)), [[0, 4, 0]]);
    }
}
