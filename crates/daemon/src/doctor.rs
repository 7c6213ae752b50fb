//! Trials of all mechanisms of enforcement on this host, on child processes; no result is guessed.

mod groups;
mod trials;

use crate::Explanation;
pub use groups::clean_up;

/// A mechanism to give or withhold CPU time, or to observe it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mechanism {
    /// Dispatching by real-time priorities, as Tactus does.
    Fifo,
    /// SCHED_DEADLINE reservations.
    Deadline,
    /// CPU affinity.
    Affinity,
    /// SIGSTOP and SIGCONT.
    Stop,
    /// The freezer of cgroup version 1.
    FreezerOne,
    /// The freezer of cgroup version 2.
    FreezerTwo,
    /// Recording context switches.
    Switches,
    /// CPU bandwidth limits of control groups.
    Quota,
    /// CPU weights of control groups.
    Weight,
    /// A scheduler written in BPF.
    SchedExt,
}

impl Mechanism {
    /// All mechanisms, in the order of the trials.
    pub const ALL: [Mechanism; 10] = [
        Mechanism::Fifo,
        Mechanism::Deadline,
        Mechanism::Affinity,
        Mechanism::Stop,
        Mechanism::FreezerOne,
        Mechanism::FreezerTwo,
        Mechanism::Switches,
        Mechanism::Quota,
        Mechanism::Weight,
        Mechanism::SchedExt,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Fifo => "SCHED_FIFO",
            Mechanism::Deadline => "SCHED_DEADLINE",
            Mechanism::Affinity => "affinity",
            Mechanism::Stop => "stop and continue",
            Mechanism::FreezerOne => "freezer, cgroup v1",
            Mechanism::FreezerTwo => "freezer, cgroup v2",
            Mechanism::Switches => "switch events",
            Mechanism::Quota => "CPU quota",
            Mechanism::Weight => "CPU weight",
            Mechanism::SchedExt => "sched_ext",
        }
    }
}

/// The result of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The observation, or why it fails and a remedy.
    pub verdict: Result<String, Explanation>,
}

/// Tries one mechanism, for a second at most, and undoes every change. Child processes end with the calling thread at the
/// latest; for control groups, see [`clean_up`].
#[must_use]
pub fn examine(mechanism: Mechanism) -> Finding {
    let verdict = match mechanism {
        Mechanism::Fifo => trials::fifo(),
        Mechanism::Deadline => trials::deadline(),
        Mechanism::Affinity => trials::affinity(),
        Mechanism::Stop => trials::stop(),
        Mechanism::FreezerOne => trials::freezer_one(),
        Mechanism::FreezerTwo => trials::freezer_two(),
        Mechanism::Switches => trials::switches(),
        Mechanism::Quota => trials::quota(),
        Mechanism::Weight => trials::weight(),
        Mechanism::SchedExt => trials::sched_ext(),
    };
    Finding { mechanism, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_works_or_it_is_said_why_not() {
        let me = sys::thread::current();
        let before = (sys::attributes::get(me).unwrap(), sys::affinity::get(me).unwrap());
        for mechanism in Mechanism::ALL {
            let finding = examine(mechanism);
            match finding.verdict {
                Ok(seen) => assert!(!seen.is_empty()),
                Err(reason) => {
                    assert!(!reason.reason.is_empty() && !reason.remedy.is_empty(), "{}: {reason:?}", mechanism.name());
                    eprintln!("SKIPPED {}: {}", mechanism.name(), reason.reason);
                }
            }
        }
        assert_eq!((sys::attributes::get(me).unwrap(), sys::affinity::get(me).unwrap()), before);
    }

    #[test]
    fn what_every_user_may_do_works() {
        for mechanism in [Mechanism::Affinity, Mechanism::Stop] {
            assert!(examine(mechanism).verdict.is_ok(), "{}", mechanism.name());
        }
    }
}
