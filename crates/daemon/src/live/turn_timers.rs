//! [`TurnTimers`]: the timers that wake an agent for its turns.

use sched::{Instant, Nanos};
use sys::Result;
use sys::clock::Timer;
use sys::event::Waiting;

/// Maximum time by which a timer that was armed in advance may be later than the turn.
const LATE_MOST: Nanos = Nanos::us(3);
/// Minimum time between the next turn and a turn for which a timer is armed in advance. The next turn may last as long.
const APART_LEAST: Nanos = Nanos::us(20);

/// Two timers in the event set of an agent. While one is armed for the next turn, the agent arms the other for the turn
/// after that. This is cheaper than to arm it when it is the next (docs/decisions/0033).
#[derive(Debug)]
pub(super) struct TurnTimers {
    timers: [Timer; 2],
    /// Instant for which each timer is armed, or was armed before it expired.
    armed: [Instant; 2],
}

impl TurnTimers {
    /// Creates the timers in the set `waiting`, which reports each as `number`.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn new(waiting: &Waiting, number: u64) -> Result<TurnTimers> {
        let timers = [Timer::new()?, Timer::new()?];
        for timer in &timers {
            // Edge-triggered: otherwise, the agent would have to read an expired timer.
            waiting.add_edges(timer, number)?;
        }
        Ok(TurnTimers { timers, armed: [Instant::NEVER; 2] })
    }

    /// Arms the timers for the next turn `at`, and for a turn `then`, if this is late enough. `now` is the present time.
    ///
    /// # Errors
    /// A filter of system calls forbids timers.
    pub(super) fn arm(&mut self, at: Instant, then: Instant, now: Instant) -> Result<()> {
        let serves = |armed: &Instant| *armed > now && *armed >= at && armed.saturating_since(at) <= LATE_MOST;
        let next = match self.armed.iter().position(serves) {
            Some(next) => next,
            None => {
                let next = usize::from(self.armed[1] < self.armed[0]);
                self.set(next, at)?;
                next
            }
        };
        let (other, then) = (1 - next, if then.saturating_since(at) >= APART_LEAST { then } else { Instant::NEVER });
        let is_idle = self.armed[other] <= now && then == Instant::NEVER;
        if !is_idle && self.armed[other] != then {
            self.set(other, then)?;
        }
        Ok(())
    }

    fn set(&mut self, which: usize, at: Instant) -> Result<()> {
        self.armed[which] = at;
        self.timers[which].set(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::clock;

    const EXPIRED: u64 = 7;

    /// Returns the instant at which a timer expires.
    fn expiry(waiting: &Waiting) -> Instant {
        assert_eq!(waiting.next(Instant::NEVER).unwrap(), Some(EXPIRED));
        clock::now()
    }

    #[test]
    fn a_timer_armed_in_advance_serves_a_turn_that_is_not_later_than_expected() {
        let waiting = Waiting::new().unwrap();
        let mut timers = TurnTimers::new(&waiting, EXPIRED).unwrap();
        let begin = clock::now();
        let at = |us: u64| begin + Nanos::us(us);
        timers.arm(at(200_000), at(400_001), begin).unwrap();
        assert!(expiry(&waiting) >= at(200_000));
        timers.arm(at(400_000), at(600_000), clock::now()).unwrap();
        assert!(timers.armed.contains(&at(400_001)), "it is not armed again: {:?}", timers.armed);
        assert!(expiry(&waiting) >= at(400_001));
        timers.arm(at(700_000), at(700_005), clock::now()).unwrap();
        assert!(timers.armed.contains(&at(700_000)) && timers.armed.contains(&Instant::NEVER), "{:?}", timers.armed);
        assert!(expiry(&waiting) >= at(700_000));
        assert_eq!(waiting.next(clock::now() + Nanos::ms(2)).unwrap(), None, "the turns were too close");
    }

    #[test]
    fn a_turn_that_has_passed_and_a_turn_that_is_earlier_than_expected_are_not_lost() {
        let waiting = Waiting::new().unwrap();
        let mut timers = TurnTimers::new(&waiting, EXPIRED).unwrap();
        let begin = clock::now();
        timers.arm(Instant::ZERO, Instant::NEVER, begin).unwrap();
        assert!(expiry(&waiting) < begin + Nanos::s(1));
        let begin = clock::now();
        timers.arm(begin + Nanos::s(3_600), begin + Nanos::s(7_200), begin).unwrap();
        timers.arm(begin + Nanos::ms(1), Instant::NEVER, begin).unwrap();
        assert!(expiry(&waiting) < begin + Nanos::s(1));
        assert!(timers.armed[0] == Instant::NEVER || timers.armed[1] == Instant::NEVER, "{:?}", timers.armed);
    }

    #[test]
    fn a_timer_that_has_expired_serves_no_further_turn() {
        let waiting = Waiting::new().unwrap();
        let mut timers = TurnTimers::new(&waiting, EXPIRED).unwrap();
        let begin = clock::now();
        let at = begin + Nanos::ms(1);
        timers.arm(at, Instant::NEVER, begin).unwrap();
        assert!(expiry(&waiting) >= at);
        // The turn did not settle what was due.
        timers.arm(at, Instant::NEVER, clock::now()).unwrap();
        assert_eq!(waiting.next(clock::now() + Nanos::s(1)).unwrap(), Some(EXPIRED));
    }
}
