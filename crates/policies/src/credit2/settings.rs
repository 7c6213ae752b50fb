//! [`Settings`]: the values of the knobs, read once, and the time slices and tolerances that follow from them.

use sched::{Knob, Knobs, Nanos};

/// The knobs.
pub(super) const KNOBS: &[Knob] = &[
    Knob::choice(
        "runqueue",
        &["socket", "cpu", "core", "all"],
        "the CPUs that share a run queue: all under one cache, no two CPUs, all of a core, all of the machine",
    )
    .from("credit2_runqueue"),
    Knob::count(
        "runqueue-cpus",
        [16, 1, 1_024],
        "the maximum number of CPUs that share a run queue; threads of a core stay together",
    )
    .from("sched_credit2_max_cpus_runqueue"),
    Knob::time(
        "credit",
        Nanos::ms(10),
        (Nanos::ms(1), Nanos::s(1)),
        "the credit at the start and at a reset; the longest time slice",
    )
    .from("CSCHED2_CREDIT_INIT; CSCHED2_CREDIT_MIN and CSCHED2_MAX_TIMER follow it"),
    Knob::time(
        "min-timer",
        Nanos::us(500),
        (Nanos::us(10), Nanos::ms(100)),
        "the shortest time slice, and the smallest quota",
    )
    .from("CSCHED2_MIN_TIMER"),
    Knob::time(
        "carry-over",
        Nanos::us(500),
        (Nanos::ZERO, Nanos::s(1)),
        "the maximum credit beyond `credit` after a reset",
    )
    .from("CSCHED2_CARRYOVER_MAX"),
    Knob::time(
        "migrate-resist",
        Nanos::us(500),
        (Nanos::ZERO, Nanos::ms(100)),
        "the credit difference that moves an entity to another CPU",
    )
    .from("sched_credit2_migrate_resist"),
    Knob::time("migrate-compensation", Nanos::us(50), (Nanos::ZERO, Nanos::ms(100)), "the credit for a migration")
        .from("CSCHED2_MIGRATE_COMPENSATION"),
    Knob::time(
        "ratelimit",
        Nanos::ms(1),
        (Nanos::ZERO, Nanos::ms(500)),
        "the time for which a running entity is not preempted; 0: no limit",
    )
    .from("sched_ratelimit_us"),
    Knob::time(
        "ratelimit-tolerance",
        Nanos::us(50),
        (Nanos::ZERO, Nanos::ms(1)),
        "the time by which a wake-up may preempt before the end of `ratelimit`",
    )
    .from("CSCHED2_RATELIMIT_TICKLE_TOLERANCE"),
    Knob::time("cap-period", Nanos::ms(10), (Nanos::ms(1), Nanos::s(1)), "the quota period of capped domains")
        .from("credit2_cap_period_ms"),
    Knob::count("load-window-shift", [30, 11, 40], "the window of load averages: two to this power, in nanoseconds")
        .from("credit2_load_window_shift"),
    Knob::count("load-precision-shift", [18, 4, 24], "the precision of loads: parts of one entity, as a power of two")
        .from("credit2_load_precision_shift"),
    Knob::count(
        "balance-under",
        [0, -4, 8],
        "the load difference that moves entities while CPUs idle: two to this power",
    )
    .from("credit2_balance_under"),
    Knob::count(
        "balance-over",
        [-3, -4, 8],
        "the load difference that moves entities while no CPU idles: two to this power",
    )
    .from("credit2_balance_over"),
    Knob::switch(
        "count-stopped",
        false,
        "the length of a time slice takes the entity that was just preempted into account",
    )
    .from("off: csched2_runtime runs before the stopped entity is queued again; on: ours"),
    Knob::switch("hand-off", true, "no CPU idles while an entity that may run there waits in its run queue")
        .from("ours; off: as in Xen, where entities with very little credit, or behind a parked entity, keep waiting"),
];

/// The CPUs that share a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    Socket,
    Cpu,
    Core,
    All,
}

/// The values of the knobs, read once. Credits are signed nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) share: Share,
    pub(super) most_cpus: usize,
    pub(super) credit: i64,
    pub(super) min_timer: Nanos,
    pub(super) carry_over: i64,
    pub(super) migrate_resist: i64,
    pub(super) migrate_compensation: i64,
    pub(super) ratelimit: Nanos,
    pub(super) ratelimit_tolerance: Nanos,
    pub(super) cap_period: Nanos,
    /// Base-2 logarithm of the averaging window in units of 1,024 ns.
    pub(super) window_shift: u32,
    pub(super) precision_shift: u32,
    pub(super) balance_under: i64,
    pub(super) balance_over: i64,
    pub(super) count_stopped: bool,
    pub(super) hand_off: bool,
}

fn credits(time: Nanos) -> i64 {
    time.as_ns().cast_signed()
}

fn count(knobs: &Knobs, name: &str) -> u64 {
    knobs.get(name).unsigned_abs()
}

impl Settings {
    pub(super) fn read(knobs: &Knobs) -> Settings {
        let shift = |name| u32::try_from(count(knobs, name)).expect("in its range");
        Settings {
            share: match knobs.word("runqueue") {
                "socket" => Share::Socket,
                "cpu" => Share::Cpu,
                "core" => Share::Core,
                _ => Share::All,
            },
            most_cpus: usize::try_from(count(knobs, "runqueue-cpus")).expect("in its range"),
            credit: credits(knobs.time("credit")),
            min_timer: knobs.time("min-timer"),
            carry_over: credits(knobs.time("carry-over")),
            migrate_resist: credits(knobs.time("migrate-resist")),
            migrate_compensation: credits(knobs.time("migrate-compensation")),
            ratelimit: knobs.time("ratelimit"),
            ratelimit_tolerance: knobs.time("ratelimit-tolerance"),
            cap_period: knobs.time("cap-period"),
            window_shift: shift("load-window-shift") - 10,
            precision_shift: shift("load-precision-shift"),
            balance_under: knobs.get("balance-under"),
            balance_over: knobs.get("balance-over"),
            count_stopped: knobs.on("count-stopped"),
            hand_off: knobs.on("hand-off"),
        }
    }

    /// Returns the longest time slice.
    pub(super) fn max_timer(&self) -> Nanos {
        Nanos::ns(self.credit.unsigned_abs())
    }

    /// Returns the shortest time slice at the beginning of a run.
    pub(super) fn min_turn(&self) -> Nanos {
        self.min_timer.max(self.ratelimit)
    }

    /// Returns the load difference below which no entity is moved: 2^`shift` times the load of one entity.
    pub(super) fn tolerance(&self, shift: i64) -> i64 {
        1 << (i64::from(self.precision_shift) + shift)
    }
}
