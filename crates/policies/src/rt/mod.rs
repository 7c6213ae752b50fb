//! SCHED_FIFO and SCHED_RR, the real-time classes of Linux: the highest priority runs.
//!
//! These classes serve a few threads that must respond at once and block soon. Every CPU has a list for each of the
//! priorities 1 to 99. The first entity of the highest list that is not empty runs until it blocks or yields, or an
//! entity of a higher priority arrives. SCHED_RR entities of one list run round robin, with a time slice of 100 ms.
//!
//! ```text
//! a FIFO 10 from 0, b FIFO 20 from 20 to 60 ms, f without a priority, one CPU; 5 ms per letter
//! 0         50        100               950       1000
//! aaaabbbbbbbbaaaaaaaa        …         ffffffffffaaaa
//! ```
//!
//! **Lists** (sched(7)). A woken or yielding entity is enqueued at the tail of its list, a preempted entity at the
//! head. A waiting entity moves to the tail of its new list if its priority is raised, and to the head if its priority
//! is lowered. With an unchanged priority, the entity keeps its position. The time slice of a SCHED_RR entity is
//! counted down at ticks. At the end of its time slice, the entity receives a new time slice and moves to the tail of
//! its list. An entity that is alone in its list continues.
//!
//! **Several CPUs.** The entities of the highest priorities run, as far as affinities allow. The urgency of a CPU is
//! the urgency of its most urgent entity, running or waiting. A woken entity stays on its CPU if the entity is more
//! urgent than that CPU. Otherwise the entity moves to the least urgent CPU, unless that CPU is at least as urgent as
//! the entity. After a pick, a CPU *pushes* its waiting entities, the most urgent first, to less urgent CPUs. A CPU
//! about to run a less urgent entity *pulls* the most urgent entity that waits on another CPU. Once all kicks have
//! arrived, no entity waits while an unthrottled CPU in its affinity runs a less urgent entity.
//!
//! **Throttling.** By default, a CPU is throttled when its real-time entities have used more than 0.95 s of a period of
//! 1 s. Until the period ends, these entities are held, and other tasks run. An overrun counts in the next period. A
//! held entity does not migrate, and an entity that wakes on a throttled CPU is held there. With `rt-runtime-share`,
//! the default before v5.10 (assumed), a CPU that has used up its runtime first borrows from the other CPUs. From each
//! lender, the borrower receives the lender's unused runtime divided by the number of CPUs, until the borrower's
//! runtime is a whole period. The loan lasts until the lender has used up its own runtime and borrows back. With the
//! default runtime, a single hog is then never throttled while another CPU idles.
//!
//! **Other tasks.** Entities without a priority run round robin in the remaining time, machine-wide and in order of
//! arrival. The policy `linux` has the fair class instead, and the deadline and stop classes above the real-time
//! classes. The policy `rt` lacks these classes and ignores reservations, the stop class, weights and groups.
//!
//! Differences from the kernel: an idle CPU counts as less urgent than a CPU that runs an entity without a priority.
//! Periods begin at multiples of their length. A push searches beyond the first entity that cannot be pushed, so the
//! rule for several CPUs also holds with affinities.
//!
//! Source: torvalds/linux kernel/sched/rt.c, cpupri.c, v5.13; sched(7).

mod budget;
mod class;
#[cfg(test)]
mod tests;
mod throttle;

use crate::classes::{Background, Bases, Below, Classes, Parts, QUANTUM};
pub(crate) use class::{ALARMS, Rt, is_limited};
use sched::{AlarmBase, Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rt",
    title: "SCHED_FIFO and SCHED_RR: the highest priority runs",
    source: "Linux v5.13, kernel/sched/rt.c; sched(7)",
    good_for: "a few threads that must respond at once, with priorities chosen from known run times",
    bad_at: "several tasks with high priorities: a lower priority waits while a higher priority runs",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: ALARMS,
    knobs: &[KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], KNOBS[4], TICK, QUANTUM],
    build,
};

/// Knobs of the class. A policy that contains the class adds a time knob named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::time(
        "rr-slice",
        Nanos::ms(100),
        (Nanos::us(100), Nanos::s(10)),
        "the time slice of SCHED_RR, counted in ticks",
    )
    .from("sched_rr_timeslice_ms, kernel/sched/rt.c"),
    Knob::switch("rt-throttling", true, "the runtime of real-time entities per period is limited")
        .from("sched_rt_runtime_us, kernel/sched/rt.c; off: -1"),
    Knob::time("rt-period", Nanos::s(1), (Nanos::ms(1), Nanos::s(100)), "the period of throttling")
        .from("sched_rt_period_us, kernel/sched/rt.c"),
    Knob::time(
        "rt-runtime",
        Nanos::ms(950),
        (Nanos::us(1), Nanos::s(100)),
        "the runtime of real-time entities per period, if less than the period",
    )
    .from("sched_rt_runtime_us, kernel/sched/rt.c"),
    Knob::switch("rt-runtime-share", false, "a CPU that has used up its runtime borrows from other CPUs")
        .from("RT_RUNTIME_SHARE, kernel/sched/features.h; on before v5.10 (assumed)"),
];

/// The period of the tick.
pub(crate) const TICK: Knob =
    Knob::time("tick", Nanos::ms(1), (Nanos::us(100), Nanos::ms(100)), "the time between two ticks of a CPU: 1 / HZ")
        .from("CONFIG_HZ, kernel/Kconfig.hz, v5.13");

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        stop: None,
        deadline: None,
        rt: Some(Rt::new(host, knobs, true)),
        servers: None,
        below: Below::Background(Background::new(knobs.time("quantum"))),
        boosts_pay: false,
        bases: Bases { below: AlarmBase { policy: 1, cpu: 1, entity: 0, group: 0 }, ..Bases::default() },
    };
    Ok(Box::new(Classes::new(host, parts)))
}

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    throttled(load, Conserving::Global { slack: Nanos::ZERO })
}

/// Returns the work conservation under throttling. `below`: the work conservation without throttling. Only a throttled
/// CPU may idle while a real-time entity waits behind a more urgent entity on another CPU. The throttled CPU idles at
/// most until the end of the period.
pub(crate) fn throttled(load: &LoadBounds<'_>, below: Conserving) -> Conserving {
    if !load.has_rt || !is_limited(load.knobs) {
        return below;
    }
    let (period, runtime) = (load.knobs.time("rt-period"), load.knobs.time("rt-runtime"));
    match below {
        // An overrun of at most a tick is compensated in one period, unless the runtime was lent.
        Conserving::Global { slack } if runtime > load.knobs.time("tick") && !load.knobs.on("rt-runtime-share") => {
            Conserving::Global { slack: slack.max(period) }
        }
        _ => Conserving::Never,
    }
}

/// Returns the maximum wait of an entity. Priorities are strict, so there is no bound if real-time entities exist.
/// Otherwise every other entity may first run for one time slice, on the same CPU if all affinities allow only that
/// CPU.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    (!load.has_rt).then(|| load.knobs.time("quantum").saturating_mul(load.entities))
}
