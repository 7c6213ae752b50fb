//! SCHED_FIFO and SCHED_RR, the real-time classes of Linux: the highest priority runs.
//!
//! For a few threads that must respond at once and can be trusted to block soon. Every CPU has a list for each of the
//! priorities 1 to 99. The first entity of the highest list runs until it blocks or yields, or until an entity of a
//! higher priority arrives. SCHED_RR entities of one list take turns of 100 ms.
//!
//! ```text
//! a FIFO 10 from 0, b FIFO 20 from 20 to 60 ms, f without a priority, one CPU; 5 ms a letter
//! 0         50        100               950       1000
//! aaaabbbbbbbbaaaaaaaa        …         ffffffffffaaaa
//! ```
//!
//! **Lists** (sched(7)). A woken entity goes last in its list, a preempted one first, and one that yields last. If the
//! priority of a waiting entity is raised, it goes last in its new list; if it is lowered, it goes first. If the
//! priority stays the same, the entity keeps its place. A time slice of SCHED_RR is counted down at ticks. At its end
//! the entity gets a new time slice; it goes last if there is another entity in its list, and goes on otherwise.
//!
//! **Several CPUs.** The entities of the highest priorities run, as far as affinities allow. A woken entity stays on
//! its CPU unless an entity at least as urgent is there. Otherwise it goes to the CPU whose most urgent entity is least
//! urgent, if it is more urgent than that entity. A CPU that leaves entities waiting *pushes* the most urgent of them
//! to such a CPU. A CPU about to run a less urgent entity *pulls* the most urgent entity that waits on another CPU.
//! After every decision, no entity waits while a CPU that it may use runs a less urgent one.
//!
//! **Throttling.** Once real-time entities have used more than 0.95 s of a second on a CPU, they are held there until
//! the second is over. Other tasks get the CPU. An overrun counts in the next second. A held entity does not migrate;
//! an entity that wakes on a throttled CPU is held there. With `rt-runtime-share`, the default before v5.10, a CPU that
//! has used its runtime first borrows from the others. It borrows from each the unused runtime divided by the number of
//! CPUs, up to a whole period. The loan lasts until the lender needs runtime itself. A single hog beside idle CPUs is
//! never throttled.
//!
//! **Other tasks.** An entity without a priority runs round robin in the remaining time, machine-wide and in order of
//! arrival. `linux` has the fair class there instead, and the deadline and stop classes above. This policy does not
//! have them: reservations, the stop class, weights and groups are ignored.
//!
//! Differences from the kernel: in the search for the least urgent CPU, an idle CPU is less urgent than one that runs
//! an entity without a priority. Seconds begin at multiples of a second. A push searches beyond the first entity that
//! cannot be pushed, so that the rule also holds with affinities.
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
    good_for: "a few threads that must respond at once, ranked with knowledge of how long each of them runs",
    bad_at: "several tasks with high priorities: the lower ones wait for as long as the higher ones run",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: ALARMS,
    knobs: &[KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], KNOBS[4], TICK, QUANTUM],
    build,
};

/// Knobs of the class; the policy that contains the class adds a time named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::time(
        "rr-slice",
        Nanos::ms(100),
        (Nanos::us(100), Nanos::s(10)),
        "the time slice of SCHED_RR, counted in ticks",
    )
    .from("sched_rr_timeslice_ms, kernel/sched/rt.c"),
    Knob::switch("rt-throttling", true, "real-time entities are throttled to a runtime per period")
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
    Knob::switch("rt-runtime-share", false, "a CPU that has used its runtime borrows from the others")
        .from("RT_RUNTIME_SHARE, kernel/sched/features.h; on before v5.10, which is assumed (policies.md 2.2)"),
];

/// The tick of the fair class.
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

/// Returns the work conservation of `below` under throttling. Only a throttled CPU idles while an entity waits, up to
/// the end of the period. In that time a real-time entity may wait on another CPU, behind a more urgent entity.
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

/// Returns the maximum wait of an entity. Priorities are strict. Without real-time entities, each other entity first
/// runs for one time slice, on the one CPU to which all may be confined.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    (!load.has_rt).then(|| load.knobs.time("quantum").saturating_mul(load.entities))
}
