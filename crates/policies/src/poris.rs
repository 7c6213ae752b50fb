//! Poris: Credit for parallel soft real-time VMs, with short time slices, event promotion and co-scheduled gangs.
//!
//! A media player, a search engine or a stream computation in a VM with several vCPUs suffers from two delays under
//! Credit. First, an event waits for the time slices of other vCPUs. Second, a vCPU spins or sleeps until a sibling
//! runs. Poris shortens both delays for VMs that the administrator marks (`gang`). VMs that work together are marked
//! together: the mark is on a group that contains them. Unmarked VMs are scheduled as in `credit`, except that their
//! time slices also become short.
//!
//! ```text
//! two CPUs; VM a = a0 a1 and VM b = b0 b1 work together; h and i are hogs; latency 10 ms, rounds of 1 ms
//! 0    5    10   15   20   25   30   35   40
//! ababababab..........ababababab.....ababababab      CPU 0: a0, b0, and h: the dots
//! ababababab..........ababababab.....ababababab      CPU 1: a1, b1, and i
//! ```
//!
//! **Short time slices.** While a marked VM exists, the time slice of every vCPU is `latency / (n − 1)`. Here `n` is
//! the number of vCPUs per CPU, rounded up. If vCPUs have equal priorities and are spread evenly, a vCPU waits for
//! about `latency` between two of its time slices. The wait is longer on a CPU with more vCPUs, or behind a more urgent
//! vCPU. Without a marked VM, or with no more vCPUs than CPUs, a time slice is `slice`.
//!
//! **Promotion.** An event (an interrupt or a packet) promotes a waiting UNDER vCPU of a marked VM to a priority above
//! BOOST. The vCPU is enqueued behind others of that priority. A wake-up has the same effect (`woken`). A vCPU that
//! stops running is UNDER again, unless rounds remain for it (see below). An OVER vCPU is not promoted, but it may
//! still be co-scheduled with its siblings.
//!
//! **Co-scheduling.** VMs that work together are packed whole into subgroups with no more vCPUs than there are CPUs
//! (`packing`). Only a VM with more vCPUs than there are CPUs is split. The vCPUs of a subgroup are confined to
//! different CPUs, each to the CPU with the fewest marked vCPUs. A CPU that picks a vCPU of the group *calls* the other
//! vCPUs. A call promotes all waiting vCPUs of the group to the highest priority, the subgroup of the picked vCPU
//! first. The CPUs of these vCPUs are kicked, except CPUs that run a vCPU of the group. A CPU does not call
//! while the time slices of the last call are in progress and another vCPU of the group runs, or a called vCPU has not
//! completed its time slice.
//!
//! **Rounds.** Several subgroups run round robin for `round` each, until each subgroup has received a whole time slice.
//! No subgroup therefore waits long for another subgroup.
//!
//! **Affinity exchange.** Two siblings must not share a run queue. So a CPU with an OVER vCPU at the head of its run
//! queue must not steal a sibling of this vCPU. Instead, the two siblings exchange their CPUs.
//!
//! Costs: a confined vCPU may wait while another CPU idles. A gang that is picked repeatedly is called repeatedly, even
//! if its vCPUs are OVER. So any entity may starve beside marked VMs.
//!
//! The source leaves several points open. This policy chooses the packing, the CPUs of subgroups, the vCPUs that a
//! wake-up promotes, and a minimum time slice. Further choices:
//! - Accounting does not lower promoted vCPUs, and a call promotes running members, too.
//! - In Algorithm 1 every picked vCPU calls, so siblings would call each other repeatedly. §4.4 limits the call to the
//!   first scheduled vCPU of a VM. Here, the condition on the last call implements that limit.
//! - The source does not order the subgroups. The subgroup of the picked vCPU is first here. If another subgroup were
//!   first, it would run beside a part of that subgroup.
//! - In the source, the stopped vCPU is enqueued after the pick. Here, the vCPU is enqueued before the pick, as in
//!   Credit.
//! - A vCPU that blocks loses its remaining rounds, so its next pick may call its group.
//!
//! Source: Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized environments", §4 and
//! §5, Algorithm 1; xen/common/sched_credit.c, Xen 4.0.1.

use crate::credit;
use crate::parallel::{
    ACCOUNTING_LOWERS, EXCHANGE, Packing, Parallel, Parts, Promotion, SHARED, ShortTurns, Together, Unit,
};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "poris",
    title: "Credit with short time slices, event promotion, and co-scheduled gangs of VMs",
    source: "Wu et al., Poris, §4-5, Algorithm 1; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "parallel soft real-time VMs and groups of them: media players, search engines, streams, beside batch VMs",
    bad_at: "hosts where every VM is marked; cache reuse: all time slices are short; marked VMs can starve others",
    text: include_str!("poris.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

/// The wait of a vCPU between two time slices that marked VMs tolerate.
pub(crate) const LATENCY: Knob = Knob::time(
    "latency",
    Nanos::ms(15),
    (Nanos::us(10), Nanos::s(10)),
    "the latency that marked VMs tolerate: the wait of a vCPU between two time slices, if vCPUs are spread evenly",
)
.from("Poris §4.3: a VoIP test is good with time slices of 5 ms and four vCPUs for each CPU");

/// The minimum length of a time slice.
pub(crate) const LEAST_TURN: Knob =
    Knob::time("least-turn", Nanos::us(100), (Nanos::us(10), Nanos::s(1)), "the shortest time slice")
        .from("ours: the source states none");

/// The effect of a wake-up on the priority.
pub(crate) const WOKEN: Knob =
    Knob::choice("woken", &["real-time", "boost"], "the priority of a marked VM's vCPU that wakes UNDER")
        .from("Poris §4.2, for events for waiting vCPUs; for wake-ups (assumed)");

const OWN: [Knob; 7] = [
    LATENCY,
    LEAST_TURN,
    WOKEN,
    Knob::time(
        "round",
        Nanos::ms(1),
        (Nanos::us(10), Nanos::s(1)),
        "the time slice of a subgroup if VMs that work together form several subgroups",
    )
    .from("Poris §5: T_round"),
    Knob::choice(
        "packing",
        &["first-fit-decreasing", "first-fit", "next-fit"],
        "the packing of VMs into subgroups: largest first or in order of creation; into any or only the last subgroup",
    )
    .from("Poris §4.5: any one-dimensional packing; the default (assumed)"),
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
