//! BMQ: a queue of levels for each CPU; who runs briefly and sleeps climbs a little, who uses up its turns sinks a little.
mod rule;

use crate::project_c::{self, Engine, Rule};
use rule::Bmq;
use sched::{AlarmSlots, Descriptor, Host, Keeps, Knob, Knobs, Load, Nanos, Policy, Refused};

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
    keeps: Keeps::NOTHING,
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

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Engine::new(Bmq::new(knobs), host, knobs)))
}

/// Levels are strict. Only who competes with equals that never sleep is sure of its turn: they sink to the last level
/// in as many turns as a boost has steps, and take turns there.
fn starvation(load: &Load<'_>) -> Option<Nanos> {
    let unequal = load.weight_least != load.weight_most;
    if unequal || project_c::has_real_time(load) || load.has_sleepers || load.has_changes || load.has_affinity {
        return None;
    }
    let rule = Bmq::new(load.knobs);
    let turns = u64::from(rule.reach().unsigned_abs()) + 1;
    Some(rule.slice().saturating_mul(turns * load.entities))
}
