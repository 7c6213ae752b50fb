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
//! **Wake-ups.** Who wakes after its period has ended begins the one it would be in by now, with a whole budget: periods stay on
//! their grid. It calls an idle CPU it may run on, its last before others; else the CPU that runs the least
//! urgent, if that is less urgent than itself.
//!
//! **Ties.** Of equal deadlines, who came to wait first runs; who runs gives way to an equal only when it stops anyway.
//!
//! Nothing is refused because it is too much: that Σ budget/period fits is the administrator's duty. Who asks for
//! nothing has 4 ms in every 10 ms. Weights and caps are not looked at.
//!
//! Source: `xen/common/sched/rt.c`, Xen 4.23-dev; Xi et al., EMSOFT 2014 (RT-Xen 2).

use crate::servers::{self, Kind, Order, Servers, Settings};
use sched::{Conserving, Descriptor, Host, Keeps, Knob, Knobs, Nanos, Policy, Refused};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rtds",
    title: "a budget in every period, global earliest deadline first (Xen)",
    source: "xen/common/sched/rt.c, Xen 4.23-dev; RT-Xen 2 (Xi et al., EMSOFT 2014)",
    good_for: "VMs with a known need per period on several CPUs, without binding them to CPUs",
    bad_at: "keeping promises nobody has added up: it refuses nothing",
    text: include_str!("rtds.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    // Whoever asks for more than there is can keep everybody with later deadlines out.
    starvation: |_| None,
    keeps: Keeps::NOTHING,
    alarms: servers::ALARMS,
    knobs: &[
        Knob::switch("extratime", true, "whether who has a soft limit goes on when its budget is used up")
            .from("RTDS_extratime, on for every vCPU by default"),
        Knob::time(
            "default-period",
            Nanos::ms(10),
            (Nanos::us(10), Nanos::s(10)),
            "the period of who asks for nothing",
        )
        .from("RTDS_DEFAULT_PERIOD"),
        Knob::time("default-budget", Nanos::ms(4), (Nanos::us(10), Nanos::s(10)), "the budget of who asks for nothing")
            .from("RTDS_DEFAULT_BUDGET"),
    ],
    build,
};

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let settings = Settings {
        kind: Kind::Deferrable,
        order: Order::EarliestDeadline,
        partitioned: false,
        extratime: knobs.on("extratime"),
        quantum: Nanos::ZERO,
        constrained: false,
        default_period: knobs.time("default-period"),
        default_budget: knobs.time("default-budget"),
    };
    Ok(Box::new(Servers::new(host, settings)))
}
