//! Earliest deadline first, over reservations of a slice in every period.
//!
//! Among entities with a remaining slice, the entity whose period ends first runs. A used-up slice is replenished when
//! the next period begins. Until then the entity competes for unreserved time (soft), or is held (hard). Entities
//! without a reservation run round robin in the remaining time.
//!
//! ```text
//! one CPU, hard, in ms: a has slice 5 and period 20, b has slice 20 and period 50
//! 0    5              20   25   30        40   45
//! aaaaabbbbbbbbbbbbbbbaaaaabbbbb          aaaaa
//! ```
//!
//! Periods follow one another from the `start` of the reservation. Without a `start`, the first period begins when the
//! entity first wakes. If the entity then sleeps past the end of a period, a new period begins at its wake-up. If an
//! entity wakes within a period, its remaining slice is reduced by the time for which it was blocked in this period.
//! The slice is not reduced below the entity's share of the remainder of the period (docs/decisions/0010). With `rest =
//! renew` and no `start`, the entity begins a new period if its remaining slice exceeds that share. Its periods then
//! follow its own wake-ups. The daemon uses this setting.
//!
//! The reduction gives a guarantee on one CPU with Σ slice/period ≤ 1. No slice of an entity that is runnable
//! throughout its period is late, regardless of when the other entities sleep and wake. The policy admits at most this
//! sum, less a reserve.
//!
//! A new or changed entity receives its slice at once. During its first period, the slices of other entities may be
//! late: an entity that has just used its slice receives another slice, and an entity that grows uses time that an
//! entity that shrinks has used already. With `change = due`, no slice is late. The used part of a slice counts as
//! delivered at a constant rate. The old utilisation of the entity is free, and its new periods begin, when this part
//! is due. The first period of another new or changed entity is postponed until its own utilisation is free.
//!
//! `placement = partitioned` gives the same guarantee on several CPUs: each entity is assigned to the first CPU on
//! which it fits. `placement = global` runs the entities with the earliest deadlines of the whole machine, with one
//! decision for all CPUs at once. Global placement admits more reservations than partitioned placement, and bounds
//! tardiness instead of excluding it (Devi and Anderson 2005). An entity runs on one CPU at a time, so the reserve
//! bounds each entity, too.
//!
//! Each global decision first determines the set of entities to run. Entities of this set that already run keep their
//! CPU. The other entities are placed in order of (deadline, index): on their last CPU if it is free, else on the
//! lowest free CPU.
//!
//! Differences from VSched §3, the source of this policy: this policy detects whether an entity is blocked. An entity
//! is therefore charged its CPU time instead of the time since its pick. A blocked entity frees its CPU, and a new
//! period begins after a sleep past the end of a period. `charge = wall` selects VSched's own core, which cannot detect
//! a block. A yield declares the job complete: the entity gives up the remainder of the slice, as in SCHED_DEADLINE.
//! `enforce = none` schedules jobs instead of slices. A job runs until it blocks or yields, and a late job keeps its
//! deadline. Global placement then refuses no reservation. The deadline of a job is its release plus the period. A
//! driver that knows the release of a job, even of a late job, names the release as the `start` of the reservation.
//!
//! Source: VSched (Lin and Dinda, SC'05) §3; Liu and Layland 1973.

mod account;
mod change;
mod global;
mod partitioned;
mod state;
#[cfg(test)]
mod tests;
mod wall;

pub(crate) use partitioned::Partitioned;
pub(crate) use state::Edf;

use account::Enforce;
use sched::{
    AlarmKind, AlarmSlots, Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused,
    Topology,
};

pub(crate) const LATE: Knob =
    Knob::choice("late", &["renew", "carry"], "undelivered time is lost (renew) or added to the next slice (carry)")
        .from("VSched §3.2 (renew)");
pub(crate) const GRAIN: Knob = Knob::time(
    "grain",
    Nanos::ZERO,
    (Nanos::ZERO, Nanos::s(1)),
    "the granularity of timers, which fire at its multiples; 0: exact timers",
)
.from("VSched §3.3: 10 ms on Linux 2.4, 1 ms on 2.6");
pub(crate) const RESERVE: Knob =
    Knob::percent("reserve", [10, 0, 100], "the part of each CPU that is never reserved").from("VSched §3.1");
pub(crate) const QUANTUM: Knob =
    Knob::time("quantum", Nanos::ms(10), (Nanos::us(10), Nanos::s(1)), "the time slice in unreserved time")
        .from("ours: VSched leaves that time to the host's own scheduler");

pub(crate) const REST: Knob = Knob::choice(
    "rest",
    &["keep", "renew"],
    "at a wake-up within a period, the period continues (keep), or a new period begins if the remaining slice exceeds the share of the rest of the period (renew; not if the reservation names a start)",
)
.from("ours (keep); CBS, Abeni and Buttazzo 1998 (renew)");
pub(crate) const CHANGE: Knob = Knob::choice(
    "change",
    &["now", "due"],
    "the first period of a changed reservation begins at once (now), or when the used part of the slice is due at a constant rate (due)",
)
.from("VSched §3.3: an immediate decision on the new task set (now); GRUB, Lipari and Baruah 2000 (due)");

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "edf",
    title: "earliest deadline first, over reservations of a slice in every period",
    source: "VSched (Lin and Dinda, SC'05) §3; Liu and Layland 1973",
    good_for: "timing guarantees: a VM that needs 2 ms in every 10 ms gets them under any load of the other VMs",
    bad_at: "fairness among entities without a reservation: they run round robin in the remaining time",
    text: include_str!("mod.rs"),
    conserving,
    starvation: |_| None,
    guarantees: Guarantees { reservations, ..Guarantees::NOTHING },
    alarms: AlarmSlots { entity: &[AlarmKind::Timer], cpu: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::choice("enforce", &["soft", "hard", "none"], "the effect of the end of a slice")
            .from("VSched §3.2 (soft, hard); none: jobs run to completion"),
        Knob::choice(
            "placement",
            &["global", "partitioned"],
            "one queue for all CPUs, or each entity assigned to a CPU",
        )
        .from("VSched has one CPU, so it is partitioned"),
        LATE,
        Knob::choice(
            "charge",
            &["cpu", "wall"],
            "a slice is charged by CPU time, or by the time since the pick of the entity",
        )
        .from("VSched §3.2 (wall): its core cannot detect a block"),
        REST,
        GRAIN,
        Knob::time(
            "decision",
            Nanos::ZERO,
            (Nanos::ZERO, Nanos::ms(100)),
            "the CPU time of each decision of the core of `charge = wall`",
        )
        .from("VSched §4.3: more than 1.25 % of a period of 16 ms on a Pentium 4 of 2 GHz, so 200 us there"),
        RESERVE,
        QUANTUM,
        CHANGE,
    ],
    build,
};

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let slack = Nanos::ZERO;
    let partitioned = load.knobs.word("placement") == "partitioned";
    match (load.knobs.word("charge"), partitioned) {
        ("wall", _) if !load.knobs.time("decision").is_zero() => Conserving::Never,
        ("wall", _) => Conserving::PerCpu { slack },
        (_, true) => Conserving::PerCpu { slack },
        (_, false) => Conserving::Global { slack },
    }
}

/// Returns the maximum part of a slice that can be missing. If placement is partitioned or the host has one CPU, every
/// slice is delivered in every period, to the nanosecond. This requires enforced slices, periods that continue, charges
/// by CPU time, and exact timers. There is no bound if entities are attached, detached or changed: a new or changed
/// entity receives its slice at once. The CPU time that an earlier reservation has used in its current period may then
/// be missing for other entities.
fn reservations(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_changes {
        return None;
    }
    let knobs = load.knobs;
    // If periods begin at wake-ups, an observer cannot determine which periods were guaranteed.
    let keeps_periods = knobs.word("rest") == "keep";
    let exact = keeps_periods
        && knobs.word("enforce") != "none"
        && knobs.word("charge") == "cpu"
        && knobs.time("grain").is_zero();
    (exact && (knobs.word("placement") == "partitioned" || load.host.cpus == 1)).then_some(Nanos::ZERO)
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let partitioned = knobs.word("placement") == "partitioned";
    let edf = Edf::new(host, knobs, partitioned);
    match (knobs.word("charge"), partitioned || host.cpus == 1, edf.enforce) {
        ("wall", _, Enforce::None) => Err(Refused::Unsupported {
            reason: "edf: charge = wall ends slices by the clock, enforce = none never ends them",
            remedy: "use enforce = soft or hard",
        }),
        ("wall", false, _) => Err(Refused::Unsupported {
            reason: "edf: charge = wall follows one chosen entity per CPU",
            remedy: "use placement = partitioned as well",
        }),
        ("wall", _, _) if knobs.word("change") == "due" => Err(Refused::Unsupported {
            reason: "edf: change = due needs the used part of each slice, and charge = wall also charges unused time",
            remedy: "use charge = cpu as well",
        }),
        ("wall", true, _) => {
            let decision = knobs.time("decision");
            Ok(Box::new(wall::Wall::new(Edf::new(host, knobs, true), decision, host.cpus)))
        }
        (_, _, _) if !knobs.time("decision").is_zero() => Err(Refused::Unsupported {
            reason: "edf: decision is the time of a core that is a process",
            remedy: "use charge = wall as well",
        }),
        (_, _, _) if partitioned => Ok(Box::new(partitioned::Partitioned(edf))),
        _ => Ok(Box::new(global::Global::new(edf, host.cpus))),
    }
}
