//! [`Settings`]: the values of the knobs, read once, and the differences between the versions of Credit.

use sched::{Knob, Knobs, Nanos, Refused};

/// Versions of Credit; the first version is the default.
const VERSIONS: &[&str] = &["4.0.1", "3.0.3", "4.23"];

/// The knobs. A knob set to `version` follows the version.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::choice("version", VERSIONS, "the version whose rules apply where the other knobs do not decide")
        .from("xen/common/sched_credit.c, Xen 4.0.1 and (summer of 2006) 3.0.3; xen/common/sched/credit.c, 4.23-dev"),
    Knob::time("slice", Nanos::ms(30), (Nanos::us(10), Nanos::s(1)), "the longest time slice")
        .from("CSCHED_MSECS_PER_TSLICE; Poris (Wu et al.) table 1 uses 30, 15, 5 and 3 ms"),
    Knob::time("tick", Nanos::ms(10), (Nanos::ms(1), Nanos::s(1)), "the period of the scheduler tick of each CPU")
        .from("CSCHED_MSECS_PER_TICK"),
    Knob::count(
        "accounting-ticks",
        [3, 1, 100],
        "the ticks per accounting period; an account holds at most the credits of a period",
    )
    .from("CSCHED_TICKS_PER_ACCT, CSCHED_TICKS_PER_TSLICE"),
    Knob::choice(
        "tick-from",
        &["version", "tick", "slice"],
        "`slice`: an accounting period lasts a time slice, a tick period a third of the slice (below 3 ms, the whole slice)",
    )
    .from("__csched_set_tslice, 4.23; before: three constants"),
    Knob::time("tick-stagger", Nanos::ZERO, (Nanos::ZERO, Nanos::s(1)), "the offset of the ticks of each CPU from the ticks of the previous CPU")
        .from("csched_start_tickers: a CPU's phase is the instant at which its ticker was started"),
    Knob::choice(
        "charging",
        &["version", "nearest", "floor", "sampled"],
        "run time is charged to the nearest credit, or rounded down; `sampled`: a tick charges a whole tick to the running entity",
    )
    .from("burn_credits (4.0.1; 4.23); csched_vcpu_acct (3.0.3)"),
    Knob::count("credits-per-ms", [0, 0, 1_000], "the credits that a millisecond costs; 0: the version decides")
        .from("CSCHED_CREDITS_PER_MSEC, 10; in 3.0.3 accounts are in milliseconds"),
    Knob::choice("boost", &["version", "on", "off"], "an entity that wakes UNDER is BOOST")
        .from("CSCHED_PRI_TS_BOOST, since 59f9d8ef44, 2006-10-27"),
    Knob::choice("boost-migrated", &["version", "on", "off"], "an entity that migrates to another CPU is boosted")
        .from("on: 4.0.1, where a migration ends in a wake-up; off: CSCHED_FLAG_UNIT_MIGRATING"),
    Knob::choice(
        "weight-per",
        &["version", "domain", "member"],
        "a domain's weight is for all its active members together, or for each",
    )
    .from("__csched_unit_acct_start: `Make weight per-unit`"),
    Knob::choice(
        "overflow",
        &["version", "empty", "halve", "empty-late"],
        "an account above a period's credits is emptied or halved; `empty-late`: emptied, but counted in full in the balance",
    )
    .from("csched_acct: emptied up to 4.0.1, in 3.0.3 after the balance is taken; halved in 4.23"),
    Knob::choice(
        "begins",
        &["version", "inactive", "active"],
        "a new entity earns credits after a tick has found it running, or at once",
    )
    .from("csched_vcpu_init, 3.0.3: at once"),
    Knob::choice(
        "parking",
        &["version", "below-cap", "in-debt"],
        "an entity is parked at once if its debt exceeds its part of the cap; or at its next stop at any debt",
    )
    .from("csched_vcpu_park, 4.0.1; CSCHED_PRI_TS_PARKED, 3.0.3"),
    Knob::choice(
        "unparking",
        &["version", "calls", "waits"],
        "an unparked entity kicks its CPU; or waits for the next decision of the CPU, on an idle CPU at the end of a time slice of idling",
    )
    .from("vcpu_unpause, 4.0.1; csched_acct and csched_runq_sort, 3.0.3, which kick no CPU"),
    Knob::choice(
        "tickle",
        &["version", "all-idle", "one-idle"],
        "the CPUs kicked at an enqueue: all idle CPUs and CPUs that run a less urgent entity; or one idle CPU, if any",
    )
    .from("__runq_tickle; tickle_one_idle_cpu"),
    Knob::choice(
        "yield",
        &["version", "last", "behind-one"],
        "an entity that yields is last in its class; or behind one less urgent entity, and not stolen until it has run",
    )
    .from("CSCHED_FLAG_UNIT_YIELD"),
    Knob::choice("ratelimit", &["version", "off", "on"], "an entity that has just begun to run is not preempted")
        .from("sched_ratelimit_us, since 64908a0466 (4.2)"),
    Knob::time("ratelimit-time", Nanos::ms(1), (Nanos::us(100), Nanos::ms(500)), "the time for which the rate limit protects a running entity")
        .from("SCHED_DEFAULT_RATELIMIT_US; XEN_SYSCTL_SCHED_RATELIMIT_MIN and _MAX"),
    Knob::choice(
        "steal",
        &["version", "busy", "any", "near"],
        "the queues to steal from: of CPUs that do not idle; of all CPUs; of CPUs with two runnable entities, under the same cache first",
    )
    .from("csched_load_balance: 4.0.1, 3.0.3, 4.23 (NUMA nodes there)"),
    Knob::choice("steal-limit", &["version", "off", "on"], "a CPU waits between attempts to steal")
        .from("George Dunlap, `credit: Limit load balancing to once per millisecond`, 2023"),
    Knob::time("steal-interval", Nanos::ms(1), (Nanos::us(1), Nanos::s(1)), "the minimum time between attempts to steal")
        .from("load_balance_ratelimit_us"),
    Knob::choice("relocate", &["version", "on", "off"], "a tick moves an active entity to a better idle CPU")
        .from("csched_cpu_pick, after 3.0.3"),
    Knob::time("migration-delay", Nanos::ZERO, (Nanos::ZERO, Nanos::ms(100)), "the time for which a stopped entity is not stolen (cache-hot)")
        .from("vcpu_migration_delay; its comment suggests 1 ms"),
    Knob::switch("hand-off", true, "an entity that is left waiting is moved to an idle CPU")
        .from("ours; off: as in Xen, which leaves the entity to the next wake-up"),
];

/// Minimum remainder of a time slice under the rate limit. Source: `XEN_SYSCTL_SCHED_RATELIMIT_MIN`.
const RATELIMIT_LEAST: Nanos = Nanos::us(100);

/// The conversion of CPU time to burnt credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Charging {
    /// Rounded to the nearest whole number; the remainder is kept.
    Nearest,
    /// Rounded down; the remainder is kept.
    Floor,
    /// A tick charges a whole tick to the running entity.
    Sampled,
}

/// Which entities are parked, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parking {
    /// Entities that owe more than their part of the cap, at once.
    BelowCap,
    /// Entities under a cap that owe any credit, at their next stop.
    InDebt,
}

/// The treatment of an account that exceeds a period's credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overflow {
    Empty,
    Halve,
    /// The account is emptied after the balance is computed.
    EmptyLate,
}

/// The queues from which a CPU steals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Steal {
    /// The queues of CPUs that do not idle.
    Busy,
    /// All queues.
    Any,
    /// The queues of CPUs with at least two entities to run, beginning with CPUs that share a cache with the stealing
    /// CPU.
    Near,
}

/// The values of the knobs, read once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) slice: Nanos,
    pub(crate) tick: Nanos,
    pub(crate) tick_stagger: Nanos,
    /// Time from one accounting to the next.
    pub(crate) period: Nanos,
    pub(crate) migration_delay: Nanos,
    pub(crate) hand_off: bool,
    pub(crate) charging: Charging,
    /// CPU time equal to one credit.
    pub(crate) credit: Nanos,
    pub(crate) boost: bool,
    pub(crate) boost_migrated: bool,
    pub(crate) weight_per_member: bool,
    pub(crate) overflow: Overflow,
    pub(crate) begins_active: bool,
    pub(crate) parking: Parking,
    /// Whether an unparked entity waits for the next decision of its CPU, and the idle vCPU has time slices.
    pub(crate) unparked_waits: bool,
    /// Whether a wake-up kicks one idle CPU instead of all.
    pub(crate) tickle_one: bool,
    /// Whether a yielding entity moves behind one less urgent entity.
    pub(crate) yield_behind: bool,
    /// Minimum run time before a preemption; zero: no rate limit.
    pub(crate) ratelimit: Nanos,
    pub(crate) steal: Steal,
    /// Minimum time between two attempts to steal; zero: no limit.
    pub(crate) steal_interval: Nanos,
    pub(crate) relocate: bool,
}

/// Returns the word to which a knob is set; `None` if the version decides, or if the policy does not have the knob.
fn word(knobs: &Knobs, name: &str) -> Option<&'static str> {
    let offered = knobs.iter().any(|(knob, _)| knob.name == name);
    offered.then(|| knobs.word(name)).filter(|&word| word != "version")
}

/// Returns the value of a time knob, or `default` if the policy does not have the knob.
fn time(knobs: &Knobs, name: &str, default: Nanos) -> Nanos {
    if knobs.iter().any(|(knob, _)| knob.name == name) { knobs.time(name) } else { default }
}

impl Settings {
    /// Reads the knobs. A policy built over Credit may omit the knobs in which the versions differ; the rules of 4.0.1
    /// then apply.
    pub(crate) fn read(knobs: &Knobs) -> Settings {
        let version = word(knobs, "version").unwrap_or(VERSIONS[0]);
        // `words` are the rules of 4.0.1, 3.0.3 and 4.23. The knob may select another rule.
        let choose = |name: &str, words: [&'static str; 3]| {
            let at = VERSIONS.iter().position(|&other| other == version).expect("the knob has only these words");
            word(knobs, name).unwrap_or(words[at])
        };
        let slice = knobs.time("slice");
        let (tick, period) = if choose("tick-from", ["tick", "tick", "slice"]) == "slice" {
            let ticks = if slice < Nanos::ms(3) { 1 } else { 3 };
            (slice.scale(1, ticks), slice)
        } else {
            let tick = knobs.time("tick");
            (tick, tick.saturating_mul(knobs.get("accounting-ticks").unsigned_abs()))
        };
        let limit = |on: &str, time: Nanos| if on == "on" { time } else { Nanos::ZERO };
        let millisecond = Nanos::ms(1);
        Settings {
            slice,
            tick,
            tick_stagger: knobs.time("tick-stagger"),
            period,
            migration_delay: knobs.time("migration-delay"),
            hand_off: knobs.on("hand-off"),
            charging: match choose("charging", ["nearest", "sampled", "floor"]) {
                "nearest" => Charging::Nearest,
                "floor" => Charging::Floor,
                _ => Charging::Sampled,
            },
            credit: credit(knobs, version),
            boost: choose("boost", ["on", "off", "on"]) == "on",
            boost_migrated: choose("boost-migrated", ["on", "on", "off"]) == "on",
            weight_per_member: choose("weight-per", ["domain", "domain", "member"]) == "member",
            overflow: match choose("overflow", ["empty", "empty-late", "halve"]) {
                "empty" => Overflow::Empty,
                "empty-late" => Overflow::EmptyLate,
                _ => Overflow::Halve,
            },
            begins_active: choose("begins", ["inactive", "active", "inactive"]) == "active",
            parking: match choose("parking", ["below-cap", "in-debt", "below-cap"]) {
                "below-cap" => Parking::BelowCap,
                _ => Parking::InDebt,
            },
            unparked_waits: choose("unparking", ["calls", "waits", "calls"]) == "waits",
            tickle_one: choose("tickle", ["all-idle", "all-idle", "one-idle"]) == "one-idle",
            yield_behind: choose("yield", ["last", "last", "behind-one"]) == "behind-one",
            ratelimit: limit(choose("ratelimit", ["off", "off", "on"]), time(knobs, "ratelimit-time", millisecond))
                .min(slice),
            steal: match choose("steal", ["busy", "any", "near"]) {
                "busy" => Steal::Busy,
                "any" => Steal::Any,
                _ => Steal::Near,
            },
            steal_interval: limit(
                choose("steal-limit", ["off", "off", "on"]),
                time(knobs, "steal-interval", millisecond),
            ),
            relocate: choose("relocate", ["on", "off", "on"]) == "on",
        }
    }

    /// Returns the credits that running for `time` burns.
    pub(crate) fn credits_in(&self, time: Nanos) -> i64 {
        (time.as_ns() / self.credit.as_ns()).cast_signed()
    }

    /// Returns the credits that a CPU can burn in a period.
    pub(crate) fn credits_per_period(&self) -> i64 {
        self.credits_in(self.period)
    }

    /// Returns the time for which the rate limit still protects an entity that has run for `ran`; `None`: no
    /// protection.
    pub(crate) fn left_running(&self, ran: Nanos) -> Option<Nanos> {
        (ran < self.ratelimit).then(|| (self.ratelimit - ran).max(RATELIMIT_LEAST))
    }

    /// Returns the longest time slice.
    pub(crate) fn longest_turn(&self) -> Nanos {
        if self.ratelimit.is_zero() { self.slice } else { self.slice.max(self.ratelimit + RATELIMIT_LEAST) }
    }

    /// Returns whether an idle CPU may skip an entity that could run there, so that ticks have to offer the entity
    /// again.
    pub(crate) fn passes_over(&self) -> bool {
        !self.migration_delay.is_zero() || !self.steal_interval.is_zero() || self.yield_behind
    }
}

/// Returns the CPU time equal to one credit: 1 ms divided by `credits-per-ms`. The default is 0.1 ms; in 3.0.3 it is 1
/// ms.
fn credit(knobs: &Knobs, version: &str) -> Nanos {
    let asked =
        knobs.iter().find(|(knob, _)| knob.name == "credits-per-ms").map_or(0, |(_, value)| value.unsigned_abs());
    let per_ms = match (asked, version) {
        (0, "3.0.3") => 1,
        (0, _) => 10,
        (asked, _) => asked,
    };
    Nanos::ms(1).scale(1, per_ms)
}
/// Checks that a CPU burns at least one credit in an accounting period.
pub(crate) fn check(knobs: &Knobs) -> Result<(), Refused> {
    if Settings::read(knobs).credits_per_period() == 0 {
        return Err(Refused::Unsupported {
            reason: "the accounting period is too short for a credit",
            remedy: "use a longer slice",
        });
    }
    Ok(())
}
