//! RT-Xen: servers of four kinds, by fixed priority or by deadline, each on a CPU of its own or all on all.
//!
//! The research line behind Xen's RTDS. Every vCPU is a server with a budget in every period; the servers are scheduled
//! as real-time tasks are. RT-Xen 1 has fixed priorities on one CPU each (who has the shorter period is more urgent);
//! RT-Xen 2 adds deadlines and a global queue. Both decide every millisecond, besides when somebody wakes. `version`
//! chooses one of them, and the other knobs put the parts together at will.
//!
//! ```text
//! period 10, budget 4, blocked at 1, awake from 6 on; otherwise idle CPU, hard
//! server       0         5         10        15
//! deferrable   a    .    aaa       aaaa            3 left at 6
//! periodic     a    .              aaaa            drained while it slept
//! polling      a    .              aaaa            lost when it slept
//! sporadic     a    .    aaa  a         aaa        what was used at 0 comes back at 10, at 6 at 16
//! ```
//!
//! **Servers.** A *deferrable* server keeps its budget until the period ends. A *periodic* one uses it up also while
//! its owner is blocked (here: from the moment it blocks, as if it were always the most urgent). A *polling* one loses
//! it as soon as its owner has nothing to do, and all of it when its period begins with nobody there. A *sporadic* one
//! keeps it, and gets back what was used one period after that use began.
//!
//! **Order.** Deadline monotonic: who must be done sooner after its period begins (without deadlines of their own, the
//! shorter period: rate monotonic). Or earliest deadline first.
//!
//! **Placement.** Partitioned: each vCPU on the CPU on which the least has been asked for when it comes, of those it
//! may run on. Global: one queue for all CPUs, as in `rtds`.
//!
//! **Ties.** Who has just run goes on unless somebody more urgent waits, so the quantum changes nothing among equals;
//! with `ties = turn` they take turns of it.
//!
//! **Admission.** What fits was worked out before, by compositional analysis. With `admission` on, it is judged when
//! somebody comes: by deadline, Σ budget/period may be 1 on each CPU; by fixed priorities, Π (1 + budget/period) may be
//! 2 (of the deadline, where that is earlier). Then every budget is delivered in every period to those who want to run,
//! as long as all do. On several CPUs with one queue, Σ up to their number is let in, and nothing is promised.
//!
//! Differences from the original: a budget is whole again when that is due, not when somebody next looks, and is
//! counted in nanoseconds; a vCPU is put where there is room, not where it came up. Soft limits mean nothing unless
//! `extratime` is on. Periods count from when a vCPU comes (`grid = boot`: from when the machine started, as there).
//!
//! Source: Xi, Lee et al., RT-Xen (EMSOFT 2011, RTAS 2012) and RT-Xen 2 (EMSOFT 2014; `sched_rtpartition.c`); Bini,
//! Buttazzo and Buttazzo 2003.

use crate::servers::{self, Grid, Kind, Order, Servers, Settings, Ties};
use sched::{Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rt-xen",
    title: "servers of four kinds, by fixed priority or deadline, partitioned or global",
    source: "RT-Xen 1 and 2 (Xi, Lee et al., EMSOFT 2011, RTAS 2012, EMSOFT 2014)",
    good_for: "comparing ways of giving VMs a budget per period, with analyses that exist for each",
    bad_at: "keeping promises nobody has added up, and using what nobody asked for",
    text: include_str!("rt_xen.rs"),
    conserving,
    // Whoever asks for more than there is can keep everybody less urgent out.
    starvation: |_| None,
    guarantees: Guarantees {
        reservations: |load| servers::reservations(load, &settings(load.knobs)),
        ..Guarantees::NOTHING
    },
    alarms: servers::ALARMS,
    knobs: &[
        Knob::choice("version", &["1", "2"], "what `placement` and `order` are where they do not say")
            .from("1 (Xen 4.0.1): partitioned, rate monotonic; 2 (Xen 4.3): global, earliest deadline first"),
        Knob::choice(
            "placement",
            &["version", "partitioned", "global"],
            "each vCPU on a CPU of its own, or all on all",
        )
        .from("RT-Xen 1: partitioned; RT-Xen 2: sched_rtpartition.c and sched_rtglobal.c"),
        Knob::choice(
            "order",
            &["version", "deadline-monotonic", "edf"],
            "fixed priorities, or earliest deadline first",
        )
        .from("RT-Xen 1: rate monotonic; RT-Xen 2: priority_scheme, EDF unless changed"),
        Knob::choice(
            "server",
            &["deferrable", "periodic", "polling", "sporadic"],
            "what becomes of a budget whose owner is blocked",
        )
        .from("RT-Xen 1: all four; RT-Xen 2: deferrable, and periodic by a busy loop in the guest"),
        Knob::time("quantum", Nanos::ms(1), (Nanos::ZERO, Nanos::s(1)), "how often it decides anew; 0: when it must")
            .from("RT-Xen 1 and 2, and RTDS up to Xen 4.6 (MAX_SCHEDULE): 1 ms; RTDS since: 0"),
        Knob::choice("ties", &["stay", "turn"], "whether who has just run gives way to its equals")
            .from("rtpartition_schedule, RT-Xen 2: an equal one goes on"),
        Knob::switch("extratime", false, servers::EXTRATIME).from("came with RTDS"),
        servers::GRID,
        servers::ADMISSION,
        servers::DEFAULT_PERIOD,
        servers::DEFAULT_BUDGET,
    ],
    build,
};

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let slack = Nanos::ZERO;
    if settings(load.knobs).partitioned { Conserving::PerCpu { slack } } else { Conserving::Global { slack } }
}

fn settings(knobs: &Knobs) -> Settings {
    let second = knobs.word("version") == "2";
    Settings {
        kind: match knobs.word("server") {
            "periodic" => Kind::Periodic,
            "polling" => Kind::Polling,
            "sporadic" => Kind::Sporadic,
            _ => Kind::Deferrable,
        },
        order: match knobs.word("order") {
            "edf" => Order::EarliestDeadline,
            "version" if second => Order::EarliestDeadline,
            _ => Order::DeadlineMonotonic,
        },
        partitioned: match knobs.word("placement") {
            "version" => !second,
            word => word == "partitioned",
        },
        extratime: knobs.on("extratime"),
        quantum: knobs.time("quantum"),
        constrained: true,
        default_period: knobs.time("default-period"),
        default_budget: knobs.time("default-budget"),
        ties: if knobs.word("ties") == "turn" { Ties::Turn } else { Ties::Stay },
        grid: if knobs.word("grid") == "boot" { Grid::Boot } else { Grid::Seen },
        closed: knobs.on("admission"),
    }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Servers::new(host, settings(knobs))))
}
