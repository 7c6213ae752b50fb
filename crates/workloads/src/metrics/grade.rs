//! [`Grade`]: how smooth video, sound or a response seems to a user.

use sched::Nanos;

/// The words of the study of interactive VMs (`vsched-2005`, figure 11: good, tiny jitter, small jitter, jitter; MP3 that is worse is
/// "noisy" there). Where one ends and the next begins is fixed here, once for all, from what displays and people are like and not from
/// any outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// No user notices anything.
    Good,
    /// A user notices it only when looking for it.
    Tiny,
    /// Every user notices it.
    Small,
    /// It is no use.
    Jitter,
}

impl Grade {
    /// How far from their beat pictures may come, all but one in twenty. A display shows a picture every 16.7 ms (60 Hz): one that is
    /// late by less than a third of that is in time for it nearly always, one by half misses it half of the time, and beyond a
    /// whole one always.
    pub const PICTURES: [Nanos; 3] = [Nanos::us(5_556), Nanos::us(8_333), Nanos::us(16_667)];

    /// How long an answer may take, all but one in twenty. Up to 0.1 s it seems immediate, and from a second on it breaks a train of
    /// thought (Miller 1968; Nielsen 1993, chapter 5); the two between divide that in even ratios.
    pub const ANSWERS: [Nanos; 3] = [Nanos::ms(100), Nanos::ms(215), Nanos::ms(464)];

    /// How often a minute sound may break off; at each time it clicks. Once in a minute may be taken for the record's fault, every
    /// ten seconds not.
    pub const CLICKS_PER_MINUTE: [u64; 3] = [0, 1, 6];

    /// By three bounds: each up to the first, the second, the third, or beyond.
    #[must_use]
    pub fn of<T: PartialOrd>(value: &T, bounds: &[T; 3]) -> Grade {
        let grades = [Grade::Good, Grade::Tiny, Grade::Small];
        let first = bounds.iter().zip(grades).find(|(bound, _)| value <= bound);
        first.map_or(Grade::Jitter, |(_, grade)| grade)
    }

    /// As a number in a report: 0 (good) to 3.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The word for a number of a report; beyond 3 the last.
    #[must_use]
    pub fn word(number: u64) -> &'static str {
        match number {
            0 => "good",
            1 => "tiny jitter",
            2 => "small jitter",
            _ => "jitter",
        }
    }
}
