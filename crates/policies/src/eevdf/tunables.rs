//! The knobs that EEVDF adds to those of the fair class, and their values on one host.

use crate::fair::{self, Tunables};
use sched::{Knob, Knobs, Nanos, Topology};

const FEATURES: &str = "kernel/sched/features.h, v6.12";

const OWN: [Knob; 13] = [
    Knob::choice(
        "version",
        &["v6.12", "v6.6", "v6.17"],
        "the kernel: later features are off, and knobs that are not set have its values",
    )
    .from("kernel/sched/fair.c, v6.6, v6.12 and v6.17"),
    Knob::time(
        "base-slice",
        Nanos::us(750),
        (Nanos::us(100), Nanos::s(1)),
        "the time slice of a task that requests none, unscaled; 0.7ms in v6.17 unless set",
    )
    .from("sysctl_sched_base_slice, kernel/sched/fair.c, v6.12 (0.70 ms from v6.15 on)"),
    Knob::switch("run-to-parity", true, "a running task is protected until its deadline, while it is eligible")
        .from(FEATURES),
    Knob::choice(
        "protection",
        &["deadline", "shortest"],
        "the end of the protection: at the deadline, or after the shortest time slice of the queue (as in v6.17)",
    )
    .from("set_protect_slice, kernel/sched/fair.c, v6.17"),
    Knob::switch(
        "preempt-short",
        true,
        "a woken task with a shorter time slice and an earlier deadline preempts a protected task (not in v6.6)",
    )
    .from(FEATURES),
    Knob::switch("delay-dequeue", true, "a task that blocks in debt stays queued until its debt is zero (not in v6.6)")
        .from(FEATURES),
    Knob::switch("delay-zero", true, "a task that stayed queued in debt is owed no time afterwards (not in v6.6)")
        .from(FEATURES),
    Knob::switch("place-lag", true, "the lag of a task is kept while it sleeps").from(FEATURES),
    Knob::switch("place-deadline-initial", true, "a new task's first time slice is half as long").from(FEATURES),
    Knob::switch("place-rel-deadline", true, "a migrated task keeps its distance from its deadline (not in v6.6)")
        .from(FEATURES),
    Knob::switch("group-slices", true, "a group requests the shortest time slice requested in it (not in v6.6)")
        .from("cfs_rq_min_slice, kernel/sched/fair.c, v6.12"),
    Knob::switch("next-buddy", false, "the task that woke last runs next, if it is eligible").from(FEATURES),
    Knob::switch(
        "pick-buddy",
        false,
        "the target of a yield, or a task left in a group's time slice, runs next if eligible (on in v6.17 unless set)",
    )
    .from("PICK_BUDDY, kernel/sched/features.h, v6.14; before v6.14, NEXT_BUDDY covered both"),
];

/// The knobs, at the defaults of v6.12.
pub(super) const KNOBS: [Knob; fair::KNOBS.len() + OWN.len()] = fair::with_own(&OWN);

/// The minimum time slice that can be requested. Source: `__setparam_fair`, kernel/sched/syscalls.c, v6.12.
pub(super) const SLICE_LEAST: Nanos = Nanos::us(100);
/// The maximum time slice that can be requested; see [`SLICE_LEAST`].
pub(super) const SLICE_MOST: Nanos = Nanos::ms(100);

/// The duration of the protection of a running task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protection {
    /// Until the deadline with which the task was picked.
    Deadline,
    /// For the shortest time slice of its queue.
    Shortest,
}

/// The values in force, scaled for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    pub(super) base_slice: Nanos,
    /// The base slice, not scaled. In v6.17, the protection lasts this long without `run-to-parity`.
    pub(super) least_quantum: Nanos,
    /// Whether tasks can request time slices.
    pub(super) asked_slices: bool,
    pub(super) run_to_parity: bool,
    pub(super) protection: Protection,
    pub(super) preempt_short: bool,
    pub(super) delay_dequeue: bool,
    pub(super) delay_zero: bool,
    pub(super) place_lag: bool,
    pub(super) place_deadline_initial: bool,
    pub(super) place_rel_deadline: bool,
    pub(super) group_slices: bool,
    pub(super) next_buddy: bool,
    pub(super) pick_buddy: bool,
}

impl Requests {
    /// Returns the tunables of the fair class and those of EEVDF, as set by `knobs`.
    pub(super) fn new(host: &Topology, knobs: &Knobs) -> (Tunables, Requests) {
        let mut tunables = Tunables::new(host, knobs);
        tunables.spare_waits = true;
        let version = knobs.word("version");
        let (old, new) = (version == "v6.6", version == "v6.17");
        let since_v6_12 = |name| knobs.on(name) && !old;
        let as_in_v6_17 = |name, value| if new { fair::or_default(knobs, name, value) } else { knobs.get(name) };
        let least_quantum = Nanos::ns(as_in_v6_17("base-slice", 700_000).unsigned_abs());
        let requests = Requests {
            base_slice: tunables.scaled(least_quantum),
            least_quantum,
            asked_slices: !old,
            run_to_parity: knobs.on("run-to-parity"),
            protection: if as_in_v6_17("protection", 1) == 1 { Protection::Shortest } else { Protection::Deadline },
            preempt_short: since_v6_12("preempt-short"),
            delay_dequeue: since_v6_12("delay-dequeue"),
            delay_zero: since_v6_12("delay-zero"),
            place_lag: knobs.on("place-lag"),
            place_deadline_initial: knobs.on("place-deadline-initial"),
            place_rel_deadline: since_v6_12("place-rel-deadline"),
            group_slices: since_v6_12("group-slices"),
            next_buddy: knobs.on("next-buddy"),
            pick_buddy: as_in_v6_17("pick-buddy", 1) == 1,
        };
        (tunables, requests)
    }
}
