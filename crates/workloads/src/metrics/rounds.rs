//! The rate of the rounds of a parallel program.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second, ratio};
use sched::{Instant, Nanos};
use trace::Durations;

/// A gauge in which every completed job is a round.
#[derive(Debug)]
pub(super) struct Rounds {
    alone: Nanos,
    bytes: u64,
    flops: u64,
    began: Option<Instant>,
    last: Option<Instant>,
    gone: bool,
    rounds: u64,
    took: Durations,
    /// Whether the current round began before counting started.
    partial: bool,
}

impl Rounds {
    pub(super) fn new(alone: Nanos, bytes: u64, flops: u64) -> Rounds {
        Rounds {
            alone,
            bytes,
            flops,
            began: None,
            last: None,
            gone: false,
            rounds: 0,
            took: Durations::default(),
            partial: false,
        }
    }
}

impl Gauge for Rounds {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Came => {
                self.began.get_or_insert(at);
            }
            Fact::Left => self.gone = true,
            Fact::Done if std::mem::take(&mut self.partial) => (self.began, self.last) = (Some(at), Some(at)),
            Fact::Done => {
                let since = self.last.or(self.began).unwrap_or(at);
                self.took.record(at.saturating_since(since));
                (self.last, self.rounds) = (Some(at), self.rounds + 1);
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        // A round in progress at the start of counting does not count.
        self.partial = self.began.is_some();
        self.began = self.began.map(|began| began.max(at));
        (self.rounds, self.took) = (0, Durations::default());
    }

    fn read(&mut self, end: Instant) -> Reading {
        // An unfinished round does not count, but a program that hangs in this round must not appear fast.
        let over = self.last.filter(|&last| self.gone || end.saturating_since(last) <= self.took.longest());
        let took = over.unwrap_or(end).saturating_since(self.began.unwrap_or(end));
        let mut reading = Reading::default();
        reading.add("rounds", self.rounds);
        reading.add("rounds_per_s_milli", per_second(self.rounds, took));
        if self.bytes > 0 {
            let moved = self.rounds.saturating_mul(self.bytes);
            // One byte per nanosecond is a thousand megabytes per second.
            reading.add("mb_per_s", ratio(moved, 1_000, took.as_ns()));
        }
        if self.flops > 0 {
            let done = self.rounds.saturating_mul(self.flops);
            // One operation per nanosecond is a thousand million operations per second.
            reading.add("mflop_per_s_milli", ratio(done, 1_000_000, took.as_ns()));
        }
        reading.time("round_p50_ns", self.took.percentile(50));
        reading.time("round_p99_ns", self.took.percentile(99));
        reading.time("round_max_ns", self.took.longest());
        let needed = self.alone.saturating_mul(self.rounds);
        reading.add("speed_ppm", ratio(needed.as_ns(), 1_000_000, took.as_ns()));
        reading
    }
}
