//! What EEVDF can be tuned by beyond the fair class, and the values in force on one host.

use crate::fair::{self, Tunables};
use sched::{Knob, Knobs, Nanos, Topology};

const FEATURES: &str = "kernel/sched/features.h, v6.12";

const OWN: [Knob; 13] = [
    Knob::choice(
        "version",
        &["v6.12", "v6.6", "v6.17"],
        "the kernel: what came after it is off, and what is left alone is as in it",
    )
    .from("kernel/sched/fair.c, v6.6, v6.12 and v6.17"),
    Knob::time(
        "base-slice",
        Nanos::us(750),
        (Nanos::us(100), Nanos::s(1)),
        "the turn of who asks for none, unscaled; left alone, it is 0.7ms in v6.17",
    )
    .from("sysctl_sched_base_slice, kernel/sched/fair.c, v6.12 (0.70 ms from v6.15 on)"),
    Knob::switch("run-to-parity", true, "who runs is left in peace to its deadline, while it is eligible")
        .from(FEATURES),
    Knob::choice(
        "protection",
        &["deadline", "shortest"],
        "how long in peace: to its deadline, or for the shortest slice of the queue (as in v6.17)",
    )
    .from("set_protect_slice, kernel/sched/fair.c, v6.17"),
    Knob::switch(
        "preempt-short",
        true,
        "a wakee with a shorter slice and an earlier deadline does not wait (not in v6.6)",
    )
    .from(FEATURES),
    Knob::switch("delay-dequeue", true, "who falls asleep in debt stays queued until it has paid (not in v6.6)")
        .from(FEATURES),
    Knob::switch("delay-zero", true, "who has paid its debt that way is owed nothing (not in v6.6)").from(FEATURES),
    Knob::switch("place-lag", true, "what a sleeper is owed, or owes, is kept while it sleeps").from(FEATURES),
    Knob::switch("place-deadline-initial", true, "a new task's first turn is half a slice").from(FEATURES),
    Knob::switch("place-rel-deadline", true, "who is moved keeps its distance from its deadline (not in v6.6)")
        .from(FEATURES),
    Knob::switch("group-slices", true, "a group asks for the shortest slice that anybody in it does (not in v6.6)")
        .from("cfs_rq_min_slice, kernel/sched/fair.c, v6.12"),
    Knob::switch("next-buddy", false, "whoever woke last goes next, if it is eligible").from(FEATURES),
    Knob::switch(
        "pick-buddy",
        false,
        "so does whoever was yielded to, or is left of a group's turn (left alone, on in v6.17)",
    )
    .from("PICK_BUDDY, kernel/sched/features.h, v6.14; before, NEXT_BUDDY stood for both"),
];

/// The knobs, at the defaults of v6.12.
pub(super) const KNOBS: [Knob; fair::KNOBS.len() + OWN.len()] = fair::with_own(&OWN);

/// The least and the largest slice that can be asked for. Source: `__setparam_fair`, kernel/sched/syscalls.c, v6.12.
pub(super) const SLICE_LEAST: Nanos = Nanos::us(100);
/// See [`SLICE_LEAST`].
pub(super) const SLICE_MOST: Nanos = Nanos::ms(100);

/// How long who runs is left in peace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protection {
    /// To the deadline it was picked with.
    Deadline,
    /// For the shortest slice of its queue.
    Shortest,
}

/// The values in force, scaled for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    pub(super) base_slice: Nanos,
    /// Not scaled.
    pub(super) least_quantum: Nanos,
    /// Whether slices can be asked for.
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
    /// Those of the class, and its own.
    pub(super) fn new(host: &Topology, knobs: &Knobs) -> (Tunables, Requests) {
        let tunables = Tunables::new(host, knobs);
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
