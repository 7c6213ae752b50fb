//! RT-Xen: servers of four kinds, by fixed priority or by deadline, partitioned over CPUs or global.
//!
//! The research prototypes behind Xen's RTDS. Every vCPU is a server with a budget in every period; servers are
//! scheduled like real-time tasks. RT-Xen 1 has fixed priorities and assigns each server to a CPU (the shorter period
//! is more urgent). RT-Xen 2 adds deadlines and a global queue. Both decide every millisecond, and at each wake-up.
//! `version` selects one of them, and the other knobs combine the parts freely.
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
//! **Servers.** A *deferrable* server keeps its budget until the period ends. A *periodic* server also uses its budget
//! while its vCPU is blocked (here: from the instant it blocks, as if it were always the most urgent). A *polling*
//! server loses its budget as soon as its vCPU blocks, and all of it when a period begins while the vCPU is blocked. A
//! *sporadic* server keeps its budget, and gets back the used amount one period after that use began.
//!
//! **Order.** Deadline monotonic: the vCPU with the shorter relative deadline is more urgent (without explicit
//! deadlines, the shorter period: rate monotonic). Or earliest deadline first.
//!
//! **Placement.** Partitioned: when a vCPU is attached, it is assigned to the allowed CPU with the least total
//! utilisation. Global: one queue for all CPUs, as in `rtds`.
//!
//! **Ties.** An entity that has just run goes on unless a more urgent one waits, so the quantum has no effect among
//! equals. With `ties = turn` equals take turns of a quantum.
//!
//! **Admission control.** In the original, a compositional analysis decided in advance what fits. With `admission` on,
//! each vCPU is tested when it is attached. By deadline, Σ budget/period may be 1 on each CPU. By fixed priorities, Π
//! (1 + budget/period) may be 2 (budget/deadline, if the deadline is earlier). Then every runnable vCPU gets its budget
//! in every period, as long as all are runnable. On several CPUs with one queue, Σ up to their number is admitted,
//! without a guarantee.
//!
//! Differences from the original: a budget is replenished when it is due, not at the next decision, and is counted in
//! nanoseconds. A vCPU is placed where there is room, not where it was created. Soft limits have no effect unless
//! `extratime` is on. Periods count from the attachment of a vCPU (`grid = boot`: from the start of the machine, as in
//! the original).
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
    good_for: "comparing servers that give VMs a budget per period, each with a published analysis",
    bad_at: "guarantees without admission control, and unreserved time, which stays unused",
    text: include_str!("rt_xen.rs"),
    conserving,
    // A vCPU that reserves too much can starve all less urgent vCPUs.
    starvation: |_| None,
    guarantees: Guarantees {
        reservations: |load| servers::reservations(load, &settings(load.knobs)),
        ..Guarantees::NOTHING
    },
    alarms: servers::ALARMS,
    knobs: &[
        Knob::choice("version", &["1", "2"], "the version that decides `placement` and `order` where these do not")
            .from("1 (Xen 4.0.1): partitioned, rate monotonic; 2 (Xen 4.3): global, earliest deadline first"),
        Knob::choice(
            "placement",
            &["version", "partitioned", "global"],
            "each vCPU assigned to one CPU, or all vCPUs on all CPUs",
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
            "what happens to a budget while its vCPU is blocked",
        )
        .from("RT-Xen 1: all four; RT-Xen 2: deferrable, and periodic by a busy loop in the guest"),
        Knob::time(
            "quantum",
            Nanos::ms(1),
            (Nanos::ZERO, Nanos::s(1)),
            "the interval of decisions; 0: only when necessary",
        )
        .from("RT-Xen 1 and 2, and RTDS up to Xen 4.6 (MAX_SCHEDULE): 1 ms; RTDS since: 0"),
        Knob::choice(
            "ties",
            &["stay", "turn"],
            "an entity that has just run goes on before its equals, or lets them run",
        )
        .from("rtpartition_schedule, RT-Xen 2: an equal entity goes on"),
        Knob::switch("extratime", false, servers::EXTRATIME).from("introduced with RTDS"),
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
