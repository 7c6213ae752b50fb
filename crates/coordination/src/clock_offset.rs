//! [`ClockOffset`]: the difference between the clocks of a host and its guest, from messages.

use sched::{Instant, Nanos};

/// Time after which a half of the measurements is forgotten.
const HALF: Nanos = Nanos::s(1);

/// The offset of a guest's clock. A message takes some time, so the least difference between the instants of its receipt and
/// its sending, over the last one to two seconds, is nearest to the offset. The differences wrap around, as the guest's clock
/// may be ahead of the host's.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClockOffset {
    /// End of the present half.
    end: Instant,
    /// Least difference of the half before, and of the present half. `None`: no message.
    before: Option<i64>,
    present: Option<i64>,
}

impl ClockOffset {
    /// Records a message that the guest sent at `sent` on its clock, and the host received at `now`.
    pub fn record(&mut self, sent: Instant, now: Instant) {
        if now >= self.end {
            // After a pause, both halves are from before.
            let is_long = now.saturating_since(self.end) >= HALF;
            (self.before, self.present) = (if is_long { None } else { self.present }, None);
            self.end = now.saturating_add(HALF);
        }
        let difference = now.as_ns().wrapping_sub(sent.as_ns()).cast_signed();
        self.present = Some(self.present.map_or(difference, |least| least.min(difference)));
    }

    /// Returns the host's instant of an instant of the guest's clock. `None`: there was no message, or the instant is out of
    /// the range of the host's clock.
    #[must_use]
    pub fn to_host(&self, guest: Instant) -> Option<Instant> {
        let least = match (self.before, self.present) {
            (Some(before), Some(present)) => before.min(present),
            (before, present) => before.or(present)?,
        };
        guest.as_ns().checked_add_signed(least).map(Instant::at_ns)
    }

    /// Forgets all messages: the guest has been paused, migrated or started again.
    pub fn clear(&mut self) {
        *self = ClockOffset::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    #[test]
    fn the_fastest_message_of_the_last_seconds_counts() {
        let mut offset = ClockOffset::default();
        assert_eq!(offset.to_host(ms(1)), None);
        for (sent, now) in [(0, 10_040), (100, 10_120), (200, 10_260)] {
            offset.record(ms(sent), ms(now));
        }
        assert_eq!(offset.to_host(ms(300)), Some(ms(10_320)), "one message took 20 ms less than the others");
        // The guest's clock loses 5 ms: the former least difference holds until its half is forgotten.
        offset.record(ms(1_100), ms(11_125));
        assert_eq!(offset.to_host(ms(1_200)), Some(ms(11_220)));
        offset.record(ms(2_100), ms(12_125));
        assert_eq!(offset.to_host(ms(2_200)), Some(ms(12_225)));
    }

    #[test]
    fn a_guest_may_be_ahead_and_a_pause_voids_what_was_known() {
        let mut offset = ClockOffset::default();
        offset.record(ms(500), ms(100));
        assert_eq!(offset.to_host(ms(510)), Some(ms(110)));
        assert_eq!(offset.to_host(ms(10)), None, "before the host's clock began");
        offset.record(ms(600), ms(10_000));
        assert_eq!(offset.to_host(ms(610)), Some(ms(10_010)));
        offset.clear();
        assert_eq!(offset.to_host(ms(610)), None);
    }
}
