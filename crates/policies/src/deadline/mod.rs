//! SCHED_DEADLINE of Linux: earliest deadline first, and no entity exceeds its reservation at the expense of another
//! entity.
//!
//! This policy suits VMs or tasks that have a reservation and must not be able to harm each other. Each entity has a
//! *server* (CBS, a constant bandwidth server): the remaining slice and a deadline. Of all entities with a remaining
//! slice, those with the earliest deadlines run, one on each CPU.
//!
//! ```text
//! one CPU, reclaim = off: a (slice 2 ms, period 6 ms), b (3, 9) and c (no reservation) are hogs; one letter per ms
//! 0         10        20        30
//! aabbbcaacbbbaaccccaabbbcaacbbbaacccc
//! ```
//!
//! **Wake-up.** Let an entity with slice `Q` and relative deadline `D` wake at `t`, with remaining slice `q` and
//! deadline `d`. The server restarts with a full slice, due at `t + D`, if `d` has passed. The server also restarts if
//! `q` is more than the entity's share of the time to `d` (`q · D > (d − t) · Q`). Otherwise the server continues
//! unchanged. From `t` to its deadline, the entity can therefore never use more than `Q / D` of a CPU. If `D` is
//! shorter than the period `P`, the server does not restart before its next period. Before `d`, the server cuts `q` to
//! the entity's share of the time to `d`; after `d`, the entity is held until its next period.
//!
//! **Running.** CPU time is charged to `q`. When the slice is used up, the entity is held until its next period begins.
//! At that instant the entity receives another slice, due a period after the last deadline. If that instant has passed
//! already, the entity continues at once with the later deadline. A *yield* gives up the remainder of the slice. If an
//! entity is blocked when its next period could begin, the period begins at its wake-up. In the kernel (`asleep =
//! renew`), the period begins at once. If `D` is shorter than `P`, an entity that wakes late in that period receives
//! only its share of the time until its deadline.
//!
//! **Admission control.** The sum of all reservations may be at most 95 % of the CPUs. A reservation that would exceed
//! this limit is refused; the error names the largest slice that would fit. If `D` is shorter than `P`, a reservation
//! counts as `Q / D` (`admission = density`). The guarantee below requires this rule; the kernel counts `Q / P`. The
//! sum is computed exactly, to the last nanosecond.
//!
//! **Guarantees.** On one CPU, an admitted entity receives its slice in every period, by the deadline, as long as the
//! entity is runnable. Jobs that need no more than `Q` and are at least `P` apart meet their deadlines, whatever the
//! other entities do. On `m` CPUs without reclaiming, a job is late by at most `((m−1)·Qmax − Qmin) / (m −
//! (m−2)·Umax) + Qmax`. Qmax and Qmin are the largest and the smallest slice, and Umax is the largest utilisation. If
//! this bound is more than the period of the job, it holds only with `lagging = catch-up`. With `lagging = reset`, an
//! entity that is late by more than a period restarts with a deadline later than the missed deadlines, and falls
//! further behind.
//!
//! **Reclaiming** (GRUB). An entity with a soft reservation (`SCHED_FLAG_RECLAIM`) is charged less than the time it
//! runs, and therefore receives more CPU time. The charge is smaller the more of its CPU is not reserved or not in use.
//! At least 5 % of the CPU is left for other entities. A hard reservation is charged in full. The share of an entity
//! that blocks stays in use until its *0-lag time*, `d − q · D / Q`; with `admission = bandwidth`, `P` replaces `D`.
//! Until then, admission control counts the share of an entity that is detached. The formula of v5.13 gives too little
//! CPU time; the formula of v6.5 is correct.
//!
//! **Several CPUs.** Run queues are per CPU, with push and pull as in `rt`. No entity waits while a CPU in its affinity
//! runs an entity with a later deadline. Affinities that exclude CPUs are allowed, but admission control then
//! guarantees nothing. With `whole-machine`, such affinities are refused, as in the kernel.
//!
//! **Entities without a reservation** run round robin on all CPUs, in the time that reservations leave. Classes,
//! weights and groups are ignored; `linux` has the other classes.
//!
//! Differences from the kernel: a slice ends when it is used up, not at the next tick (`hrtick`). The wake-up rule is
//! computed exactly, not in units of 1024 ns. A changed charge rate takes effect at once, not at the next update. The
//! `start` of a reservation is an addition of Tactus. With a `start`, the periods stay bound to it, and an entity that
//! wakes keeps at most the part of its slice that fits the current period. A changed reservation takes effect at the
//! next replenishment, but the remaining slice is cut to the new slice at once.
//!
//! Source: torvalds/linux kernel/sched/deadline.c, v5.13 and v6.5; Documentation/scheduler/sched-deadline.rst; Abeni
//! and Buttazzo 1998; Abeni, Lipari and Lelli 2015.

mod account;
mod class;
mod reclaim;
#[cfg(test)]
mod tests;

use crate::classes::{Background, Bases, Below, Classes, Parts, QUANTUM};
use crate::rt::TICK;
pub(crate) use class::{ALARMS, Deadline};
use sched::{AlarmBase, Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "deadline",
    title: "SCHED_DEADLINE: earliest deadline first, each within its reservation",
    source: "Linux v5.13 and v6.5, kernel/sched/deadline.c",
    good_for: "reservations of entities that may overrun: no entity can harm another",
    bad_at: "work that does not fit a slice and a period; exact guarantees on several CPUs",
    text: include_str!("mod.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    starvation,
    guarantees: Guarantees { reservations, ..Guarantees::NOTHING },
    alarms: ALARMS,
    knobs: &[KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], KNOBS[4], KNOBS[5], KNOBS[6], KNOBS[7], KNOBS[8], TICK, QUANTUM],
    build,
};

/// Knobs of the class; the policy that contains the class adds a time knob named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::percent("rt-bandwidth", [95, 1, 100], "the part of each CPU that may be reserved")
        .from("sched_rt_runtime_us / sched_rt_period_us, kernel/sched/deadline.c"),
    Knob::choice(
        "admission",
        &["density", "bandwidth"],
        "a share is relative to the deadline (density) or to the period (bandwidth)",
    )
    .from("bandwidth: dl_overflow, kernel/sched/deadline.c; density: Liu 2000, §6.3.3"),
    Knob::choice("reclaim", &["v5.13", "v6.5", "off"], "the rule by which soft reservations reclaim unused bandwidth")
        .from("grub_reclaim, kernel/sched/deadline.c; off: before v4.13"),
    Knob::switch("hrtick", true, "a slice ends when it is used up, not at the next tick")
        .from("HRTICK_DL, kernel/sched/features.h, v5.13: off"),
    Knob::switch("whole-machine", false, "an entity with a reservation must be allowed on all CPUs")
        .from("__sched_setscheduler, kernel/sched/core.c, v5.13: on"),
    Knob::choice(
        "asleep",
        &["lapse", "renew"],
        "a period that could begin while the entity is blocked begins at its wake-up (lapse), or at once (renew)",
    )
    .from("renew: dl_task_timer, kernel/sched/deadline.c"),
    Knob::choice(
        "lagging",
        &["reset", "catch-up"],
        "an entity that is late by more than a period restarts (reset) or keeps the missed deadlines (catch-up)",
    )
    .from("reset: replenish_dl_entity, kernel/sched/deadline.c; catch-up: Abeni and Buttazzo 1998"),
    Knob::time("period-least", Nanos::us(100), (Nanos::us(1), Nanos::s(1)), "the shortest period that is admitted")
        .from("sched_deadline_period_min_us, kernel/sched/deadline.c, v5.13"),
    Knob::time(
        "period-most",
        Nanos::us(1 << 22),
        (Nanos::s(1), Nanos::s(1 << 22)),
        "the longest period that is admitted",
    )
    .from("sched_deadline_period_max_us, kernel/sched/deadline.c, v5.13"),
];

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        stop: None,
        deadline: Some(Deadline::new(host, knobs, None)),
        rt: None,
        servers: None,
        below: Below::Background(Background::new(knobs.time("quantum"))),
        boosts_pay: false,
        bases: Bases { below: AlarmBase { policy: 1, cpu: 1, entity: 2, group: 0 }, ..Bases::default() },
    };
    Ok(Box::new(Classes::new(host, parts)))
}

/// Returns the maximum wait of an entity. Reservations have strict priority, so there is a bound only without
/// reservations. Without reservations, each other entity may run for one time slice first, on the one CPU to which all
/// entities may be confined.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    (!load.has_reservations).then(|| load.knobs.time("quantum").saturating_mul(load.entities))
}

/// Returns the maximum part of a slice that can be missing. On one CPU, if slices end exactly and shares are admitted
/// by density, the entity receives every slice in every period, to the nanosecond. No bound is stated if entities
/// block, because an observer cannot detect the new periods. None is stated if entities are attached, detached or
/// changed.
pub(crate) fn reservations(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    let exact = knobs.on("hrtick") && knobs.word("admission") == "density";
    (exact && load.host.cpus == 1 && !load.has_sleepers && !load.has_changes).then_some(Nanos::ZERO)
}
