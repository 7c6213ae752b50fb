//! PS: parallel scheduling on top of Credit: the vCPUs of a marked VM run together, in Credit's long time slices.
//!
//! In the evaluation of Poris, a comparison with this policy shows the effect of short time slices and promotion. As in
//! `poris`, the vCPUs of a marked VM (`gang`) are confined to different CPUs, and a picked vCPU calls its siblings.
//! Siblings exchange their CPUs as in `poris`, too. But time slices are those of Credit, and a woken vCPU receives only
//! BOOST.
//!
//! ```text
//! two CPUs; VM a = a0 a1 and VM b = b0 b1, both marked; h and i are hogs; time slices of 30 ms
//! 0    30   60   90   120  150  180  210  240
//! aaaaabbbbb.....aaaaabbbbb.....aaaaa.....bbbbb      CPU 0: a0, b0, and h: the dots
//! aaaaabbbbb.....aaaaabbbbb.....aaaaa.....bbbbb      CPU 1: a1, b1, and i
//! ```
//!
//! Source: Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized environments", §4.4
//! and §6.3: "PS".

use crate::credit;
use crate::parallel::{ACCOUNTING_LOWERS, EXCHANGE, Packing, Parallel, Parts, SHARED, Together, Unit};
use sched::{Descriptor, Knob, Knobs, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "ps",
    title: "parallel scheduling over Credit: a VM's vCPUs run together, in long time slices",
    source: "Wu et al., Poris, §4.4 and §6.3; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "parallel batch VMs whose vCPUs wait for each other",
    bad_at: "short latencies: a vCPU without a boost waits for long time slices; marked VMs can starve others",
    text: include_str!("ps.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

const OWN: [Knob; 2] = [ACCOUNTING_LOWERS, EXCHANGE];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        unit: Unit::Vm,
        packing: Packing::FirstFitDecreasing,
        short_turns: None,
        promotion: None,
        together: Some(Together { exchange: knobs.on(EXCHANGE.name), ..Together::ALWAYS }),
        demand: None,
    };
    Parallel::build(host, knobs, parts)
}
