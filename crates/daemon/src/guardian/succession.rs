//! [`Succession`]: the daemon's care for its guardians. A second guardian stands by, and takes over when the guardian
//! ends. Service continues meanwhile. Without a standby, the daemon restores all threads until a new guardian watches.

use sched::{Instant, Nanos};

/// Maximum time for a standby to become ready. It starts as an ordinary process, so that its start delays no agent.
const BEGIN: Nanos = Nanos::s(10);
/// Maximum time from the end of the guardian, as the daemon observes it, until the standby must have taken over.
const TAKE_OVER: Nanos = Nanos::ms(20);

/// The guardian that stands by, as the daemon observes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standby {
    /// There is none.
    None,
    /// The process has started, and is not ready yet.
    Starts,
    /// The process waits for the end of the guardian.
    Ready,
    /// The process has taken over.
    Watches,
    /// The process has ended.
    HasEnded,
}

/// The daemon's next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Care {
    /// No action.
    Nothing,
    /// Start a standby.
    Start,
    /// Kill the standby, which has ended or does not become ready.
    Drop,
    /// Kill the guardian, which has ended or hangs, and check again soon: the standby is about to take over.
    Await,
    /// The standby is the guardian now. Kill its predecessor.
    Promote,
    /// Restore all threads, and start a new guardian: nothing guards them.
    Replace,
}

/// The state of the succession.
#[derive(Clone, Copy, Default, Debug)]
pub struct Succession {
    /// Instant at which the current standby was started.
    started: Instant,
    /// Instant since when the end of the guardian is known.
    ended: Option<Instant>,
}

impl Succession {
    /// Returns the next action at `now`. `is_alive`: the guardian is alive and beats. Call this function at least once
    /// per [`CHECK`](super::CHECK), and about every millisecond after [`Care::Await`].
    pub fn step(&mut self, is_alive: bool, standby: Standby, now: Instant) -> Care {
        if is_alive {
            self.ended = None;
            return match standby {
                Standby::None => {
                    self.started = now;
                    Care::Start
                }
                Standby::HasEnded => Care::Drop,
                Standby::Starts if now >= self.started.saturating_add(BEGIN) => Care::Drop,
                _ => Care::Nothing,
            };
        }
        let ended = *self.ended.get_or_insert(now);
        match standby {
            Standby::Watches => {
                self.ended = None;
                Care::Promote
            }
            Standby::Ready if now < ended.saturating_add(TAKE_OVER) => Care::Await,
            _ => {
                self.ended = None;
                Care::Replace
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    #[test]
    fn a_standby_is_kept_and_takes_over() {
        let mut succession = Succession::default();
        assert_eq!(succession.step(true, Standby::None, at(0)), Care::Start);
        assert_eq!(succession.step(true, Standby::Starts, at(50)), Care::Nothing);
        assert_eq!(succession.step(true, Standby::Ready, at(100)), Care::Nothing);
        assert_eq!(succession.step(false, Standby::Ready, at(150)), Care::Await);
        assert_eq!(succession.step(false, Standby::Watches, at(151)), Care::Promote);
        assert_eq!(succession.step(true, Standby::None, at(200)), Care::Start);
    }

    #[test]
    fn without_a_standby_that_takes_over_in_time_the_guardian_is_replaced() {
        for standby in [Standby::None, Standby::Starts, Standby::HasEnded] {
            assert_eq!(Succession::default().step(false, standby, at(5)), Care::Replace, "{standby:?}");
        }
        let mut succession = Succession::default();
        assert_eq!(succession.step(false, Standby::Ready, at(5)), Care::Await);
        assert_eq!(succession.step(false, Standby::Ready, at(24)), Care::Await);
        assert_eq!(succession.step(false, Standby::Ready, at(25)), Care::Replace);
        assert_eq!(succession.step(false, Standby::Ready, at(90)), Care::Await, "the next guardian has its own time");
    }

    #[test]
    fn a_standby_that_ends_or_never_gets_ready_is_dropped() {
        let mut succession = Succession::default();
        assert_eq!(succession.step(true, Standby::HasEnded, at(1)), Care::Drop);
        assert_eq!(succession.step(true, Standby::None, at(51)), Care::Start);
        assert_eq!(succession.step(true, Standby::Starts, at(10_050)), Care::Nothing);
        assert_eq!(succession.step(true, Standby::Starts, at(10_051)), Care::Drop);
    }
}
