//! PDS: the task with the earliest deadline runs; the nice value sets the deadline of each time slice, and waiting adds
//! urgency.
//!
//! PDS is Alfred Chen's Priority and Deadline based Skiplist scheduler, an alternative to Linux's fair scheduler for
//! desktops. Later versions share the engine of BMQ (Project C). BMQ orders tasks by their behaviour, PDS by their
//! waiting time. Each CPU runs the task with the earliest deadline. Deadlines are rounded to slots of 4.2 ms, which is
//! also the length of a time slice.
//!
//! ```text
//! hogs a of nice 0 and b of nice 3, one CPU; a letter is a time slice of 4.2 ms
//! 0    5    10   15
//! aaabaaabaaabaaabaaab
//! ```
//!
//! **Deadlines** are counted in slots. A deadline is the current slot plus nice + 20: nice −20 is due at once, nice 19
//! in 164 ms. A task receives a deadline at its creation, and a new deadline when its time slice is used up or the task
//! yields. Blocking keeps the deadline. A task that wakes after its deadline runs before every normal task whose
//! deadline has not passed, until its time slice is used up.
//!
//! **Levels.** Real-time priorities occupy the first 100 levels, as in BMQ. The next 64 levels rotate with time. The
//! level of a deadline is its distance from the current slot, plus 24. At nice 0, a new deadline is 44 levels behind
//! the first level. With each new slot, every task of these levels moves up one level. A task that reaches the first
//! level is enqueued behind the tasks already there. An arriving task is enqueued at the tail of its level. So a task
//! of equal level does not preempt; a task of a better level preempts at once. The share of a hog depends on
//! differences between nice values, not on ratios of weights. In the picture, `b` waits until its deadline equals that
//! of `a`. Then `b` runs for a time slice.
//!
//! **Time slices** are as in BMQ. A preempted task stays at the head of its level and keeps its remaining time slice. A
//! remainder below 102.4 µs counts as used up. A fork divides the remainder equally between parent and child. A task
//! that blocks with a used-up time slice receives a new time slice and a new deadline.
//!
//! **Several CPUs** are scheduled as in BMQ. A woken task is placed on the nearest idle core, else on an idle thread.
//! Without an idle thread, the task is placed on a CPU whose first task is at most one level better than the woken
//! task. A CPU that becomes idle pulls at most half of the nearest run queue. If a whole core idles and each thread of
//! another core runs a single task, one of these tasks moves to the idle core. The scheduler does no other balancing,
//! so a task with a restricted affinity may wait while a CPU in its affinity idles. Other CPUs use the best level of a
//! CPU as of the last enqueue or dequeue there.
//!
//! **Parameters.** A weight is mapped to the nice value with the nearest ratio. A new weight takes effect at the next
//! deadline. SCHED_BATCH, SCHED_IDLE and SCHED_ISO are the same as SCHED_OTHER. Groups are ignored. A task with a
//! reservation is in SCHED_DEADLINE, which Project C runs as SCHED_FIFO 99 (`deadline-is-fifo`). Unlike in BMQ, only
//! real-time tasks can starve a task. After 64 slots, every waiting task is at the first level, behind only the tasks
//! that were there before.
//!
//! Differences from the kernel: the essay of BMQ lists those that concern the engine. In addition, a deadline that is
//! too far ahead on another CPU's clock is not clamped, because all CPUs have the same clock here.
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
    good_for: "desktops where no task may starve: nice values set the latency, and waiting makes a task more urgent",
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

/// Returns the maximum wait of an entity. Every waiting task reaches the first level. There, the tasks ahead run first,
/// each for at most one time slice. At the end of a time slice, a task receives a new deadline.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    // Real-time levels are strict. A task that migrates repeatedly is enqueued at the tail each time.
    if project_c::has_real_time(load) || load.has_changes {
        return None;
    }
    let rule = Pds::new(load.knobs);
    let served_first = rule.slice().saturating_mul(load.entities);
    Some(rule.slots_to_first_level() + served_first)
}
