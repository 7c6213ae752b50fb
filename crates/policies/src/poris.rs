//! Poris: parallel soft real-time VMs over Credit: short time slices, event promotion, and gangs that run together.
//!
//! A player, a search or a stream computation in a VM with several vCPUs suffers twice from a scheduler that knows
//! nothing about it. An event waits for the time slices of other vCPUs, and a vCPU spins or sleeps for a sibling that
//! does not run. Here the administrator marks such a VM (`gang`), and marks VMs that work together through a group
//! around them. Unmarked VMs are scheduled by `credit`.
//!
//! ```text
//! two CPUs; VM a = a0 a1 and VM b = b0 b1 work together; h and i are hogs; latency 10 ms, rounds of 1 ms
//! 0    5    10   15   20   25   30   35   40
//! ababababab..........ababababab.....ababababab      CPU 0: a0, b0, and h: the dots
//! ababababab..........ababababab.....ababababab      CPU 1: a1, b1, and i
//! ```
//!
//! **Short time slices.** While there is a marked VM, the time slice of every vCPU is `latency / (n − 1)`. Here `n` is
//! the number of vCPUs for each CPU, rounded up. If vCPUs are spread evenly, a vCPU that has just run waits for about
//! `latency` among equals. It waits longer on a CPU with more vCPUs, or behind a more urgent vCPU. Without a marked VM,
//! or with no more vCPUs than CPUs, a time slice is `slice`.
//!
//! **Promotion.** An event (an interrupt, a packet) for a marked VM's vCPU that waits UNDER raises it above BOOST,
//! behind others of that priority. A wake-up does the same (`woken`). A vCPU that stops running is UNDER again. An OVER
//! vCPU is not raised, but it may still be called together with its siblings.
//!
//! **Co-scheduling.** VMs that work together are packed whole into subgroups with no more vCPUs than there are CPUs
//! (`packing`). Each vCPU of a subgroup is kept on a CPU of its own, the one with the fewest marked vCPUs. When one of
//! them is picked, it calls the others. All that wait are raised to the highest priority, the subgroup of the picked
//! vCPU first. CPUs that run other vCPUs pick again. It does not call if the others have been called already, their
//! time slices are not over, and one of them runs.
//!
//! **Rounds.** If there are several subgroups, they take turns of `round` until each has had a whole time slice, so
//! that no subgroup waits long for another.
//!
//! **Affinity exchange.** A CPU with an OVER vCPU at its head may not steal a sibling of this vCPU, because two
//! siblings must not share a queue. The two exchange their CPUs instead.
//!
//! Costs: a vCPU that is kept on its CPU waits while another CPU idles. A gang that is picked repeatedly is called
//! repeatedly, OVER or not. So beside marked VMs any entity may starve.
//!
//! The source leaves several points open. Chosen here are the packing, the CPUs of subgroups, which vCPUs are promoted
//! at a wake-up, and a least time slice. The accounting does not lower raised vCPUs, and running members are raised,
//! too. In Algorithm 1 every picked vCPU calls; taken literally, siblings call each other again and again. The text
//! (§4.4) mentions the first vCPU of a VM that is scheduled; the rule "called already" stands for it here. The source
//! does not say which subgroup comes first; any other than that of the picked vCPU would run beside half of another. In
//! the source, the running vCPU is queued again after the next one is picked; here before, as in Credit. Rounds that
//! are left when a vCPU blocks are dropped here, so that its next event calls its group.
//!
//! Source: S3 (Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized environments") §4
//! and §5, Algorithm 1; xen/common/sched_credit.c, Xen 4.0.1.

use crate::credit;
use crate::parallel::{
    ACCOUNTING_LOWERS, EXCHANGE, Packing, Parallel, Parts, Promotion, SHARED, ShortTurns, Together, Unit,
};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "poris",
    title: "Credit with short time slices, event promotion, and gangs of VMs that run together",
    source: "S3 (Wu et al.) §4-5, Algorithm 1; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "parallel soft real-time VMs and groups of them: players, searches, streams, beside batch VMs",
    bad_at: "hosts where every VM is marked, and caches: time slices are short for all; marked VMs can starve others",
    text: include_str!("poris.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

/// The latency that a real-time VM tolerates.
pub(crate) const LATENCY: Knob = Knob::time(
    "latency",
    Nanos::ms(15),
    (Nanos::us(10), Nanos::s(10)),
    "the latency that marked VMs tolerate: how long a vCPU that has just run waits, if vCPUs are spread evenly",
)
.from("S3 §4.3: a VoIP test is good with time slices of 5 ms and four vCPUs for each CPU");

/// The shortest time slice.
pub(crate) const LEAST_TURN: Knob =
    Knob::time("least-turn", Nanos::us(100), (Nanos::us(10), Nanos::s(1)), "the shortest time slice")
        .from("ours: S3 states none");

/// The effect of a wake-up.
pub(crate) const WOKEN: Knob =
    Knob::choice("woken", &["real-time", "boost"], "the priority of a marked VM's vCPU that wakes UNDER")
        .from("S3 §4.2 states it for events for waiting vCPUs; for sleeping ones it is assumed (policies.md 10.3)");

const OWN: [Knob; 7] = [
    LATENCY,
    LEAST_TURN,
    WOKEN,
    Knob::time(
        "round",
        Nanos::ms(1),
        (Nanos::us(10), Nanos::s(1)),
        "the time slice of one of several subgroups",
    )
    .from("S3 §5: T_round"),
    Knob::choice(
        "packing",
        &["first-fit-decreasing", "first-fit", "next-fit"],
        "how VMs that work together are packed into subgroups: largest first or in order of creation; into any or the last one",
    )
    .from("S3 §4.5: any one-dimensional packing; the default is assumed (policies.md 10.3)"),
    ACCOUNTING_LOWERS,
    EXCHANGE,
];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

/// Returns the settings of short time slices.
pub(crate) fn short_turns(knobs: &Knobs) -> ShortTurns {
    ShortTurns { latency: knobs.time(LATENCY.name), least: knobs.time(LEAST_TURN.name) }
}

/// Returns the setting of promotion.
pub(crate) fn promotion(knobs: &Knobs) -> Promotion {
    match knobs.word(WOKEN.name) {
        "boost" => Promotion::Event,
        _ => Promotion::EventAndWake,
    }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let packing = match knobs.word("packing") {
        "first-fit" => Packing::FirstFit,
        "next-fit" => Packing::NextFit,
        _ => Packing::FirstFitDecreasing,
    };
    let parts = Parts {
        unit: Unit::Group,
        packing,
        short_turns: Some(short_turns(knobs)),
        promotion: Some(promotion(knobs)),
        together: Some(Together {
            round: Some(knobs.time("round")),
            exchange: knobs.on(EXCHANGE.name),
            ..Together::ALWAYS
        }),
        demand: None,
    };
    Parallel::build(host, knobs, parts)
}
