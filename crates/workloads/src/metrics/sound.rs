//! A sound card's buffer: the player fills it period by period, the card plays continuously, and an empty buffer causes
//! a click.

use super::Grade;
use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use sched::{Instant, Nanos};

/// The parameters of the sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sound {
    /// Duration of a period. The player writes a whole period at a time. Range: above zero.
    pub period: Nanos,
    /// Capacity of the buffer, in periods. Minimum: 1.
    pub periods: u32,
}

/// The buffer of a sound card. Every job that the player completes adds one period. The card starts to play when the
/// buffer is full for the first time, and resumes as soon as the buffer is not empty. Periods that arrive at a full
/// buffer are not played.
#[derive(Debug)]
pub(super) struct Buffer {
    sound: Sound,
    /// Content of the buffer at `upto`.
    level: Nanos,
    upto: Instant,
    plays: bool,
    /// Instant at which the buffer ran empty while the card should play.
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
            // The measurement ends when the player leaves. The card plays the remaining sound without the player.
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
        // A run of less than a minute counts as a minute, so that one click in a short run counts as one click per
        // minute.
        let minutes = played.max(Nanos::s(60)).as_ns();
        let clicks = super::reading::ratio(self.underruns, 60_000_000_000, minutes);
        match (self.filled, self.plays) {
            (0, _) | (_, false) => Grade::Jitter,
            // Sound that is silent for more than a tenth of the time is useless, even if it clicks only once a minute.
            _ if self.silence.as_ns() > played.as_ns() / 10 => Grade::Jitter,
            // A rate below one click per minute is rounded down to zero, but is more than no clicks.
            _ if clicks == 0 && self.underruns > 0 => Grade::Tiny,
            _ => Grade::of(&clicks, &Grade::CLICKS_PER_MINUTE),
        }
    }
}
