//! SCHED_DEADLINE of Linux: earliest deadline first, and nobody gets more than its reservation at another's expense.
//!
//! For VMs or tasks that were promised a slice in every period and must not be able to harm each other. Each has a *server*
//! (CBS, a constant bandwidth server): what is left of the slice, and a deadline. Of all who have something left, those
//! with the earliest deadlines run, one on each CPU.
//!
//! ```text
//! one CPU, reclaim = off: a (slice 2 ms, period 6 ms), b (3, 9) always want to run; c asks for nothing. 1 ms a letter
//! 0         10        20        30
//! aabbbcaacbbbaaccccaabbbcaacbbbaacccc
//! ```
//!
//! **Waking** at `t`, with `q` left until deadline `d`: if `d` has passed, or `q` is more than its share of the time to
//! `d` (`q · D > (d − t) · Q`), it starts anew with a whole slice `Q`, due at `t + D`. Else it goes on as it was. So a
//! rest can never be turned into more than `Q / D` of a CPU. With a deadline `D` shorter than the period `P` it does
//! not start anew before its next period: before `d` it keeps the part of `q` that fits, after `d` it is held.
//!
//! **Running** takes from `q`. When nothing is left it is held until its next period begins, and has then another
//! slice, due a period later. If that instant has passed already, it goes on at once with the later deadline. A *yield*
//! gives up the rest of the slice. Who sleeps when its next period could begin has it from when it wakes; in the kernel
//! (`asleep = renew`) that period begins at once, and who wakes late in it has only what fits of its slice.
//!
//! **Admission.** All slices together may be promised 95 % of the CPUs; whoever would exceed that is refused, and told
//! how much would fit. Where `D` is shorter than `P`, the share counts as `Q / D` (`admission = density`), which is
//! what keeps the promise below; the kernel counts `Q / P`. The sum is exact, to the last nanosecond.
//!
//! **What is kept.** On one CPU whoever is admitted gets its slice in every period, up to the deadline, as long as it
//! wants to run: any jobs that need no more than `Q` and come no closer than `P` are done in time, whatever the others
//! do. On `m` CPUs a job can be late, by no more than `((m−1)·Qmax − Qmin) / (m − (m−2)·Umax) + Qmax` without
//! reclaiming, and only with `lagging = catch-up` where that is more than its period: else who is as late as that
//! starts anew, with a deadline later than it should have met, and falls behind further.
//!
//! **Reclaiming** (GRUB). Whoever has a soft reservation (`SCHED_FLAG_RECLAIM`) is charged less than the time it runs,
//! the more of its CPU is not promised or not in use, and so gets more; but 5 % are left in any case. A hard one is
//! charged as time passes. The share of an entity that blocks stays in use until its *0-lag time*, `d − q · P / Q`,
//! also for admission when it leaves. The formula of v5.13 gives away too little; that of v6.5 is right.
//!
//! **Several CPUs.** Queues are per CPU, with push and pull as in `rt`: nobody waits while a CPU it may use runs
//! somebody with a later deadline. Affinities are allowed, and then admission guarantees nothing; `whole-machine`
//! refuses them, as the kernel does.
//!
//! **The others** take turns in the time that is left, machine-wide. Classes, weights and groups count for nothing here;
//! `linux` has the other classes.
//!
//! Differences from the kernel: a slice ends when it is used up, not at the next tick (`hrtick`); the wake-up rule is
//! computed exactly, not in units of 1024 ns; the rate at which time is charged changes when it changes, not at the
//! next look. Ours is the `start` of a reservation: its periods then stay bound to it, and it always wakes with what
//! fits of the current one. A changed reservation takes effect at the end of the current slice, but what is left is cut
//! to the new one at once.
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

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "deadline",
    title: "SCHED_DEADLINE: earliest deadline first, each within its reservation",
    source: "Linux v5.13 and v6.5, kernel/sched/deadline.c",
    good_for: "promises among those who cannot be trusted to keep to what they asked for",
    bad_at: "work that nobody can put into a slice and a period; and promises to the nanosecond on several CPUs",
    text: include_str!("mod.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    starvation,
    guarantees: Guarantees { reservations, ..Guarantees::NOTHING },
    alarms: ALARMS,
    knobs: &[KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], KNOBS[4], KNOBS[5], KNOBS[6], KNOBS[7], KNOBS[8], TICK, QUANTUM],
    build,
};

/// What the class can be tuned by; whoever composes it adds a time named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::percent("rt-bandwidth", [95, 1, 100], "how much of each CPU may be promised")
        .from("sched_rt_runtime_us / sched_rt_period_us, kernel/sched/deadline.c"),
    Knob::choice(
        "admission",
        &["density", "bandwidth"],
        "whether a share is of the time to the deadline or of the period",
    )
    .from("bandwidth: dl_overflow, kernel/sched/deadline.c; density: Liu 2000, §6.3.3"),
    Knob::choice("reclaim", &["v5.13", "v6.5", "off"], "how soft reservations share in what others leave")
        .from("grub_reclaim, kernel/sched/deadline.c; off: before v4.13"),
    Knob::switch("hrtick", true, "slices end when they are used up, else at the next tick")
        .from("HRTICK_DL, kernel/sched/features.h, v5.13: off"),
    Knob::switch("whole-machine", false, "who has a reservation must be allowed on all CPUs")
        .from("__sched_setscheduler, kernel/sched/core.c, v5.13: on"),
    Knob::choice(
        "asleep",
        &["lapse", "renew"],
        "whether a period that could begin during a rest begins after it, or then",
    )
    .from("renew: dl_task_timer, kernel/sched/deadline.c"),
    Knob::choice(
        "lagging",
        &["reset", "catch-up"],
        "whether who is late by more than a period starts anew or catches up",
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

/// Deadlines are strict. Without any, everybody else has one turn first, on the one CPU that all may be confined to.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    (!load.has_reservations).then(|| load.knobs.time("quantum").saturating_mul(load.entities))
}

/// Every slice in every period, to the nanosecond, on one CPU, where slices end exactly. Who rests starts its periods anew, which
/// nobody can see from outside.
pub(crate) fn reservations(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    let exact = knobs.on("hrtick") && knobs.word("admission") == "density";
    (exact && load.host.cpus == 1 && !load.has_sleepers && !load.has_changes).then_some(Nanos::ZERO)
}
