//! RS: Credit for soft real-time VMs, with short time slices and event promotion, without co-scheduling.
//!
//! In the evaluation of Poris, a comparison with this policy shows the effect of co-scheduling. As in `poris`, a marked
//! VM (`gang`) makes all time slices short. An event or a wake-up promotes a vCPU of a marked VM above BOOST. But
//! siblings are not co-scheduled, and no vCPU is confined to a CPU.
//!
//! ```text
//! one CPU; e is marked; a, b and c are hogs; latency 15 ms; an event for e, which waits, at 12 ms
//! 0    5    10   15   20
//! eeeeeaaaaabbeeeeeccccc
//! ```
//!
//! Source: Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized environments", §4.2,
//! §4.3 and §6.3: "RS".

use crate::credit;
use crate::parallel::{ACCOUNTING_LOWERS, Packing, Parallel, Parts, SHARED, Unit};
use crate::poris::{LATENCY, LEAST_TURN, WOKEN, promotion, short_turns};
use sched::{Descriptor, Knob, Knobs, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "rs",
    title: "soft real-time over Credit: short time slices and event promotion, without gangs",
    source: "Wu et al., Poris, §4.2, §4.3 and §6.3; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "VMs with one vCPU that must respond to events in time",
    bad_at: "VMs whose vCPUs wait for each other; marked VMs can starve others until their credit is used up",
    text: include_str!("rs.rs"),
    conserving: credit::POLICY.conserving,
    knobs: &KNOBS,
    build,
    ..SHARED
};

const OWN: [Knob; 4] = [LATENCY, LEAST_TURN, WOKEN, ACCOUNTING_LOWERS];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        unit: Unit::Vm,
        packing: Packing::FirstFitDecreasing,
        short_turns: Some(short_turns(knobs)),
        promotion: Some(promotion(knobs)),
        together: None,
        demand: None,
    };
    Parallel::build(host, knobs, parts)
}
