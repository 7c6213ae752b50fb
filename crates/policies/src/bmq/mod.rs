//! BMQ: each CPU runs the first task of its best level. Short runs improve the level of a task slightly; full time
//! slices worsen it slightly.
//!
//! BMQ is Alfred Chen's BitMap Queue scheduler, the default of Project C. Project C is an alternative, for desktops, to
//! Linux's fair scheduler. Its aims are a simple design and short response times. Each CPU has 127 lists and a bitmap
//! of the lists that are not empty. The CPU runs the first task of the best list. A time slice is 4.2 ms.
//!
//! ```text
//! two hogs a and b that have sunk to +7; i wakes at times and runs briefly; one letter per 1.05 ms
//! 0         10        20        30
//! aaaabbibbaaaabbbbaiaaabbbbaaaaibbbba
//! ```
//!
//! **Levels.** SCHED_FIFO and SCHED_RR have the levels 0 to 98 by priority. Every other task has the level 50 + ⌊(127 +
//! nice + boost)/2⌋, which is 113 at nice 0 without a boost. The boost has at most seven steps up or down, which change
//! the level by three or four. A better level has strict precedence: a hog of nice −2 leaves no time to a hog of nice
//! 0.
//!
//! **Boost.** The boost ranges from −7 (best) to +7. The boost improves by one when a task blocks soon after the CPU
//! switched to it, that is, within 2^22 ns ≫ (8 − boost). This time is 16.4 µs at boost 0, and half as long for each
//! better step. The boost also improves by one when the task wakes after a sleep longer than a time slice. The boost
//! worsens by one with each time slice that is used up. Hogs therefore sink to +7 and alternate at that level. Tasks
//! that mostly wait for user input climb to −7 and preempt hogs. SCHED_BATCH and SCHED_IDLE tasks climb to 0 at best.
//!
//! **Time slices.** The running task stays in its list. A newly enqueued task is added at the tail. A task of the same
//! level as the running task therefore does not preempt it, and a task of a better level preempts at once. A preempted
//! task stays at the head of its list and keeps the remainder of its time slice. A time slice counts as used up if less
//! than 102.4 µs is left at a tick, at a context switch or at its end. The task then moves to the tail of its new
//! level, with a new time slice. A SCHED_FIFO task stays at the head of its list. A fork divides the remainder of the
//! parent's time slice equally between parent and child. The child starts at +7 or, if the parent's boost is below 0,
//! at the parent's boost plus 7.
//!
//! **Yield.** A yield sets the boost to +7. But by default the task keeps its place in the list until its next enqueue,
//! so a yield often has no effect on other tasks. The knob `yield` changes this. A directed yield has no effect.
//!
//! **Several CPUs.** A woken task is placed on an idle core, else on an idle thread. If no CPU idles, the candidates
//! are the CPUs whose first task is at most one level better than the woken task. If there is no such CPU, all CPUs in
//! the affinity of the task are candidates. The task is placed on the candidate nearest to its last CPU: the same CPU,
//! else the same core, else the same cache. A CPU that becomes idle pulls tasks from the nearest run queue with waiting
//! tasks. It examines the tasks behind the running task, at most half of the queue, and pulls those that may run on it.
//! If a whole core idles and each thread of another core runs a single task, one of these tasks moves to the idle core.
//! There is no other balancing. A task with a restricted affinity may therefore wait while a CPU in its affinity idles.
//!
//! **Parameters.** A weight counts as the nice value with the nearest weight, by ratio. Groups, their weights and their
//! quotas are ignored. An entity with a reservation is a SCHED_DEADLINE task, which Project C runs at SCHED_FIFO 99
//! (`deadline-is-fifo`). SCHED_ISO is the same as SCHED_OTHER. BMQ guarantees no share. A hog can starve beside a hog
//! of a better nice value, or beside a task that sleeps often enough.
//!
//! **Interactive tasks** (for hints to a host) are tasks whose boost is −2 or better.
//!
//! **Versions.** Up to 5.12, a time slice is exactly 4 ms, and counts as used up when less than 100 µs is left.
//!
//! From 6.6 on, the boost ranges from −12 to +12, children start at +12, and four real-time priorities share a level. A
//! short run is shorter than 2^22 ns ≫ ⌊(14 − boost)/2⌋. The boost of a task that blocks after a run longer than a time
//! slice worsens by one.
//!
//! From 6.12 on, every block improves the boost by one, and children inherit their parent's boost. A task that yields
//! moves to the tail of its list. A SCHED_IDLE task never climbs. Because of a bug in the code, a sleep never improves
//! the boost (`sleep-is-bool`).
//!
//! The thesis that compares BMQ with CFS, and the documentation, state that the boost does not become negative. The
//! code of that time allows negative boosts. `min-boost = 0` follows the thesis.
//!
//! Differences from the kernel: stop tasks have a level of their own before SCHED_FIFO 99; in the kernel they share
//! that level. In the kernel, a CPU that finds a run-queue lock held gives up (trylock); here, there are no locks, so
//! no CPU gives up. A CPU that becomes idle while a kick of another CPU is pending searches again after that CPU has
//! picked. A kicked CPU that has not picked yet counts as running its first task. The run time of a parent up to the
//! fork is charged before its time slice is divided. Ticks are at the same instants on all CPUs. Versions 6.6 and 6.12
//! differ only in the points listed above, not in balancing.
//!
//! Source: Project C v5.13-r3, kernel/sched/alt_core.c and bmq.h, and the same files for 5.8 to 6.12; BMQ vs CFS thesis
//! §2.3.

mod rule;
mod tables;
#[cfg(test)]
mod tests;

pub use tables::{BOOST_MAX, Tables, YieldEffect};

use crate::project_c::{self, Engine, Rule};
use rule::Bmq;
use sched::{AlarmSlots, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "bmq",
    title: "a bitmap of levels for each CPU, with a small boost for tasks that run briefly (Project C)",
    source: "Project C v5.13-r3, kernel/sched/{alt_core.c,bmq.h}; BMQ vs CFS thesis §2.3",
    good_for: "desktops: a task that mostly waits for its user runs at once, at any background load",
    bad_at: "shares: a worse level receives no time while a better level is busy; VMs with reservations",
    text: include_str!("mod.rs"),
    conserving: project_c::conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[
        Knob::choice(
            "version",
            &["5.13", "5.12", "6.6", "6.12"],
            "the kernel whose BMQ is modelled: 5.12 or older, or from 5.13, 6.6 or 6.12 on",
        )
        .from("Project C for these kernels, bmq.h"),
        project_c::SLICE,
        Knob::count(
            "min-boost",
            [-12, -12, 0],
            "the best boost a task can reach, within the version's own limit (-7 or -12)",
        )
        .from("boost_task, bmq.h; 0: the thesis §2.3, \"the value won't go negative\""),
        project_c::YIELD,
        project_c::ONE_BETTER,
        project_c::TICK,
        project_c::DEADLINE_IS_FIFO,
        Knob::switch(
            "sleep-is-bool",
            true,
            "version 6.12 treats the length of a sleep as a boolean, so a sleep never boosts",
        )
        .from("sched_task_ttwu, bmq.h, 6.12; off: the probable intention, a step for every 2^22 ns"),
        Knob::count("interactive-boost", [-2, -12, 0], "an entity with this boost or a better boost is interactive")
            .from("assumed"),
    ],
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Engine::new(Bmq::new(knobs), host, knobs)))
}

/// Returns the maximum wait of an entity. Levels are strict, so there is a bound only among equal entities that never
/// sleep. All of these entities sink to the level of the worst boost and alternate there. Each uses up one time slice
/// per step of its boost before it reaches that level.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let unequal = load.weight_least != load.weight_most;
    if unequal || project_c::has_real_time(load) || load.has_sleepers || load.has_changes || load.has_affinity {
        return None;
    }
    let rule = Bmq::new(load.knobs);
    let turns = u64::from(rule.reach().unsigned_abs()) + 1;
    Some(rule.slice().saturating_mul(turns * load.entities))
}
