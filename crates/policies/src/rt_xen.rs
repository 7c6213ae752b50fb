//! RT-Xen: servers of four kinds, by fixed priority or by deadline, each on a CPU of its own or all on all.
//!
//! The research line behind Xen's RTDS. Every vCPU is a server with a budget in every period; the servers are scheduled as
//! real-time tasks are. RT-Xen 1 has fixed priorities on one CPU each (who has the shorter period is more urgent) and
//! decides every millisecond; RT-Xen 2 adds deadlines and a global queue. The knobs put them together.
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
//! **Servers.** A *deferrable* server keeps its budget until the period ends. A *periodic* one uses it up also while its owner
//! is blocked (here: from the moment it blocks, as if it were always the most urgent). A *polling* one loses it as soon as
//! its owner has nothing to do, and all of it when its period begins with nobody there. A *sporadic* one
//! keeps it, and gets back what was used one period after that use began.
//!
//! **Order.** Deadline monotonic: who must be done sooner after its period begins (without deadlines of their own, the
//! shorter period: rate monotonic). Or earliest deadline first.
//!
//! **Placement.** Partitioned: each vCPU on the CPU on which the least has been asked for when it comes, of those it may run on. Global:
//! one queue for all CPUs, as in `rtds`.
//!
//! A theory that favours partitioned queues and experiments that favour the global one were its finding.
//! Nothing is refused because it is too much. Soft limits mean nothing here unless `extratime` is on.
//!
//! Source: Lee, Xi et al., RT-Xen (EMSOFT 2011, RTAS 2012) and RT-Xen 2 (EMSOFT 2014).

use crate::servers::{self, Kind, Order, Servers, Settings};
use sched::{Conserving, Descriptor, Host, Keeps, Knob, Knobs, Load, Nanos, Policy, Refused};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rt-xen",
    title: "servers of four kinds, by fixed priority or deadline, partitioned or global",
    source: "RT-Xen 1 and 2 (Lee, Xi et al., EMSOFT 2011, RTAS 2012, EMSOFT 2014)",
    good_for: "comparing ways of giving VMs a budget per period, with analyses that exist for each",
    bad_at: "keeping promises nobody has added up, and using what nobody asked for",
    text: include_str!("rt_xen.rs"),
    conserving,
    // Whoever asks for more than there is can keep everybody less urgent out.
    starvation: |_| None,
    keeps: Keeps::NOTHING,
    alarms: servers::ALARMS,
    knobs: &[
        Knob::choice("placement", &["partitioned", "global"], "each vCPU on a CPU of its own, or all on all")
            .from("RT-Xen 1: partitioned; RT-Xen 2: either"),
        Knob::choice("order", &["deadline-monotonic", "edf"], "fixed priorities, or earliest deadline first")
            .from("RT-Xen 1: rate monotonic; RT-Xen 2: either"),
        Knob::choice(
            "server",
            &["deferrable", "periodic", "polling", "sporadic"],
            "what becomes of a budget whose owner is blocked",
        )
        .from("RT-Xen 1: all four; RT-Xen 2: deferrable and periodic"),
        Knob::time("quantum", Nanos::ms(1), (Nanos::ZERO, Nanos::s(1)), "how often it decides anew; 0: when it must")
            .from("RT-Xen 1: 1 ms; RT-Xen 2: 0"),
        Knob::switch("extratime", false, "whether who has a soft limit goes on when its budget is used up")
            .from("came with RTDS"),
        Knob::time(
            "default-period",
            Nanos::ms(10),
            (Nanos::us(10), Nanos::s(10)),
            "the period of who asks for nothing",
        )
        .from("RTDS_DEFAULT_PERIOD, xen/common/sched/rt.c"),
        Knob::time("default-budget", Nanos::ms(4), (Nanos::us(10), Nanos::s(10)), "the budget of who asks for nothing")
            .from("RTDS_DEFAULT_BUDGET, xen/common/sched/rt.c"),
    ],
    build,
};

fn conserving(load: &Load<'_>) -> Conserving {
    let slack = Nanos::ZERO;
    match load.knobs.word("placement") {
        "partitioned" => Conserving::PerCpu { slack },
        _ => Conserving::Global { slack },
    }
}

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let settings = Settings {
        kind: match knobs.word("server") {
            "periodic" => Kind::Periodic,
            "polling" => Kind::Polling,
            "sporadic" => Kind::Sporadic,
            _ => Kind::Deferrable,
        },
        order: if knobs.word("order") == "edf" { Order::EarliestDeadline } else { Order::DeadlineMonotonic },
        partitioned: knobs.word("placement") == "partitioned",
        extratime: knobs.on("extratime"),
        quantum: knobs.time("quantum"),
        constrained: true,
        default_period: knobs.time("default-period"),
        default_budget: knobs.time("default-budget"),
    };
    Ok(Box::new(Servers::new(host, settings)))
}
