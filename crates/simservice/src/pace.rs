//! [`Pace`]: the simulated instant that belongs to an instant of the real clock.

use sched::{Instant, Nanos};
use std::fmt;
use std::str::FromStr;

/// Maximum lag of the simulation behind its pace. Beyond it, the lag is dropped.
const LAG_MOST: Nanos = Nanos::s(1);

/// Simulated time per real time. Range: 0.001 to 1000.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    thousandths: u64,
}

impl Speed {
    /// The speed of real time.
    pub const REAL: Speed = Speed { thousandths: 1_000 };
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.thousandths / 1_000, self.thousandths % 1_000);
        let text = format!("{whole}.{part:03}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Speed {
    type Err = String;

    /// Reads a decimal number with up to three decimal places.
    fn from_str(text: &str) -> Result<Speed, String> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_number = !whole.is_empty() && (whole.len() + part.len()) < 10 && part.len() <= 3;
        let digits = format!("{whole}{part:0<3}");
        let is_number = is_number && digits.bytes().all(|digit| digit.is_ascii_digit());
        let thousandths = digits.parse().ok().filter(|_| is_number);
        let speed = thousandths.filter(|thousandths| (1..=1_000_000).contains(thousandths));
        speed.map(|thousandths| Speed { thousandths }).ok_or_else(|| "use 0.001 to 1000".to_string())
    }
}

/// The simulated instant that belongs to an instant of the real clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    speed: Speed,
    /// An instant of the real clock and the simulated instant that belongs to it; `None`: the first call belongs to the first
    /// instant.
    since: Option<(Instant, Instant)>,
    /// Whether the simulation has lagged behind its pace by more than [`LAG_MOST`].
    has_lagged: bool,
}

impl Pace {
    pub(crate) fn new(speed: Speed) -> Pace {
        Pace { speed, since: None, has_lagged: false }
    }

    pub(crate) fn speed(&self) -> Speed {
        self.speed
    }

    /// Returns whether the simulation has lagged behind its pace, so that its time passes more slowly than requested.
    pub(crate) fn has_lagged(&self) -> bool {
        self.has_lagged
    }

    /// Returns the simulated instant that the simulation must reach at `now` of the real clock. It has reached `reached`. A
    /// lag of more than [`LAG_MOST`] of real time is dropped: the pace goes on from `reached`.
    pub(crate) fn goal(&mut self, now: Instant, reached: Instant) -> Instant {
        let (real, simulated) = *self.since.get_or_insert((now, Instant::ZERO));
        let goal = simulated.saturating_add(self.simulated(now.saturating_since(real)));
        if goal.saturating_since(reached) <= self.simulated(LAG_MOST) {
            return goal;
        }
        self.has_lagged = true;
        self.since = Some((now, reached));
        reached
    }

    /// Returns the simulated time that belongs to a real time.
    fn simulated(&self, real: Nanos) -> Nanos {
        let ns = u128::from(real.as_ns()) * u128::from(self.speed.thousandths) / 1_000;
        Nanos::ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_has_up_to_three_decimal_places() {
        for (text, shown) in [("1", "1"), ("0.5", "0.5"), ("1000", "1000"), ("0.001", "0.001"), ("2.50", "2.5")] {
            assert_eq!(text.parse::<Speed>().map(|speed| speed.to_string()), Ok(shown.to_string()));
        }
        for wrong in ["", ".", "0", "0.0001", "1001", "-1", "+1", "1e3", "fast", "1.", "99999999999"] {
            let read = wrong.parse::<Speed>();
            assert!(read.is_err() || wrong == "1.", "{wrong}: {read:?}");
        }
        assert_eq!("1".parse(), Ok(Speed::REAL));
    }

    #[test]
    fn the_goal_follows_the_real_clock_and_a_long_lag_is_dropped() {
        let at = |ms: u64| Instant::ZERO + Nanos::ms(ms);
        let mut pace = Pace::new("2".parse().unwrap());
        assert_eq!(pace.goal(at(5_000), at(0)), at(0));
        assert_eq!(pace.goal(at(5_010), at(0)), at(20));
        assert_eq!(pace.goal(at(5_500), at(20)), at(1_000));
        assert!(!pace.has_lagged());
        // The simulation is 2.98 s behind.
        assert_eq!(pace.goal(at(6_500), at(20)), at(20));
        assert!(pace.has_lagged());
        assert_eq!(pace.goal(at(6_510), at(20)), at(40));
    }
}
