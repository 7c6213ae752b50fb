//! [`Grade`]: the quality of video, sound or a response, as perceived by a user.

use sched::Nanos;

/// The grades of the study of interactive VMs (`vsched-2005`, figure 11: good, tiny jitter, small jitter, jitter; the
/// figure calls bad MP3 "noisy"). The bounds between the grades are constants here, derived from properties of displays
/// and users, and not from results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// Users notice no irregularity or delay.
    Good,
    /// Users notice an irregularity or delay only if they pay close attention.
    Tiny,
    /// Every user notices the irregularity or delay.
    Small,
    /// Unusable.
    Jitter,
}

impl Grade {
    /// Bounds for the deviation of pictures from the regular interval, which 19 of 20 pictures must meet. A display
    /// shows a picture every 16.7 ms (60 Hz). The bounds are a third, a half and the whole of this period. A picture
    /// that is delayed by half a period misses the next refresh half of the time. With a delay of a whole period, the
    /// picture always misses it.
    pub const PICTURES: [Nanos; 3] = [Nanos::us(5_556), Nanos::us(8_333), Nanos::us(16_667)];

    /// Bounds for the duration of an answer, which 19 of 20 answers must meet. An answer within 0.1 s seems immediate.
    /// An answer after more than a second interrupts the user's thoughts (Miller 1968; Nielsen 1993, chapter 5). The
    /// second and third bounds divide the range from 0.1 s to 1 s in equal ratios.
    pub const ANSWERS: [Nanos; 3] = [Nanos::ms(100), Nanos::ms(215), Nanos::ms(464)];

    /// Bounds for the number of clicks (interruptions of sound) per minute. One click per minute may be a fault of the
    /// recording; one click every ten seconds is not.
    pub const CLICKS_PER_MINUTE: [u64; 3] = [0, 1, 6];

    /// Returns the grade of `value`: good up to the first bound, tiny jitter up to the second, small jitter up to the
    /// third, and jitter above.
    #[must_use]
    pub fn of<T: PartialOrd>(value: &T, bounds: &[T; 3]) -> Grade {
        let grades = [Grade::Good, Grade::Tiny, Grade::Small];
        let first = bounds.iter().zip(grades).find(|(bound, _)| value <= bound);
        first.map_or(Grade::Jitter, |(_, grade)| grade)
    }

    /// Returns the grade as a number in a report: 0 (good) to 3.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Returns the word for the number of a grade. Numbers above 3 return the word for 3.
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
