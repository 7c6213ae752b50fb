//! Poris: parallel soft real-time VMs over Credit: short turns, events that go first, and gangs that run together.
//!
//! A player, a search or a stream computation in a VM with several vCPUs suffers twice from a scheduler that knows
//! nothing of it: an event waits for the turns of others, and a vCPU spins or sleeps for a sibling that does not run.
//! Here the administrator marks such a VM (`gang`), and a group of VMs that work together by marking the group around
//! them. All else is `credit`, and VMs that are not marked are treated as there.
//!
//! ```text
//! two CPUs; VM a = a0 a1 and VM b = b0 b1 work together; h and i are hogs; latency 10 ms, rounds of 1 ms
//! 0    5    10   15   20   25   30   35   40
//! ababababab..........ababababab.....ababababab      CPU 0: a0, b0, and h: the dots
//! ababababab..........ababababab.....ababababab      CPU 1: a1, b1, and i
//! ```
//!
//! **Short turns.** While there is a marked VM, everybody's turn lasts `latency / (n − 1)`, where `n` is how many vCPUs
//! there are for each CPU, rounded up. Where vCPUs are spread evenly, who has just missed its turn waits for about
//! `latency` among equals; on a CPU with more of them, or behind who is more urgent, for longer. With no marked VM, or
//! no more vCPUs than CPUs, a turn lasts `slice`.
//!
//! **Promotion.** An event (an interrupt, a packet) for a marked VM's vCPU that waits UNDER lifts it above BOOST,
//! behind others of that priority; so does waking (`woken`). Who stops running is UNDER again. Who is OVER is not
//! lifted, but it may well be called together with its siblings.
//!
//! **Together.** VMs that work together are packed whole into subgroups with no more vCPUs than there are CPUs
//! (`packing`), and each vCPU of a subgroup is kept on a CPU of its own, the one that fewest marked vCPUs are kept on.
//! When one of them is chosen, it calls the others: all that wait are lifted to that highest priority, the subgroup of
//! the chosen one first, and CPUs that run somebody else choose again. It does not call if they have been called
//! already, for as long as their turns last, and one of them runs.
//!
//! **Rounds.** If there are several subgroups, they take turns of `round` until each has had a whole turn, so that none
//! waits long for another.
//!
//! **Affinity exchange.** A CPU whose best is OVER may not steal that one's sibling, as two of them must not share a
//! queue. The two change CPUs instead.
//!
//! What it costs: a vCPU that is kept on its CPU waits while another one idles, and a gang that is chosen again and
//! again is called again and again, OVER or not. So nobody is promised not to starve beside marked VMs.
//!
//! Not stated by the source, and chosen here: packing, where subgroups are kept, who is promoted when it wakes, that
//! the accounting leaves who is lifted alone, that members who run already are lifted too, and a least turn. Algorithm
//! 1 lets everybody who is chosen call; taken literally, siblings call each other out again and again. The text (§4.4)
//! speaks of the first of a VM that is scheduled; that is what "called already" stands for here. And it leaves open
//! which subgroup comes first; any other than that of the chosen one would run beside half of another. There, who runs
//! is queued again after the next one is chosen; here before, as in Credit. And rounds left over when a vCPU blocks are
//! forgotten here, so that its next event calls its group.
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
    title: "Credit with short turns, promoted events, and gangs of VMs that run together",
    source: "S3 (Wu et al.) §4-5, Algorithm 1; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "parallel soft real-time VMs and groups of them: players, searches, streams, beside batch VMs",
    bad_at: "hosts where everybody is marked, and caches: turns are short for all; marked VMs can starve others",
    text: include_str!("poris.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

/// How long a real-time VM can live without a CPU.
pub(crate) const LATENCY: Knob = Knob::time(
    "latency",
    Nanos::ms(15),
    (Nanos::us(10), Nanos::s(10)),
    "what marked VMs can live with: how long who has just missed its turn waits where vCPUs are spread evenly",
)
.from("S3 §4.3: a VoIP test is good with turns of 5 ms and four vCPUs for each CPU");

/// The shortest turn.
pub(crate) const LEAST_TURN: Knob =
    Knob::time("least-turn", Nanos::us(100), (Nanos::us(10), Nanos::s(1)), "the shortest that turns become by that")
        .from("ours: S3 states none");

/// What waking does.
pub(crate) const WOKEN: Knob =
    Knob::choice("woken", &["real-time", "boost"], "what a marked VM's vCPU that wakes UNDER becomes")
        .from("S3 §4.2 says it of events for who waits; for who sleeps it is assumed (policies.md 10.3)");

const OWN: [Knob; 7] = [
    LATENCY,
    LEAST_TURN,
    WOKEN,
    Knob::time(
        "round",
        Nanos::ms(1),
        (Nanos::us(10), Nanos::s(1)),
        "how long the turn of one of several subgroups lasts",
    )
    .from("S3 §5: T_round"),
    Knob::choice(
        "packing",
        &["first-fit-decreasing", "first-fit", "next-fit"],
        "how VMs that work together are packed into subgroups: largest first or as they came; into any or the last one",
    )
    .from("S3 §4.5: any one-dimensional packing; the default is assumed (policies.md 10.3)"),
    ACCOUNTING_LOWERS,
    EXCHANGE,
];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

/// The knobs of short turns.
pub(crate) fn short_turns(knobs: &Knobs) -> ShortTurns {
    ShortTurns { latency: knobs.time(LATENCY.name), least: knobs.time(LEAST_TURN.name) }
}

/// The knob of promotion.
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
