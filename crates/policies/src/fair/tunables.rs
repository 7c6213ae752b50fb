//! The knobs of the fair class that all rules share, and their values in force on one host.

use sched::{Knob, Knobs, Nanos, Topology};

const FEATURES: &str = "kernel/sched/features.h, v5.13";

/// The knobs, at the defaults of v5.13.
pub(crate) const KNOBS: [Knob; 14] = [
    Knob::time("tick", Nanos::ms(1), (Nanos::us(100), Nanos::ms(100)), "the time between two ticks of a CPU: 1 / HZ")
        .from("CONFIG_HZ, kernel/Kconfig.hz, v5.13"),
    Knob::choice(
        "scaling",
        &["log", "none", "linear"],
        "the growth of time slices and granularities with the number of CPUs",
    )
    .from("sched_tunable_scaling, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "migration-cost",
        Nanos::us(500),
        (Nanos::ZERO, Nanos::s(1)),
        "a task that ran within this time is cache-hot; a CPU that idles for less on average does not pull",
    )
    .from("sysctl_sched_migration_cost, kernel/sched/fair.c, v5.13"),
    Knob::time(
        "bandwidth-slice",
        Nanos::ms(5),
        (Nanos::us(1), Nanos::s(1)),
        "the quota that a CPU takes from its group's pool at a time",
    )
    .from("sysctl_sched_cfs_bandwidth_slice, kernel/sched/fair.c, v5.13"),
    Knob::percent(
        "imbalance",
        [117, 101, 1000],
        "the load of another cache or core, in percent of the CPU's own load, above which a CPU pulls",
    )
    .from("sd->imbalance_pct, kernel/sched/topology.c, v5.13 (125 before v5.10)"),
    Knob::count(
        "busy-factor",
        [16, 1, 1000],
        "the balancing interval of a busy CPU, in multiples of the interval of an idle CPU",
    )
    .from("sd->busy_factor, kernel/sched/topology.c, v5.13 (32 before v5.10)"),
    Knob::switch("cache-hot-buddy", true, "buddies are not migrated to a CPU that has work").from(FEATURES),
    Knob::switch("wakeup-preemption", true, "a woken task may preempt").from(FEATURES),
    Knob::switch(
        "wake-affine-idle",
        true,
        "a woken task is placed on the waker's CPU if this CPU idles or is about to idle",
    )
    .from("WA_IDLE, kernel/sched/features.h, v5.13"),
    Knob::switch("wake-affine-weight", true, "a woken task is placed on the waker's CPU if this CPU is less loaded")
        .from("WA_WEIGHT, kernel/sched/features.h, v5.13"),
    Knob::switch(
        "wake-affine-bias",
        true,
        "the load comparison at a wake-up favours the waker's CPU by half the imbalance",
    )
    .from("WA_BIAS, kernel/sched/features.h, v5.13"),
    Knob::switch("recent-cpu", true, "the CPU on which a woken task last woke others is searched as well")
        .from("recent_used_cpu, kernel/sched/fair.c, v5.13 (not before v4.16)"),
    Knob::choice(
        "idle-search",
        &["cpu", "core"],
        "a woken task is placed on any idle CPU of the cache, or only on a fully idle core",
    )
    .from("select_idle_sibling, kernel/sched/fair.c, v5.13 and v3.17"),
    Knob::switch("idle-class-cpus", true, "a CPU that runs only SCHED_IDLE tasks counts as idle for woken tasks")
        .from("sched_idle_cpu, kernel/sched/fair.c, v5.13 (not before v5.4)"),
];

/// Number of failed balances above which a cache-hot task moves. Source: `cache_nice_tries` of the MC domain,
/// kernel/sched/topology.c, v5.13.
pub(super) const CACHE_NICE_TRIES: u32 = 1;
/// Maximum number of tasks that one pull examines. Source: `sysctl_sched_nr_migrate`, kernel/sched/core.c, v5.13.
pub(super) const MIGRATE_MOST: usize = 32;
/// `imbalance_pct` between hardware threads of a core. Source: kernel/sched/topology.c, v5.13.
pub(super) const SMT_IMBALANCE: u64 = 110;

/// The knob values in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    /// Factor by which time slices and granularities are multiplied on this host.
    pub(crate) factor: u64,
    pub(crate) tick: Nanos,
    pub(super) migration_cost: Nanos,
    pub(super) bandwidth_slice: Nanos,
    pub(super) imbalance: u64,
    pub(super) busy_factor: u64,
    pub(super) cache_hot_buddy: bool,
    pub(super) wakeup_preemption: bool,
    pub(super) wake_affine_idle: bool,
    pub(super) wake_affine_weight: bool,
    pub(super) wake_affine_bias: bool,
    pub(super) recent_cpu: bool,
    /// Whether the search for an idle CPU considers only fully idle cores of the cache and the threads of the target's
    /// core.
    pub(super) whole_cores: bool,
    pub(super) idle_class_cpus: bool,
    /// Whether the balancing interval of a busy CPU is one tick shorter than `busy_factor` times the basic interval;
    /// see `balance`.
    pub(super) off_beat: bool,
    /// Whether busy CPUs balance by decayed averages, as since v5.5; see `groups`.
    pub(super) averages: bool,
    /// Whether a busy CPU never pulls into a group with spare capacity of the same cache, as since v6.6.
    pub(crate) spare_waits: bool,
    /// Whether woken tasks are placed as in v3.17; see `placement`.
    pub(super) old_affinity: bool,
    /// Whether an unthrottled group is placed like a woken group; otherwise its position does not change.
    pub(crate) place_unthrottled: bool,
}

impl Tunables {
    pub(crate) fn new(host: &Topology, knobs: &Knobs) -> Tunables {
        let factor = match knobs.word("scaling") {
            "log" => 1 + u64::from(host.cpus.min(8).ilog2()),
            "linear" => host.cpus as u64,
            _ => 1,
        };
        Tunables {
            factor,
            tick: knobs.time("tick"),
            migration_cost: knobs.time("migration-cost"),
            bandwidth_slice: knobs.time("bandwidth-slice"),
            imbalance: knobs.get("imbalance").unsigned_abs(),
            busy_factor: knobs.get("busy-factor").unsigned_abs(),
            cache_hot_buddy: knobs.on("cache-hot-buddy"),
            wakeup_preemption: knobs.on("wakeup-preemption"),
            wake_affine_idle: knobs.on("wake-affine-idle"),
            wake_affine_weight: knobs.on("wake-affine-weight"),
            wake_affine_bias: knobs.on("wake-affine-bias"),
            recent_cpu: knobs.on("recent-cpu"),
            whole_cores: knobs.word("idle-search") == "core",
            idle_class_cpus: knobs.on("idle-class-cpus"),
            off_beat: true,
            averages: true,
            spare_waits: false,
            old_affinity: false,
            place_unthrottled: true,
        }
    }

    /// Returns the values as in v3.17. Features added after v3.17 are off, regardless of their knobs. A number whose
    /// knob has the default value is replaced by the value of v3.17.
    pub(crate) fn as_in_v3_17(self, knobs: &Knobs) -> Tunables {
        Tunables {
            imbalance: or_default(knobs, "imbalance", 125).unsigned_abs(),
            busy_factor: or_default(knobs, "busy-factor", 32).unsigned_abs(),
            wake_affine_idle: false,
            recent_cpu: false,
            whole_cores: true,
            idle_class_cpus: false,
            off_beat: false,
            averages: false,
            old_affinity: true,
            ..self
        }
    }

    /// Returns a knob's time, scaled for this host.
    pub(crate) const fn scaled(&self, time: Nanos) -> Nanos {
        time.saturating_mul(self.factor)
    }
}

/// Returns a knob's value, or `instead`, the default of another version, if the knob has its default value.
pub(crate) fn or_default(knobs: &Knobs, name: &str, instead: i64) -> i64 {
    let is_default = |(knob, value): (&Knob, i64)| knob.name == name && knob.default == value;
    if knobs.iter().any(is_default) { instead } else { knobs.get(name) }
}

/// Returns the knobs of the class and the knobs of its rule.
pub(crate) const fn with_own<const N: usize>(own: &[Knob]) -> [Knob; N] {
    Knob::join(&KNOBS, own)
}
