//! A sound card's buffer: it is filled period by period, plays on, and clicks where it runs empty.

use super::Grade;
use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use sched::{Instant, Nanos};

/// Sound that is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sound {
    /// How much is written at once. Range: above zero.
    pub period: Nanos,
    /// How many of them the buffer holds. Range: 1 ….
    pub periods: u32,
}

/// The buffer: every job that the player completes adds one period to it. It begins to play when it is full for the first time, and
/// plays on as soon as there is something again. What comes when it is full is not heard: sound that is late is not made up for.
#[derive(Debug)]
pub(super) struct Buffer {
    sound: Sound,
    /// How much is in it, as of `upto`.
    level: Nanos,
    upto: Instant,
    plays: bool,
    /// Since when it has been empty, while it should play.
    empty: Option<Instant>,
    began: Instant,
    underruns: u64,
    silence: Nanos,
    filled: u64,
    over: Option<Instant>,
}

impl Buffer {
    pub(super) fn new(sound: Sound) -> Buffer {
        Buffer {
            sound,
            level: Nanos::ZERO,
            upto: Instant::ZERO,
            plays: false,
            empty: None,
            began: Instant::ZERO,
            underruns: 0,
            silence: Nanos::ZERO,
            filled: 0,
            over: None,
        }
    }

    fn play_to(&mut self, at: Instant) {
        if self.plays && self.empty.is_none() {
            let passed = at.saturating_since(self.upto);
            if passed > self.level {
                self.empty = Some(self.upto.saturating_add(self.level));
                self.underruns += 1;
            }
            self.level = self.level.saturating_sub(passed);
        }
        self.upto = at;
    }

    fn fill(&mut self, at: Instant) {
        self.play_to(at);
        let most = self.sound.period.saturating_mul(u64::from(self.sound.periods));
        self.level = (self.level + self.sound.period).min(most);
        self.filled += 1;
        if let Some(since) = self.empty.take() {
            self.silence += at.saturating_since(since);
        }
        if !self.plays && self.level == most {
            (self.plays, self.began) = (true, at);
        }
    }
}

impl Gauge for Buffer {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Done => self.fill(at),
            // A player that has ended leaves the rest to the card.
            Fact::Left => self.over = self.over.or(Some(at)),
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        self.play_to(self.over.map_or(at, |over| over.min(at)));
        self.began = self.began.max(at);
        self.empty = self.empty.map(|since| since.max(at));
        (self.underruns, self.silence, self.filled) = (0, Nanos::ZERO, 0);
    }

    fn read(&mut self, end: Instant) -> Reading {
        let end = self.over.unwrap_or(end);
        self.play_to(end);
        if let Some(since) = self.empty {
            self.silence += end.saturating_since(since);
        }
        let played = if self.plays { end.saturating_since(self.began) } else { Nanos::ZERO };
        let mut reading = Reading::default();
        reading.add("underruns", self.underruns);
        reading.time("silence_ns", self.silence);
        reading.add("periods", self.filled);
        reading.add("sound_grade", self.grade(played).number());
        reading
    }
}

impl Buffer {
    fn grade(&self, played: Nanos) -> Grade {
        // Less than a minute counts as one: a single click in a short run is a single click.
        let minutes = played.max(Nanos::s(60)).as_ns();
        let clicks = super::reading::ratio(self.underruns, 60_000_000_000, minutes);
        match (self.filled, self.plays) {
            (0, _) | (_, false) => Grade::Jitter,
            // A click every two minutes rounds to none, but is not nothing.
            _ if clicks == 0 && self.underruns > 0 => Grade::Tiny,
            // Sound that is away for a tenth of the time is no sound, however seldom it comes and goes.
            _ if self.silence.as_ns() > played.as_ns() / 10 => Grade::Jitter,
            _ => Grade::of(&clicks, &Grade::CLICKS_PER_MINUTE),
        }
    }
}
