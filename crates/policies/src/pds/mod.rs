//! PDS: every turn has a deadline by nice value, the earliest runs, and whoever waits gets nearer to the front with time.
//!
//! Alfred Chen's Priority and Deadline based Skiplist scheduler, later built on the same engine as BMQ (Project C), an
//! alternative to Linux's fair scheduler for desktops. Where BMQ asks how somebody has behaved, PDS asks how long it
//! has waited. Each CPU runs whoever has the earliest deadline, to within a slot of 4.2 ms, which is also how long a
//! turn lasts.
//!
//! ```text
//! hogs a of nice 0 and b of nice 3, one CPU; a letter is a turn of 4.2 ms
//! 0    5    10   15
//! aaabaaabaaabaaabaaab
//! ```
//!
//! **Deadlines** are counted in slots: the one that has begun, plus nice + 20. So nice −20 is due at once and nice 19
//! in 164 ms. A deadline is set when somebody is new and renewed when its turn is used up or given away by a yield.
//! Blocking keeps it: whoever has slept past its deadline comes before all hogs when it wakes, until its turn is used
//! up.
//!
//! **Levels.** Real-time priorities have the first 100, as in BMQ. Behind them are 64 that turn with time: a deadline
//! is at its distance from now plus 24 slots, 44 levels behind the first at nice 0. With each slot that begins,
//! everybody comes one level nearer, and those who come to the first line up behind those who are there. Newcomers go
//! to the tail of their level, so equals do not preempt; somebody at a better level does, at once. A hog's share
//! depends on how far its nice value is from those of others, not on a ratio: in the picture b waits until its deadline
//! is a's, then both are served.
//!
//! **Turns** are as in BMQ: who is preempted is still first and has what it had left, less than 102.4 µs left is as good as
//! nothing, a fork halves what is left. Whoever blocks with as good as nothing left has a new turn and a new deadline.
//!
//! **Several CPUs** are as in BMQ, too: who wakes goes to the nearest idle core, else idle thread, else CPU with
//! somebody of its own level, one better or worse; a CPU that goes idle takes up to half of the nearest queue over; an
//! idle core takes one of two entities that share a core. There is no other balancing, so with affinities somebody may
//! wait while a CPU idles that could run it. What a CPU's best level is, the others know from when somebody last came
//! or went there.
//!
//! **What is asked for.** Weights become the nearest nice value by ratio; a new one counts from the next deadline on.
//! SCHED_BATCH, SCHED_IDLE and SCHED_ISO are as SCHED_NORMAL. Groups are not looked at. A reservation is
//! SCHED_DEADLINE, which Project C runs as SCHED_FIFO 99 (`deadline-is-fifo`). Unlike BMQ, nobody starves but for
//! real-time: after 64 slots everybody is at the first level, and only those before it there have a turn first.
//!
//! Differences from the kernel: those in the essay of BMQ, as far as they concern the engine; a deadline that is too far
//! ahead on another CPU's clock is not clamped, because there is one clock.
//!
//! Source: Project C v5.13-r3, kernel/sched/alt_core.c and pds.h.

mod rule;
#[cfg(test)]
mod tests;

use crate::project_c::{self, Engine, Rule};
use rule::Pds;
use sched::{AlarmSlots, Descriptor, Guarantees, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "pds",
    title: "a deadline for each turn, in levels that turn with time (Project C)",
    source: "Project C v5.13-r3, kernel/sched/{alt_core.c,pds.h}",
    good_for: "desktops where nobody may starve: nice values decide how soon, waiting makes urgent",
    bad_at: "shares in proportion to weights; answers within a level, to who has just used its slice up",
    text: include_str!("mod.rs"),
    conserving: project_c::conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[project_c::SLICE, project_c::YIELD, project_c::ONE_BETTER, project_c::TICK, project_c::DEADLINE_IS_FIFO],
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Engine::new(Pds::new(knobs), host, knobs)))
}

/// Who waits comes to the first level of all, however late its deadline. There, only those before it are served first, each
/// for a slice at most: at its end the deadline is a new one.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    // Real-time levels are strict; who is moved from CPU to CPU begins at the tail each time.
    if project_c::has_real_time(load) || load.has_changes {
        return None;
    }
    let rule = Pds::new(load.knobs);
    let served_first = rule.slice().saturating_mul(load.entities);
    Some(rule.slots_to_first_level() + served_first)
}
