//! SCHED_FIFO and SCHED_RR, the real-time classes of Linux: the highest priority runs.
//!
//! For who has a few threads that must answer at once and can be trusted to stop soon. Every CPU has a list for each of
//! the priorities 1 to 99; the first of the highest list runs, and goes on until it blocks, yields, or somebody of a higher
//! priority comes. SCHED_RR shares a list in turns of 100 ms.
//!
//! ```text
//! a FIFO 10 from 0, b FIFO 20 from 20 to 60 ms, f without a priority, one CPU; 5 ms a letter
//! 0         50        100               950       1000
//! aaaabbbbbbbbaaaaaaaa        …         ffffffffffaaaa
//! ```
//!
//! **Lists** (sched(7)). Who wakes goes last in its list; who is preempted goes first; who yields goes last. Who waits and
//! is given a higher priority goes last in its new list, with a lower one first; with the same one it stays. A
//! turn of SCHED_RR is counted down at ticks; at its end the entity goes last, with a fresh turn, if there is anybody
//! else in its list, and goes on with a fresh turn otherwise.
//!
//! **Several CPUs.** The entities of the highest priorities run, as far as they are free to move: who wakes stays on its
//! CPU unless somebody at least as urgent is there; else it goes to the CPU whose most urgent entity is least
//! urgent, if that is less urgent than it is. A CPU that leaves somebody waiting *pushes* the most urgent of them to
//! such a CPU; a CPU about to run something less urgent *pulls* the most urgent that waits elsewhere. After
//! every decision, nobody waits while a CPU it may use runs somebody less urgent.
//!
//! **Throttling.** Once real-time entities have used more than 0.95 s of a second on a CPU, those that are there are
//! held until the second is over, and the CPU is left to the others. Time used beyond is counted in the next second.
//! Who is held does not move; who wakes on a throttled CPU is held there. With `rt-runtime-share`, as by default before
//! v5.10, a CPU that has used its runtime first borrows from the others: of what each has left, one part of as many as
//! there are CPUs, up to a whole period. What is lent stays lent until the lender is short itself; a single hog beside
//! idle CPUs is never throttled.
//!
//! **The others.** Who asks for no priority takes turns in the time that is left, machine-wide and in the order they came.
//! `linux` has the fair class there instead, and the deadline and stop classes above, which this policy does not know:
//! reservations and the stop class count for nothing here. Weights and groups neither.
//!
//! Differences from the kernel: idle CPUs count as less urgent than those that run somebody without a priority, in the
//! search for the least urgent CPU; seconds begin at multiples of a second; push looks further than the first that
//! cannot be pushed, so that the rule holds with affinities, too.
//!
//! Source: torvalds/linux kernel/sched/rt.c, cpupri.c, v5.13; sched(7).

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
    good_for: "a few threads that must answer at once, ranked by somebody who knows how long each of them runs",
    bad_at: "several who all ask for a high priority: the lower ones wait for as long as the higher ones like",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: ALARMS,
    knobs: &[KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], KNOBS[4], TICK, QUANTUM],
    build,
};

/// What the class can be tuned by; whoever composes it adds a time named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::time("rr-slice", Nanos::ms(100), (Nanos::us(100), Nanos::s(10)), "a turn of SCHED_RR, counted in ticks")
        .from("sched_rr_timeslice_ms, kernel/sched/rt.c"),
    Knob::switch("rt-throttling", true, "whether real-time entities are held to a runtime")
        .from("sched_rt_runtime_us, kernel/sched/rt.c; off: -1"),
    Knob::time("rt-period", Nanos::s(1), (Nanos::ms(1), Nanos::s(100)), "the period of throttling")
        .from("sched_rt_period_us, kernel/sched/rt.c"),
    Knob::time("rt-runtime", Nanos::ms(950), (Nanos::us(1), Nanos::s(100)), "how much of it a CPU gives, if less")
        .from("sched_rt_runtime_us, kernel/sched/rt.c"),
    Knob::switch("rt-runtime-share", false, "a CPU that has used its runtime borrows from the others")
        .from("RT_RUNTIME_SHARE, kernel/sched/features.h; on before v5.10, which is assumed (policies.md 2.2)"),
];

/// As the fair class declares it.
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

/// What throttling leaves of `below`: no CPU idles but one that is throttled, which is so to the end of the period; then a
/// real-time entity may wait elsewhere, behind a more urgent one.
pub(crate) fn throttled(load: &LoadBounds<'_>, below: Conserving) -> Conserving {
    if !load.has_rt || !is_limited(load.knobs) {
        return below;
    }
    let (period, runtime) = (load.knobs.time("rt-period"), load.knobs.time("rt-runtime"));
    match below {
        // What is used beyond the runtime, a tick at most, is paid off in one period; but not where it was lent away.
        Conserving::Global { slack } if runtime > load.knobs.time("tick") && !load.knobs.on("rt-runtime-share") => {
            Conserving::Global { slack: slack.max(period) }
        }
        _ => Conserving::Never,
    }
}

/// Priorities are strict. Without any, everybody else has one turn first, on the one CPU that all may be confined to.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    (!load.has_rt).then(|| load.knobs.time("quantum").saturating_mul(load.entities))
}
