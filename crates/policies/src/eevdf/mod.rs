//! EEVDF, the fair class of Linux since v6.6: CPU time by weight; of those who are owed time, the earliest deadline runs.
//!

mod bounds;
mod deadline;
#[cfg(test)]
mod tests;
mod tunables;

use crate::fair::{self, Fair};
use deadline::EarliestDeadline;
use sched::{Descriptor, Host, Keeps, Knobs, Policy, Refused};
use tunables::Requests;

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "eevdf",
    title: "Linux's fair class since v6.6: of those who are owed time, the earliest deadline first",
    source: "Linux v6.6, v6.12 and v6.17, kernel/sched/fair.c; Stoica and Abdel-Wahab 1995",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks some of which want short turns soon",
    bad_at: "waking up on time whoever uses up its share: it waits for the others' ticks like everybody else",
    text: include_str!("mod.rs"),
    conserving: fair::conserving,
    starvation: bounds::starvation,
    keeps: Keeps { shares: bounds::shares, quota: fair::quota, ..Keeps::NOTHING },
    alarms: fair::ALARMS,
    knobs: &tunables::KNOBS,
    build,
};

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let (tunables, requests) = Requests::new(host, knobs);
    Ok(Box::new(Fair::new(host, tunables, EarliestDeadline(requests))))
}
