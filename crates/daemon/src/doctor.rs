//! Trials of all enforcement mechanisms on this host, with child processes. Every result is observed in a trial.

mod groups;
mod measurement;
mod mechanism;
mod trials;

use crate::Explanation;
use crate::directory::Directory;
use crate::host_profile::Warning;
use crate::interfering::{InterferingThreads, belongs};
use crate::kernel::priority;
use crate::table::Table;
pub use groups::clean_up;
pub use measurement::{Delivered, LENGTH_LEAST, Measurement};
pub use mechanism::Mechanism;
use sys::clock;
use sys::thread::Identity;

/// The result of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The observation, or the reason for the failure and a remedy.
    pub verdict: Result<String, Explanation>,
}

/// Tries whether the guardian can leave the control groups of the daemon. Returns the warning if it cannot.
#[must_use]
pub fn warn_of_guardian() -> Option<Warning> {
    let reason = groups::leave_all().err()?;
    let why =
        format!("the guardian shares a control group with the daemon, so one act can kill both: {}", reason.reason());
    let remedy = "run as root, or in a control group that is delegated to this user together with the group above it";
    Some(Warning { about: "guardian", reason: Explanation::new(why, remedy) })
}

/// Finds the threads of other programs that run above all clients. Takes 0.1 s if there are real-time threads. Returns a
/// warning if there are such threads.
#[must_use]
pub fn warn_of_interfering() -> Option<Warning> {
    let core = Directory::dispatcher();
    let table = Directory::usual().ok().and_then(|directory| directory.open_table().ok().flatten());
    let clients: Vec<Identity> = table.iter().flat_map(Table::entries).map(|(_, entry)| entry.thread).collect();
    let is_ours =
        |thread: &Identity| clients.contains(thread) || core.is_some_and(|core| belongs(thread, &[core], core));
    let threads = InterferingThreads::default().look(is_ours, clock::sleep);
    if threads.is_empty() {
        return None;
    }
    let named = threads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let why = format!("threads of other programs run above all clients, and a promise leaves their time free: {named}");
    let highest = priority::AMONG_OTHERS - 1;
    let remedy = format!("end such a thread, or give it at most real-time priority {highest}");
    Some(Warning { about: "interfering threads", reason: Explanation::new(why, remedy) })
}

/// Tries one mechanism, and reverts every change. A successful trial takes less than a second. Child processes end no
/// later than the calling thread. For control groups, see [`clean_up`].
#[must_use]
pub fn examine(mechanism: Mechanism) -> Finding {
    let verdict = match mechanism {
        Mechanism::Inheritance => trials::inheritance(),
        Mechanism::Fifo => trials::fifo(),
        Mechanism::Deadline => trials::deadline(),
        Mechanism::Affinity => trials::affinity(),
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
        assert!(examine(Mechanism::Affinity).verdict.is_ok());
    }
}
