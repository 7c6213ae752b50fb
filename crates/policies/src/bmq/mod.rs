//! BMQ: on every CPU the best level runs, and who runs briefly climbs a little, who uses its turns up sinks a little.
//!
//! Alfred Chen's BitMap Queue scheduler, the default of Project C, an alternative to Linux's fair scheduler for desktops.
//! It is meant to be simple and to answer fast. Each CPU has 127 lists, a bitmap of those that are not empty, and runs
//! the first of the best list. A turn lasts 4.2 ms.
//!
//! ```text
//! two hogs a and b that have sunk to +7; i wakes now and then and runs briefly; 1 ms a letter
//! 0         10        20        30
//! aaaabbibbaaaabbbbaiaaabbbbaaaaibbbba
//! ```
//!
//! **Levels.** SCHED_FIFO and SCHED_RR have the levels 0 to 98 by priority. Everybody else has 50 + ⌊(127 + nice +
//! boost)/2⌋, so 113 at nice 0 without a boost, and at most seven boosts up or down are worth three or four levels. A
//! better level goes strictly first: a hog of nice −2 leaves nothing to one of nice 0.
//!
//! **Boost.** From −7 (best) to +7. It gets better by one when somebody blocks soon after its CPU switched to it: within
//! 2^22 ns ≫ (8 − boost), 16.4 µs at 0, half of that for each step further up; and by one more when it wakes after
//! sleeping for longer than a turn. It gets worse by one with each turn that is used up. So hogs sink to +7 and take turns
//! there; whoever waits for its user climbs to −7, and preempts them. SCHED_BATCH and SCHED_IDLE climb to 0 at best.
//!
//! **Turns.** Who runs stays in its list. Whoever comes goes to the tail, so that an equal does not preempt and somebody
//! better does at once; whoever was preempted is still first and has what it had left. When less than 102.4 µs of a turn
//! is left at a tick, a switch or its end, the turn counts as used up: it goes last at its new level, with a new
//! turn. SCHED_FIFO stays first. A fork halves what is left of the turn, and the child begins at +7, or at 7 more than
//! a boosted parent.
//!
//! **Yielding** costs the boost: it is +7 from now on. But the place in the list is kept until it is queued the next time,
//! so a yield often lets nobody run (`yield`). `yield_to` does nothing.
//!
//! **Several CPUs.** Who wakes goes to a core that idles, else an idle thread, else a CPU that runs somebody of its own
//! level, one better, or worse, else anywhere; always the nearest of them to where it was: the same CPU, core, cache. A
//! CPU that goes idle takes over, from the nearest queue with somebody who waits, those behind the one that runs: up to
//! half of the queue. If its whole core idles and another core's threads run one entity each, one of these moves over.
//! There is no other balancing, so with affinities somebody may wait while a CPU idles that could run it.
//!
//! **What is asked for.** Weights become the nearest nice value by ratio; groups, their weights and quotas are not
//! looked at. A reservation is SCHED_DEADLINE, which Project C runs as SCHED_FIFO 99 (`deadline-is-fifo`). SCHED_ISO is as
//! SCHED_NORMAL. Nobody is promised a share: among unequal nice values, or beside somebody who sleeps in time, a hog can
//! starve.
//!
//! **Who is interactive** (for hints to a host): whose boost is −2 or better.
//!
//! **Versions.** Up to 5.12, a turn is 4 ms exactly, and 100 µs are next to nothing. From 6.6 on, boosts reach 12, a
//! short run is one below 2^22 ns ≫ ⌊(14 − boost)/2⌋, a run of more than a turn that ends by blocking costs a step,
//! children begin at +12, and four real-time priorities share a level. From 6.12 on, every blocking boosts by one,
//! children have their parent's boost, a yield goes last, SCHED_IDLE never climbs, and sleeping boosts nobody, by
//! mistake (`sleep-is-bool`). The thesis that compared BMQ with CFS, and the documentation, say that a boost does not
//! go below 0; the code they speak of lets it (`min-boost = 0`: as they say).
//!
//! Differences from the kernel: stoppers have a level of their own before SCHED_FIFO 99, whose level they share there.
//! Locks that two CPUs try for at once are always taken in turn: who goes idle while another CPU is being called looks
//! again when that one has picked. A CPU that has been called and has not picked yet counts as running its first. What
//! the parent of a fork has run until then is charged before its turn is halved. Ticks are at the same instants on all
//! CPUs. The version 6.6 and 6.12 differ in what is listed above only, not in how they balance.
//!
//! Source: Project C v5.13-r3, kernel/sched/alt_core.c and bmq.h, and the same for 5.8 to 6.12; BMQ vs CFS thesis §2.3.

mod rule;
#[cfg(test)]
mod tests;

use crate::project_c::{self, Engine, Rule};
use rule::Bmq;
use sched::{AlarmSlots, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "bmq",
    title: "a bitmap of levels for each CPU, with a small boost for who runs briefly (Project C)",
    source: "Project C v5.13-r3, kernel/sched/{alt_core.c,bmq.h}; BMQ vs CFS thesis §2.3",
    good_for: "desktops: who mostly waits for its user runs at once, whatever works in the background",
    bad_at: "shares: a level below gets nothing while one above is busy; VMs with promises",
    text: include_str!("mod.rs"),
    conserving: project_c::conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[
        Knob::choice(
            "version",
            &["5.13", "5.12", "6.6", "6.12"],
            "which kernel's BMQ: up to 5.12, from 5.13, 6.6, 6.12 on",
        )
        .from("Project C for these kernels, bmq.h"),
        project_c::SLICE,
        Knob::count(
            "min-boost",
            [-12, -12, 0],
            "the best boost to be earned, within the version's own reach (-7 or -12)",
        )
        .from("boost_task, bmq.h; 0: the thesis §2.3, \"the value won't go negative\""),
        project_c::YIELD,
        project_c::ONE_BETTER,
        project_c::TICK,
        project_c::DEADLINE_IS_FIFO,
        Knob::switch(
            "sleep-is-bool",
            true,
            "whether version 6.12 takes the length of a sleep for a yes or no, and boosts nobody",
        )
        .from("sched_task_ttwu, bmq.h, 6.12; off: what it seems to mean, a step for every 2^22 ns"),
        Knob::count("interactive-boost", [-2, -12, 0], "the boost from which on an entity is taken for interactive")
            .from("assumed"),
    ],
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Engine::new(Bmq::new(knobs), host, knobs)))
}

/// Levels are strict. Only who competes with equals that never sleep is sure of its turn: they sink to the last level
/// in as many turns as a boost has steps, and take turns there.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let unequal = load.weight_least != load.weight_most;
    if unequal || project_c::has_real_time(load) || load.has_sleepers || load.has_changes || load.has_affinity {
        return None;
    }
    let rule = Bmq::new(load.knobs);
    let turns = u64::from(rule.reach().unsigned_abs()) + 1;
    Some(rule.slice().saturating_mul(turns * load.entities))
}
