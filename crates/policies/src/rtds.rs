//! RTDS: each vCPU has a budget of CPU time per period; across the machine, the vCPUs with the earliest deadlines run.
//!
//! RTDS is Xen's real-time deferrable-server scheduler, developed from RT-Xen 2. Every vCPU has a budget in every
//! period; the end of the period is its deadline. The vCPUs with remaining budget and the earliest deadlines run, on
//! any CPU. A vCPU keeps its budget until the period ends, even while it is blocked (*deferrable*). Each new period
//! replenishes the budget.
//!
//! ```text
//! one CPU, period 10, budget 4 each; u hard, e soft (extratime)
//! 0         4         8   10        14        18  20
//! uuuuuuuuuueeeeeeeeeeeeeeeuuuuuuuuuueeeeeeeeeeeeeeeuuuuu
//! ```
//!
//! **Extratime.** A vCPU with a soft limit continues when its budget is used up: one level less urgent, with a new
//! budget and the same deadline. At the end of the period, the vCPU returns to the first level. A vCPU with a hard
//! limit is held until the period ends.
//!
//! **Wake-ups.** A vCPU that wakes after its period has ended starts the period that contains the current instant, with
//! a full budget. So periods stay on their grid. The wake-up kicks an idle CPU on which the vCPU may run, preferably
//! the last CPU of the vCPU. If no such CPU idles, the wake-up kicks the CPU that runs the least urgent vCPU, if the
//! woken vCPU is more urgent.
//!
//! **Ties.** Of vCPUs with equal deadlines, the vCPU that began to wait first runs. A wake-up with an equal deadline
//! does not preempt. But when the CPU decides again for another reason, a waiting vCPU with an equal deadline runs
//! instead. Under `ties = stay`, the running vCPU continues, as up to Xen 4.6.
//!
//! **Admission control.** By default the administrator must ensure that Σ budget/period fits. With `admission` on, a
//! vCPU that would raise the sum above the number of CPUs is refused, as in Xen at 04584da792. On one CPU every budget
//! is then delivered, as long as all vCPUs are runnable. On several CPUs, the condition is necessary but not
//! sufficient. A budget kept during a sleep adds to the new budgets of other vCPUs, and can delay these vCPUs past
//! their deadlines.
//!
//! A vCPU without a reservation has a budget of 4 ms in every 10 ms by default. Weights and caps are ignored. The first
//! period begins when the vCPU is attached, or at the `start` of its reservation. In Xen (`grid = boot`), periods are
//! counted from the start of the machine, so the first period may be short, with a full budget.
//!
//! Source: `xen/common/sched/rt.c`, Xen 4.23-dev; Xi et al., EMSOFT 2014 (RT-Xen 2).

use crate::servers::{self, Grid, Kind, Order, Servers, Settings, Ties};
use sched::{Conserving, Descriptor, Guarantees, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rtds",
    title: "a budget in every period, global earliest deadline first (Xen)",
    source: "xen/common/sched/rt.c, Xen 4.23-dev; RT-Xen 2 (Xi et al., EMSOFT 2014)",
    good_for: "VMs with a known need per period on several CPUs, without binding them to CPUs",
    bad_at: "guarantees without admission control: by default no reservation is refused",
    text: include_str!("rtds.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    // A vCPU that reserves too much can starve all vCPUs with later deadlines.
    starvation: |_| None,
    guarantees: Guarantees {
        reservations: |load| servers::reservations(load, &settings(load.knobs)),
        ..Guarantees::NOTHING
    },
    alarms: servers::ALARMS,
    knobs: &[
        Knob::switch("extratime", true, servers::EXTRATIME).from("RTDS_extratime, on for every vCPU by default"),
        Knob::choice(
            "ties",
            &["turn", "stay"],
            "of equally urgent vCPUs, a waiting vCPU runs, or the running vCPU continues",
        )
        .from(
            "rt_schedule: since priority_level, a running vCPU needs a higher priority; stay (up to 4.6): an equal one",
        ),
        servers::GRID,
        servers::ADMISSION,
        servers::DEFAULT_PERIOD,
        servers::DEFAULT_BUDGET,
    ],
    build,
};

fn settings(knobs: &Knobs) -> Settings {
    Settings {
        kind: Kind::Deferrable,
        order: Order::EarliestDeadline,
        partitioned: false,
        extratime: knobs.on("extratime"),
        quantum: Nanos::ZERO,
        constrained: false,
        default_period: knobs.time("default-period"),
        default_budget: knobs.time("default-budget"),
        ties: if knobs.word("ties") == "stay" { Ties::Stay } else { Ties::Turn },
        grid: if knobs.word("grid") == "boot" { Grid::Boot } else { Grid::Seen },
        closed: knobs.on("admission"),
    }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Servers::new(host, settings(knobs))))
}
