//! PDS: every time slice has a deadline by nice value, the earliest runs, and waiting tasks get more urgent with time.
//!
//! Alfred Chen's Priority and Deadline based Skiplist scheduler, later built on the same engine as BMQ (Project C), an
//! alternative to Linux's fair scheduler for desktops. BMQ rates tasks by their behaviour; PDS rates them by the time
//! they have waited. Each CPU runs the task with the earliest deadline, rounded to a slot of 4.2 ms, which is also the
//! length of a time slice.
//!
//! ```text
//! hogs a of nice 0 and b of nice 3, one CPU; a letter is a turn of 4.2 ms
//! 0    5    10   15
//! aaabaaabaaabaaabaaab
//! ```
//!
//! **Deadlines** are counted in slots: the current slot plus nice + 20. So nice −20 is due at once and nice 19 in 164
//! ms. A new task gets a deadline, and another one whenever its time slice is used up or given up by a yield. Blocking
//! keeps the deadline: a task that has slept past its deadline runs before all hogs when it wakes, until its time slice
//! is used up.
//!
//! **Levels.** Real-time priorities have the first 100 levels, as in BMQ. Behind them are 64 levels that rotate with
//! time. The level of a deadline is its distance from now plus 24 slots, which is 44 levels behind the first at nice 0.
//! With each new slot, every task moves one level up. Tasks that reach the first level queue up behind the tasks there.
//! A new arrival goes to the tail of its level. So a task of equal level does not preempt; a task of a better level
//! preempts at once. A hog's share depends on the distance of its nice value from those of others, not on a ratio. In
//! the picture, b waits until its deadline equals that of a; then both run.
//!
//! **Time slices** are as in BMQ. A preempted task is still first and keeps the rest of its time slice. A rest below
//! 102.4 µs counts as used up. A fork halves the rest. A task that blocks with a used-up time slice gets a new one and
//! a new deadline.
//!
//! **Several CPUs** are as in BMQ, too. A woken task goes to the nearest idle core. Otherwise it goes to an idle
//! thread, or to a CPU that runs a task of its own level, one better or worse. A CPU that goes idle pulls up to half of
//! the nearest queue. An idle core pulls one of two tasks that share a core. There is no other balancing, so a task
//! with an affinity may wait while a CPU idles that could run it. The best level of a CPU is known to the others as of
//! the last arrival or departure there.
//!
//! **Parameters.** A weight becomes the nearest nice value by ratio; a new one counts from the next deadline on.
//! SCHED_BATCH, SCHED_IDLE and SCHED_ISO are the same as SCHED_NORMAL. Groups are ignored. A reservation is
//! SCHED_DEADLINE, which Project C runs as SCHED_FIFO 99 (`deadline-is-fifo`). Unlike in BMQ, only real-time tasks can
//! starve a task. After 64 slots every task is at the first level, and only the tasks before it there run first.
//!
//! Differences from the kernel: those in the essay of BMQ, as far as they concern the engine. A deadline that is too
//! far ahead on another CPU's clock is not clamped, because there is one clock.
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
    title: "a deadline for each time slice, in levels that rotate with time (Project C)",
    source: "Project C v5.13-r3, kernel/sched/{alt_core.c,pds.h}",
    good_for: "desktops where no task may starve: nice values decide how soon a task runs, and waiting makes it urgent",
    bad_at: "shares in proportion to weights; the latency of a task that has just used up its time slice",
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

/// Returns the maximum wait of an entity. A waiting task reaches the first level, however late its deadline is. There,
/// only the tasks before it run first, each for at most one time slice: at its end a task gets a new deadline.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    // Real-time levels are strict. A task that migrates repeatedly starts at the tail each time.
    if project_c::has_real_time(load) || load.has_changes {
        return None;
    }
    let rule = Pds::new(load.knobs);
    let served_first = rule.slice().saturating_mul(load.entities);
    Some(rule.slots_to_first_level() + served_first)
}
