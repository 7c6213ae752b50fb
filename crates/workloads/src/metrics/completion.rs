//! Time from the start of an application to its end.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, ratio};
use sched::{Instant, Nanos};

/// The gauge of the time from the arrival of the first task to the end of the last.
#[derive(Debug)]
pub(super) struct Completion {
    alone: Option<Nanos>,
    began: Option<Instant>,
    over: Instant,
    there: u64,
}

impl Completion {
    pub(super) fn new(alone: Option<Nanos>) -> Completion {
        Completion { alone, began: None, over: Instant::ZERO, there: 0 }
    }
}

impl Gauge for Completion {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Came => {
                self.began.get_or_insert(at);
                self.there += 1;
            }
            Fact::Left => {
                self.there -= 1;
                self.over = at;
            }
            _ => {}
        }
    }

    // The completion time includes the warm-up.
    fn begin(&mut self, _: Instant) {}

    fn read(&mut self, end: Instant) -> Reading {
        let unfinished = self.there > 0 || self.began.is_none();
        let over = if unfinished { end } else { self.over };
        let took = over.saturating_since(self.began.unwrap_or(end));
        let mut reading = Reading::default();
        reading.time("took_ns", took);
        reading.add("unfinished", u64::from(unfinished));
        if let Some(alone) = self.alone {
            // For an unfinished application, this value is an upper bound.
            reading.add("speed_ppm", ratio(alone.as_ns(), 1_000_000, took.max(Nanos::ns(1)).as_ns()));
        }
        reading
    }
}
