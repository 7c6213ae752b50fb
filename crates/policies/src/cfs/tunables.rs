//! What the fair class can be tuned by, and the values in force on one host.

use sched::{Host, Knob, Knobs, Nanos};

const FEATURES: &str = "kernel/sched/features.h, v5.13";

/// The knobs, at the defaults of v5.13.
pub(super) const KNOBS: &[Knob] = &[
    Knob::time("tick", Nanos::ms(1), (Nanos::us(100), Nanos::ms(100)), "the time between two ticks of a CPU: 1 / HZ")
        .from("CONFIG_HZ, kernel/Kconfig.hz, v5.13"),
    Knob::choice("scaling", &["log", "none", "linear"], "how latency and granularities grow with the number of CPUs")
        .from("sched_tunable_scaling, kernel/sched/fair.c, v5.13"),
    Knob::time("latency", Nanos::ms(6), (Nanos::us(100), Nanos::s(1)), "the round in which everybody runs, unscaled")
        .from("sysctl_sched_latency, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "min-granularity",
        Nanos::us(750),
        (Nanos::us(100), Nanos::s(1)),
        "the least time a task is left in peace, unscaled",
    )
    .from("sysctl_sched_min_granularity, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "wakeup-granularity",
        Nanos::ms(1),
        (Nanos::ZERO, Nanos::s(1)),
        "how far behind a wakee must be to preempt, unscaled",
    )
    .from("sysctl_sched_wakeup_granularity, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "migration-cost",
        Nanos::us(500),
        (Nanos::ZERO, Nanos::s(1)),
        "who ran this recently is cache-hot; who idles less on average does not look for work",
    )
    .from("sysctl_sched_migration_cost, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "bandwidth-slice",
        Nanos::ms(5),
        (Nanos::us(1), Nanos::s(1)),
        "how much quota a CPU takes from its group's pool at a time",
    )
    .from("sysctl_sched_cfs_bandwidth_slice, kernel/sched/fair.c, v5.13"),
    Knob::percent("imbalance", [117, 101, 1000], "how much busier another cache or core must be before work is pulled")
        .from("sd->imbalance_pct, kernel/sched/topology.c, v5.13 (125 before v5.10)"),
    Knob::switch("child-runs-first", false, "a forked child goes before its parent")
        .from("sysctl_sched_child_runs_first, kernel/sched/fair.c, v5.13"),
    Knob::switch("gentle-fair-sleepers", true, "a sleeper's credit is half a latency, not a whole one").from(FEATURES),
    Knob::switch("start-debit", true, "a forked child starts one slice late").from(FEATURES),
    Knob::switch("next-buddy", false, "in a crowd, whoever woke last goes next").from(FEATURES),
    Knob::switch("last-buddy", true, "in a crowd, whoever was preempted at a wake-up comes back next").from(FEATURES),
    Knob::switch("cache-hot-buddy", true, "buddies are not migrated to a CPU that has work").from(FEATURES),
    Knob::switch("wakeup-preemption", true, "a wakee may preempt").from(FEATURES),
    Knob::switch("alt-period", true, "the round is sized by all tasks of the CPU, not by one queue's").from(FEATURES),
    Knob::switch("base-slice", true, "no slice is shorter than the minimum granularity").from(FEATURES),
    Knob::switch("wake-affine-idle", true, "a wakee goes to the waker's CPU if that idles or is about to")
        .from("WA_IDLE, kernel/sched/features.h, v5.13"),
    Knob::switch("wake-affine-weight", true, "a wakee goes to the waker's CPU if that is less loaded")
        .from("WA_WEIGHT, kernel/sched/features.h, v5.13"),
    Knob::switch("wake-affine-bias", true, "that comparison favours the waker's CPU by half the imbalance")
        .from("WA_BIAS, kernel/sched/features.h, v5.13"),
];

/// A cache-hot task moves after more failures than this. Source: `cache_nice_tries` of the MC domain,
/// kernel/sched/topology.c, v5.13.
pub(super) const CACHE_NICE_TRIES: u32 = 1;
/// How many tasks one balance looks at. Source: `sysctl_sched_nr_migrate`, kernel/sched/core.c, v5.13.
pub(super) const MIGRATE_MOST: usize = 32;
/// How much rarer a busy CPU balances. Source: `busy_factor`, kernel/sched/topology.c, v5.10 and later.
pub(super) const BUSY_FACTOR: u64 = 16;
/// `imbalance_pct` between hardware threads of a core. Source: kernel/sched/topology.c, v5.13.
pub(super) const SMT_IMBALANCE: u64 = 110;

/// The values in force: the knobs, scaled for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tunables {
    pub(super) tick: Nanos,
    pub(super) latency: Nanos,
    pub(super) min_granularity: Nanos,
    pub(super) wakeup_granularity: Nanos,
    /// From this many tasks on a queue is a crowd; beyond it the round grows.
    pub(super) crowd: u32,
    pub(super) migration_cost: Nanos,
    pub(super) bandwidth_slice: Nanos,
    pub(super) imbalance: u64,
    /// How far before `min_vruntime` a sleeper is placed at most.
    pub(super) credit: Nanos,
    pub(super) child_runs_first: bool,
    pub(super) start_debit: bool,
    pub(super) next_buddy: bool,
    pub(super) last_buddy: bool,
    pub(super) cache_hot_buddy: bool,
    pub(super) wakeup_preemption: bool,
    pub(super) alt_period: bool,
    pub(super) base_slice: bool,
    pub(super) wake_affine_idle: bool,
    pub(super) wake_affine_weight: bool,
    pub(super) wake_affine_bias: bool,
}

impl Tunables {
    pub(super) fn new(host: &Host, knobs: &Knobs) -> Tunables {
        let factor = match knobs.word("scaling") {
            "log" => 1 + u64::from(host.cpus.min(8).ilog2()),
            "linear" => host.cpus as u64,
            _ => 1,
        };
        let scaled = |name| knobs.time(name).saturating_mul(factor);
        let (latency, min_granularity) = (scaled("latency"), scaled("min-granularity"));
        let crowd = latency.as_ns().div_ceil(min_granularity.as_ns());
        Tunables {
            tick: knobs.time("tick"),
            latency,
            min_granularity,
            wakeup_granularity: scaled("wakeup-granularity"),
            crowd: u32::try_from(crowd).expect("a latency of 1 s is at most 10,000 granularities of 100 us"),
            migration_cost: knobs.time("migration-cost"),
            bandwidth_slice: knobs.time("bandwidth-slice"),
            imbalance: knobs.get("imbalance").unsigned_abs(),
            credit: if knobs.on("gentle-fair-sleepers") { latency.scale(1, 2) } else { latency },
            child_runs_first: knobs.on("child-runs-first"),
            start_debit: knobs.on("start-debit"),
            next_buddy: knobs.on("next-buddy"),
            last_buddy: knobs.on("last-buddy"),
            cache_hot_buddy: knobs.on("cache-hot-buddy"),
            wakeup_preemption: knobs.on("wakeup-preemption"),
            alt_period: knobs.on("alt-period"),
            base_slice: knobs.on("base-slice"),
            wake_affine_idle: knobs.on("wake-affine-idle"),
            wake_affine_weight: knobs.on("wake-affine-weight"),
            wake_affine_bias: knobs.on("wake-affine-bias"),
        }
    }

    /// The round in which `tasks` tasks each run once.
    pub(super) fn period(&self, tasks: u32) -> Nanos {
        if tasks > self.crowd { self.min_granularity.saturating_mul(u64::from(tasks)) } else { self.latency }
    }
}
