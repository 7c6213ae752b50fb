//! The knobs that CFS adds to those of the fair class, and their values on one host.

use crate::fair::{self, Tunables};
use sched::{Knob, Knobs, Nanos, Topology};

const FEATURES: &str = "kernel/sched/features.h, v5.13";
/// The source of the features that a patch of April 2021 added.
const RECENT: &str = "kernel/sched/features.h; LKML 20210412102001, assumed to be in v5.13";

const OWN: [Knob; 13] = [
    Knob::choice(
        "version",
        &["v5.13", "v3.17"],
        "the kernel: later features are off, and knobs that are not set have its values",
    )
    .from("kernel/sched/fair.c, v5.13 and v3.17"),
    Knob::time("latency", Nanos::ms(6), (Nanos::us(100), Nanos::s(1)), "the round in which every task runs, unscaled")
        .from("sysctl_sched_latency, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "min-granularity",
        Nanos::us(750),
        (Nanos::us(100), Nanos::s(1)),
        "the minimum time for which a task runs before it is preempted at a tick, unscaled",
    )
    .from("sysctl_sched_min_granularity, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "wakeup-granularity",
        Nanos::ms(1),
        (Nanos::ZERO, Nanos::s(1)),
        "the minimum distance behind the running task at which a woken task preempts, unscaled",
    )
    .from("sysctl_sched_wakeup_granularity, kernel/sched/fair.c, v5.13"),
    Knob::switch("child-runs-first", false, "a forked child runs before its parent")
        .from("sysctl_sched_child_runs_first, kernel/sched/fair.c, v5.13"),
    Knob::switch("gentle-fair-sleepers", true, "a sleeper's credit is half a latency, not a whole latency")
        .from(FEATURES),
    Knob::switch("start-debit", true, "a forked child starts one time slice late").from(FEATURES),
    Knob::switch("next-buddy", false, "in a long queue, the task that woke last runs next").from(FEATURES),
    Knob::switch("last-buddy", true, "in a long queue, a task that was preempted at a wake-up runs next")
        .from(FEATURES),
    Knob::switch(
        "alt-period",
        true,
        "the round is sized by all tasks of the CPU, not by those of one queue (not in v3.17)",
    )
    .from(RECENT),
    Knob::switch("base-slice", true, "no time slice is shorter than the minimum granularity (not in v3.17)")
        .from(RECENT),
    Knob::switch("place-unthrottled", true, "an unthrottled group is placed like a sleeper, not at its old place")
        .from("unthrottle_cfs_rq, kernel/sched/fair.c (assumed for v5.13)"),
    Knob::switch("exact-clock", false, "fractions of a nanosecond of vruntime are carried over, so shares stay exact")
        .from("ours; off as in __calc_delta, kernel/sched/fair.c, v5.13"),
];

/// The knobs, at the defaults of v5.13.
pub(super) const KNOBS: [Knob; fair::KNOBS.len() + OWN.len()] = fair::with_own(&OWN);

/// The values of the knobs in force, scaled for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) latency: Nanos,
    pub(super) min_granularity: Nanos,
    pub(super) wakeup_granularity: Nanos,
    /// Minimum number of nodes in a long queue; the knobs `next-buddy` and `last-buddy` apply to long queues only. With
    /// more tasks than this, the round grows.
    pub(super) long_queue: u32,
    /// Maximum distance before `min_vruntime` at which a sleeper is placed.
    pub(super) credit: Nanos,
    pub(super) child_runs_first: bool,
    pub(super) start_debit: bool,
    pub(super) next_buddy: bool,
    pub(super) last_buddy: bool,
    pub(super) alt_period: bool,
    pub(super) base_slice: bool,
    pub(super) exact_clock: bool,
}

impl Times {
    /// Returns the tunables of the fair class and those of CFS, as set by `knobs`.
    pub(super) fn new(host: &Topology, knobs: &Knobs) -> (Tunables, Times) {
        let old = knobs.word("version") == "v3.17";
        let mut tunables = Tunables::new(host, knobs);
        if old {
            tunables = tunables.as_in_v3_17(knobs);
        }
        tunables.place_unthrottled = knobs.on("place-unthrottled");
        let scaled = |name| tunables.scaled(knobs.time(name));
        let (latency, min_granularity) = (scaled("latency"), scaled("min-granularity"));
        let long_queue = latency.as_ns().div_ceil(min_granularity.as_ns());
        let times = Times {
            latency,
            min_granularity,
            wakeup_granularity: scaled("wakeup-granularity"),
            long_queue: u32::try_from(long_queue).expect("a latency of 1 s is at most 10,000 granularities of 100 us"),
            credit: if knobs.on("gentle-fair-sleepers") { latency.scale(1, 2) } else { latency },
            child_runs_first: knobs.on("child-runs-first"),
            start_debit: knobs.on("start-debit"),
            next_buddy: knobs.on("next-buddy"),
            last_buddy: knobs.on("last-buddy"),
            alt_period: knobs.on("alt-period") && !old,
            base_slice: knobs.on("base-slice") && !old,
            exact_clock: knobs.on("exact-clock"),
        };
        (tunables, times)
    }

    /// Returns the length of the round in which `tasks` tasks each run once.
    pub(super) fn period(&self, tasks: u32) -> Nanos {
        if tasks > self.long_queue { self.min_granularity.saturating_mul(u64::from(tasks)) } else { self.latency }
    }
}
