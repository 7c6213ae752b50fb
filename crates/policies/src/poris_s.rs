//! Poris-s: Poris for each VM alone, without groups of VMs and without rounds.
//!
//! This reduction is Poris_s in the evaluation of Poris. A comparison with `poris` shows the effect of co-scheduling
//! several VMs. Short time slices, promotion, the confinement of siblings to different CPUs and affinity exchange are
//! as in `poris`. But a mark on a group of VMs marks each VM individually, and a picked vCPU calls only its own
//! siblings.
//!
//! ```text
//! two CPUs; VM a = a0 a1 and VM b = b0 b1, both marked; h and i are hogs; latency 10 ms
//! 0    5    10   15   20   25   30   35   40
//! bbbbbaaaaa..........bbbbbaaaaa.....bbbbbaaaaa      CPU 0: a0, b0, and h: the dots
//! bbbbbaaaaa..........bbbbbaaaaa.....bbbbbaaaaa      CPU 1: a1, b1, and i
//! ```
//!
//! Source: Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized environments", §6.4.

use crate::credit;
use crate::parallel::{ACCOUNTING_LOWERS, EXCHANGE, Packing, Parallel, Parts, SHARED, Together, Unit};
use crate::poris::{LATENCY, LEAST_TURN, WOKEN, promotion, short_turns};
use sched::{Descriptor, Knob, Knobs, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "poris-s",
    title: "Poris for each VM alone: no groups of VMs, no rounds",
    source: "Wu et al., Poris, §6.4; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "parallel soft real-time VMs that do not wait for each other",
    bad_at: "VMs that work together: each waits for whole time slices of the others; marked VMs can starve others",
    text: include_str!("poris_s.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

const OWN: [Knob; 5] = [LATENCY, LEAST_TURN, WOKEN, ACCOUNTING_LOWERS, EXCHANGE];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        unit: Unit::Vm,
        packing: Packing::FirstFitDecreasing,
        short_turns: Some(short_turns(knobs)),
        promotion: Some(promotion(knobs)),
        together: Some(Together { exchange: knobs.on(EXCHANGE.name), ..Together::ALWAYS }),
        demand: None,
    };
    Parallel::build(host, knobs, parts)
}
