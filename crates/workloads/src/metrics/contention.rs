//! Playback of load: the number of runnable tasks.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, ratio};
use sched::{Instant, Nanos};

/// The integral of the number of runnable tasks over time.
#[derive(Debug)]
pub(super) struct Contention {
    asked_milli: u64,
    began: Option<Instant>,
    upto: Instant,
    /// Roles of the tasks that are currently runnable.
    awake: std::collections::BTreeSet<String>,
    there: u64,
    /// Sum of the times for which each task was runnable, since counting started. Unit: nanoseconds.
    whole: u64,
    /// The same sum for the current second. Unit: nanoseconds.
    second: u64,
    /// Mean number of runnable tasks in each completed second. Unit: thousandths.
    seconds: Vec<u64>,
}

const SECOND: Nanos = Nanos::s(1);

impl Contention {
    pub(super) fn new(asked_milli: u64) -> Contention {
        Contention {
            asked_milli,
            began: None,
            upto: Instant::ZERO,
            awake: std::collections::BTreeSet::new(),
            there: 0,
            whole: 0,
            second: 0,
            seconds: Vec::new(),
        }
    }

    /// Adds the time up to `at`, second by second.
    fn count_to(&mut self, at: Instant) {
        let Some(began) = self.began else { return };
        let many = self.awake.len() as u64;
        while self.upto < at {
            let next = began.saturating_add(SECOND.saturating_mul(self.seconds.len() as u64 + 1));
            let to = next.min(at);
            let time = many.saturating_mul(to.saturating_since(self.upto).as_ns());
            self.whole = self.whole.saturating_add(time);
            self.second = self.second.saturating_add(time);
            self.upto = to;
            if to == next {
                self.seconds.push(std::mem::take(&mut self.second) / 1_000_000);
            }
        }
    }
}

impl Gauge for Contention {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        if self.began.is_none() {
            (self.began, self.upto) = (Some(at), at);
        }
        self.count_to(at);
        match fact {
            Fact::Came => self.there += 1,
            Fact::Awake => {
                self.awake.insert(role.to_string());
            }
            Fact::Asleep => {
                self.awake.remove(role);
            }
            Fact::Left => {
                self.awake.remove(role);
                self.there -= 1;
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        if self.began.is_some() {
            // Time after the departure of the last task does not count.
            self.count_to(if self.there == 0 { self.upto } else { at });
            (self.began, self.upto) = (Some(at), self.upto.max(at));
            (self.whole, self.second, self.seconds) = (0, 0, Vec::new());
        }
    }

    fn read(&mut self, end: Instant) -> Reading {
        // The playback ends with the departure of the last task.
        let over = if self.there == 0 { self.upto } else { end };
        self.count_to(over);
        let there = over.saturating_since(self.began.unwrap_or(over));
        let mut reading = Reading::default();
        reading.add("contention_milli", ratio(self.whole, 1_000, there.as_ns()));
        reading.add("asked_milli", self.asked_milli);
        reading.series.0.push(("contention_milli", std::mem::take(&mut self.seconds)));
        reading
    }
}
