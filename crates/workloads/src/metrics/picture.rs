//! A film: its frames, its sound and its duration.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second};
use super::sound::Buffer;
use super::{Grade, Sound, beats::Intervals};
use sched::{Instant, Nanos};
use trace::Durations;

/// The parameters of a film.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Film {
    /// Time from one frame to the next. Range: above zero.
    pub period: Nanos,
    /// Number of frames. Minimum: 1.
    pub frames: u64,
    /// Sound of the film, if any.
    pub sound: Option<Sound>,
}

/// The gauge of a film. Task `picture` ends a job with each frame that it shows, and reports a skipped timer expiration
/// for each dropped frame. The events of task `sound` go to the buffer.
#[derive(Debug)]
pub(super) struct Picture {
    film: Film,
    buffer: Option<Buffer>,
    began: Option<Instant>,
    last: Instant,
    shown: u64,
    dropped: u64,
    seconds: Vec<u64>,
    intervals: Intervals,
}

impl Picture {
    pub(super) fn new(film: Film) -> Picture {
        Picture {
            film,
            buffer: film.sound.map(Buffer::new),
            began: None,
            last: Instant::ZERO,
            shown: 0,
            dropped: 0,
            seconds: Vec::new(),
            intervals: Intervals::new(film.period),
        }
    }

    fn show(&mut self, at: Instant) {
        let since = at.saturating_since(self.began.unwrap_or(at));
        // A frame that is shown exactly at the end of a second belongs to that second.
        let second = usize::try_from(since.as_ns().saturating_sub(1) / 1_000_000_000).unwrap_or(usize::MAX);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += 1;
        self.shown += 1;
        self.last = at;
        self.intervals.note(at);
    }
}

impl Gauge for Picture {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        if fact == Fact::Came {
            self.began.get_or_insert(at);
        }
        match (role, fact) {
            ("sound", _) => {
                if let Some(buffer) = &mut self.buffer {
                    buffer.note(at, role, fact);
                }
            }
            (_, Fact::Done) => self.show(at),
            (_, Fact::LeftOut(frames)) => self.dropped += frames,
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        if let Some(buffer) = &mut self.buffer {
            buffer.begin(at);
        }
        self.film.frames -= (self.shown + self.dropped).min(self.film.frames);
        self.began = self.began.map(|began| began.max(at));
        (self.shown, self.dropped, self.seconds, self.intervals.off) = (0, 0, Vec::new(), Durations::default());
    }

    fn read(&mut self, end: Instant) -> Reading {
        let unplayed = self.film.frames.saturating_sub(self.shown + self.dropped);
        let began = self.began.unwrap_or(end);
        let over = if unplayed == 0 { self.last } else { end };
        let playback = over.saturating_since(began);
        // Seconds without a shown frame also count.
        let seconds = usize::try_from(playback.as_ns().div_ceil(1_000_000_000)).unwrap_or(usize::MAX);
        if self.seconds.len() < seconds {
            self.seconds.resize(seconds, 0);
        }
        let mut reading = Reading::default();
        reading.add("fps_milli", per_second(self.shown, playback));
        reading.add("shown", self.shown);
        reading.add("dropped", self.dropped);
        reading.add("unplayed", unplayed);
        reading.time("playback_ns", playback);
        let mut grade = self.intervals.read(&mut reading);
        if let Some(buffer) = &mut self.buffer {
            reading.extend(buffer.read(over));
            grade = grade.max(reading.get("sound_grade").unwrap_or(0));
        }
        if self.shown == 0 {
            grade = Grade::Jitter.number();
        }
        reading.add("grade", grade);
        reading.series.0.push(("shown", std::mem::take(&mut self.seconds)));
        reading
    }
}
