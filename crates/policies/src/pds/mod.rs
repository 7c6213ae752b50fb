//! PDS: a deadline for each turn, by nice value; the earliest deadline runs.
mod rule;

use crate::project_c::{self, Engine, Rule};
use rule::Pds;
use sched::{AlarmSlots, Descriptor, Host, Keeps, Knobs, Load, Nanos, Policy, Refused};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "pds",
    title: "a deadline for each turn, in levels that turn with time (Project C)",
    source: "Project C v5.13-r3, kernel/sched/{alt_core.c,pds.h}",
    good_for: "desktops where nobody may starve: nice values decide how soon, waiting makes urgent",
    bad_at: "shares in proportion to weights; answers within a level, to who has just used its slice up",
    text: include_str!("mod.rs"),
    conserving: project_c::conserving,
    starvation,
    keeps: Keeps::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[project_c::SLICE, project_c::YIELD, project_c::ONE_BETTER, project_c::TICK, project_c::DEADLINE_IS_FIFO],
    build,
};

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Engine::new(Pds::new(knobs), host, knobs)))
}

/// Who waits comes to the first level of all, however late its deadline. There, only those before it are served first, each
/// for a slice at most: at its end the deadline is a new one.
fn starvation(load: &Load<'_>) -> Option<Nanos> {
    // Real-time levels are strict; who is moved from CPU to CPU begins at the tail each time.
    if project_c::has_real_time(load) || load.has_changes {
        return None;
    }
    let rule = Pds::new(load.knobs);
    let served_first = rule.slice().saturating_mul(load.entities);
    Some(rule.slots_to_first_level() + served_first)
}
