//! The regularity of pictures that are due at a fixed rate.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second};
use super::sound::Buffer;
use super::{Grade, Sound};
use sched::{Instant, Nanos};
use trace::Durations;

/// Absolute differences between the period and the actual time from one picture to the next.
#[derive(Debug)]
pub(super) struct Intervals {
    period: Nanos,
    last: Option<Instant>,
    pub(super) off: Durations,
}

impl Intervals {
    pub(super) fn new(period: Nanos) -> Intervals {
        Intervals { period, last: None, off: Durations::default() }
    }

    pub(super) fn note(&mut self, at: Instant) {
        if let Some(last) = self.last.replace(at) {
            let took = at.saturating_since(last).as_ns();
            self.off.record(Nanos::ns(took.abs_diff(self.period.as_ns())));
        }
    }

    /// Adds the values to `reading`, and returns the grade.
    pub(super) fn read(&self, reading: &mut Reading) -> u64 {
        reading.time("jitter_p50_ns", self.off.percentile(50));
        reading.time("jitter_p95_ns", self.off.percentile(95));
        reading.time("jitter_max_ns", self.off.longest());
        Grade::of(&self.off.percentile(95), &Grade::PICTURES).number()
    }
}

/// A gauge in which every completed job is a picture.
#[derive(Debug)]
pub(super) struct Beats {
    intervals: Intervals,
    buffer: Option<Buffer>,
    began: Option<Instant>,
    over: Option<Instant>,
    pictures: u64,
    left_out: u64,
}

impl Beats {
    pub(super) fn new(period: Nanos, sound: Option<Sound>) -> Beats {
        let (intervals, buffer) = (Intervals::new(period), sound.map(Buffer::new));
        Beats { intervals, buffer, began: None, over: None, pictures: 0, left_out: 0 }
    }
}

impl Gauge for Beats {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        match (role, fact) {
            ("sound", _) => {
                if let Some(buffer) = &mut self.buffer {
                    buffer.note(at, role, fact);
                }
            }
            (_, Fact::Came) => self.began = Some(at),
            (_, Fact::Left) => self.over = Some(at),
            (_, Fact::Done) => {
                self.pictures += 1;
                self.intervals.note(at);
            }
            (_, Fact::LeftOut(beats)) => self.left_out += beats,
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        self.began = self.began.map(|began| began.max(at));
        (self.pictures, self.left_out, self.intervals.off) = (0, 0, Durations::default());
        if let Some(buffer) = &mut self.buffer {
            buffer.begin(at);
        }
    }

    fn read(&mut self, end: Instant) -> Reading {
        let over = self.over.unwrap_or(end);
        let there = over.saturating_since(self.began.unwrap_or(over));
        let mut reading = Reading::default();
        reading.add("fps_milli", per_second(self.pictures, there));
        reading.add("pictures", self.pictures);
        reading.add("left_out", self.left_out);
        let mut grade = self.intervals.read(&mut reading);
        if let Some(buffer) = &mut self.buffer {
            reading.extend(buffer.read(over));
            grade = grade.max(reading.get("sound_grade").unwrap_or(0));
        }
        // With fewer than two pictures, there is no interval to grade.
        if self.pictures < 2 {
            grade = Grade::Jitter.number();
        }
        reading.add("grade", grade);
        reading
    }
}
