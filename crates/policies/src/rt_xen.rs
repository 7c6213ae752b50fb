//! RT-Xen: servers of four kinds, ordered by fixed priority or by deadline, partitioned over CPUs or global.
//!
//! RT-Xen 1 and 2 are the research prototypes behind Xen's RTDS. Every vCPU is a server with a budget in every period;
//! servers are scheduled like real-time tasks. RT-Xen 1 has fixed priorities (the shorter period is more urgent) and
//! assigns each server to a CPU. RT-Xen 2 adds deadlines and a global run queue. Both make a decision every millisecond
//! and at each wake-up. `version` selects RT-Xen 1 or 2. Other knobs select the kind of server, the order and the
//! placement separately.
//!
//! ```text
//! period 10, budget 4, hard; the vCPU is alone on its CPU, blocks at 1 and wakes at 6
//! server       0         5         10        15
//! deferrable   a    .    aaa       aaaa            3 left at 6
//! periodic     a    .              aaaa            drained during the sleep
//! polling      a    .              aaaa            lost at the block
//! sporadic     a    .    aaa  a         aaa        use from 0 is replenished at 10, use from 6 at 16
//! ```
//!
//! **Servers.** A *deferrable* server keeps its budget until the period ends. A *periodic* server also uses its budget
//! while its vCPU is blocked. Tactus charges all the time since the block, as if the server were always the most
//! urgent. A *polling* server loses its budget when its vCPU blocks, and when a period begins while its vCPU is
//! blocked. A *sporadic* server keeps its budget. The amount of each use is replenished one period after the use began.
//!
//! **Order.** Deadline monotonic: the vCPU with the shorter relative deadline is more urgent. Without explicit
//! deadlines this is rate monotonic: the shorter period is more urgent. EDF: the vCPU with the earlier absolute
//! deadline is more urgent.
//!
//! **Placement.** Partitioned: when a vCPU is attached, it is assigned to the allowed CPU with the minimum total
//! density (budget divided by relative deadline). If `admission` refuses the vCPU there, the other allowed CPUs are
//! tried in ascending order. Global: one run queue serves all CPUs, as in `rtds`.
//!
//! **Ties.** The running vCPU continues unless a more urgent vCPU waits, so the quantum has no effect among equally
//! urgent vCPUs. With `ties = turn`, equally urgent vCPUs run round robin, one quantum each.
//!
//! **Admission control.** In the original, a compositional analysis tested the reservations in advance. With
//! `admission` on, each vCPU is tested when it is attached or its reservation changes. With EDF, Σ budget/period must
//! be at most 1 on each CPU. With fixed priorities, Π (1 + budget/period) must be at most 2. If a deadline is earlier
//! than the end of the period, budget/deadline replaces budget/period. While all vCPUs are runnable, every vCPU whose
//! server is not sporadic then receives its budget in every period. On several CPUs with one run queue, a sum up to the
//! number of CPUs is admitted, without a guarantee.
//!
//! Differences from the original: a budget is replenished when it is due, not at the next decision, and is counted in
//! nanoseconds. A vCPU is placed by the rule above, not on the CPU where it was created. Soft limits have no effect
//! unless `extratime` is on. Periods are counted from the attachment of a vCPU. In the original (`grid = boot`),
//! periods are counted from the start of the machine.
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
        Knob::choice(
            "version",
            &["1", "2"],
            "the version that sets `placement` and `order` if their value is `version`",
        )
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
            "the rule for a budget while its vCPU is blocked",
        )
        .from("RT-Xen 1: all four; RT-Xen 2: deferrable, and periodic by a busy loop in the guest"),
        Knob::time(
            "quantum",
            Nanos::ms(1),
            (Nanos::ZERO, Nanos::s(1)),
            "the maximum interval between decisions; 0: decisions only at events",
        )
        .from("RT-Xen 1 and 2, and RTDS up to Xen 4.6 (MAX_SCHEDULE): 1 ms; RTDS since: 0"),
        Knob::choice(
            "ties",
            &["stay", "turn"],
            "of equally urgent vCPUs, the running vCPU continues, or a waiting vCPU runs",
        )
        .from("rtpartition_schedule, RT-Xen 2: the running vCPU continues"),
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
