//! A stream in small batches: the time from the due instant of each batch to its completion.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second, ratio};
use sched::{Instant, Nanos};
use trace::Durations;

/// The gauge of batches. Batch number n, counted from 1, is due n intervals after the arrival of the application. Every
/// completed job is a batch.
#[derive(Debug)]
pub(super) struct Batches {
    interval: Nanos,
    records: u64,
    began: Option<Instant>,
    over: Option<Instant>,
    done: u64,
    took: Durations,
    /// Instant at which counting started.
    from: Instant,
    /// Number of batches completed before counting started.
    before: u64,
}

impl Batches {
    pub(super) fn new(interval: Nanos, records: u64) -> Batches {
        let (from, before) = (Instant::ZERO, 0);
        Batches { interval, records, began: None, over: None, done: 0, took: Durations::default(), from, before }
    }
}

impl Gauge for Batches {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Came => {
                self.began.get_or_insert(at);
            }
            Fact::Left => self.over = self.over.or(Some(at)),
            Fact::Done => {
                self.done += 1;
                let due = self.interval.saturating_mul(self.done);
                self.took.record(at.saturating_since(self.began.unwrap_or(at).saturating_add(due)));
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        if self.began.is_some() {
            (self.from, self.before, self.took) = (at, self.done, Durations::default());
        }
    }

    fn read(&mut self, end: Instant) -> Reading {
        let (began, over) = (self.began.unwrap_or(end), self.over.unwrap_or(end));
        let there = over.saturating_since(began);
        let (batches, counted) = (self.done - self.before, over.saturating_since(began.max(self.from)));
        let come = there.as_ns() / self.interval.as_ns();
        let mut reading = Reading::default();
        reading.add("batches", batches);
        // An application that has ended has no open batches.
        let open = if self.over.is_some() { 0 } else { come.saturating_sub(self.done) };
        reading.add("open", open);
        reading.add("batches_per_s_milli", per_second(batches, counted));
        if self.records > 0 {
            let records = batches.saturating_mul(self.records);
            reading.add("records_per_s", ratio(records, 1_000_000_000, counted.as_ns()));
        }
        reading.time("latency_p50_ns", self.took.percentile(50));
        reading.time("latency_p95_ns", self.took.percentile(95));
        reading.time("latency_p99_ns", self.took.percentile(99));
        reading.time("latency_max_ns", self.took.longest());
        reading
    }
}
