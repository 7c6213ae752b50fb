//! RTDS: a budget of CPU time in every period for each vCPU, and the earliest deadline of the whole machine runs.
//!
//! Xen's real-time deferrable-server scheduler, which came out of RT-Xen 2. Every vCPU has a budget in every period.
//! Who has budget left and whose period ends first runs, on whatever CPU. A budget is kept until its period ends, also
//! while the vCPU is blocked (*deferrable*), and is whole again in the next one.
//!
//! ```text
//! one CPU, period 10, budget 4 each; u hard, e soft (extratime)
//! 0         4         8   10        14        18  20
//! uuuuuuuuuueeeeeeeeeeeeeeeuuuuuuuuuueeeeeeeeeeeeeeeuuuuu
//! ```
//!
//! **Extratime.** Who has asked for a soft limit goes on when its budget is used up, one level less urgent, with
//! another budget and the same deadline; at the end of the period it is back on the first level. Who has asked
//! for a hard one is held until then.
//!
//! **Wake-ups.** Who wakes after its period has ended begins the one it would be in by now, with a whole budget:
//! periods stay on their grid. It calls an idle CPU it may run on, its last before others; else the CPU that runs the
//! least urgent, if that is less urgent than itself.
//!
//! **Ties.** Of equal deadlines, who came to wait first runs. Who runs is not called away for an equal, but gives way
//! to one when its CPU looks again anyway (`ties = stay`: does not, as it was up to Xen 4.6).
//!
//! **Admission.** That Σ budget/period fits is the administrator's duty. With `admission` on, who would bring the sum
//! above the number of CPUs is refused, as in the newest Xen. On one CPU every budget is delivered then, as long as
//! everybody wants to run; on several, the sum is necessary but not sufficient. A budget that was saved up by a rest
//! comes on top of the others' new ones, and can make them late.
//!
//! Who asks for nothing has 4 ms in every 10 ms. Weights and caps are not looked at. Periods are counted from when a
//! vCPU comes, or from the `start` it asks for; in Xen (`grid = boot`) from when the machine started, so that the first
//! one may be short, with a whole budget.
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
    bad_at: "keeping promises nobody has added up: unless told to, it refuses nothing",
    text: include_str!("rtds.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    // Whoever asks for more than there is can keep everybody with later deadlines out.
    starvation: |_| None,
    guarantees: Guarantees {
        reservations: |load| servers::reservations(load, &settings(load.knobs)),
        ..Guarantees::NOTHING
    },
    alarms: servers::ALARMS,
    knobs: &[
        Knob::switch("extratime", true, servers::EXTRATIME).from("RTDS_extratime, on for every vCPU by default"),
        Knob::choice("ties", &["turn", "stay"], "whether who has just run gives way to its equals")
            .from("rt_schedule: since priority_level, a runner needs a higher priority; stay: up to 4.6, an equal one"),
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
