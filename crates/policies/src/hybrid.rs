//! Hybrid: concurrent VMs run together over Credit, all others are left to Credit.
//!
//! Bringing vCPUs together pays for VMs whose threads wait for each other, and only costs for those that just compute. So
//! the administrator types each VM: a marked one (`gang`) is concurrent, any other high-throughput.
//!
//! The vCPUs of a concurrent VM are kept on CPUs of their own. When the first of them is chosen, its CPU calls the
//! others: they go to the head of their queues, above BOOST, and their CPUs choose again. That happens once in
//! `signal-every`, a turn of Credit, for each VM.
//!
//! ```text
//! two CPUs; VM a = a0 a1 is marked; two hogs on CPU 0, one on CPU 1
//! 0    30   60   90   120  150  180  210  240
//! aaaaa..........aaaaa..........aaaaa..........      CPU 0: a0, and the hogs: the dots
//! aaaaa.....aaaaaaaaaa..........aaaaa.....aaaaa      CPU 1: a1, and a hog
//! ```
//!
//! `signal-from = boot` lets only CPU 0 call, as in the original; then a VM of which no vCPU is kept there is never
//! called. Credits give all their shares in the long run only if concurrent VMs do not ask for more than theirs: who is
//! called runs, overspent or not.
//!
//! The original's internals are not at hand: that siblings go above BOOST, and how often they are called, is assumed.
//!
//! Source: Weng, Wang, Li and Lu, "The hybrid scheduling framework for virtual machine systems", VEE 2009, as told in
//! S3 §2 and policies.md 10.6.

use crate::credit;
use crate::parallel::{ACCOUNTING_LOWERS, Packing, Parallel, Parts, SHARED, SignalFrom, Together, Unit};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "hybrid",
    title: "Credit, with concurrent VMs brought together once a turn",
    source: "Weng et al., VEE 2009; xen/common/sched_credit.c",
    good_for: "concurrent VMs beside throughput VMs, both with their shares",
    bad_at: "quick answers, and VMs that are concurrent only at times; marked VMs can starve others",
    text: include_str!("hybrid.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

/// Who calls.
pub(crate) const SIGNAL_FROM: Knob = Knob::choice(
    "signal-from",
    &["first", "boot", "any"],
    "which CPU calls the siblings of whom it chooses: that of the VM's first vCPU; CPU 0; each",
)
.from("Weng et al.: the boot CPU; that it is the VM's own is assumed, as on CPU 0 there may be none of it");

/// How often.
pub(crate) const SIGNAL_EVERY: Knob = Knob::time(
    "signal-every",
    Nanos::ms(30),
    (Nanos::ZERO, Nanos::s(10)),
    "how often the siblings of one VM are called at most",
)
.from("a slice of Credit; assumed (policies.md 10.6)");

const OWN: [Knob; 3] = [SIGNAL_FROM, SIGNAL_EVERY, ACCOUNTING_LOWERS];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

/// How siblings are called.
pub(crate) fn together(knobs: &Knobs) -> Together {
    let from = match knobs.word(SIGNAL_FROM.name) {
        "first" => SignalFrom::First,
        "boot" => SignalFrom::Boot,
        _ => SignalFrom::Any,
    };
    Together { from, every: knobs.time(SIGNAL_EVERY.name), ..Together::ALWAYS }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let parts = Parts {
        unit: Unit::Vm,
        packing: Packing::FirstFitDecreasing,
        short_turns: None,
        promotion: None,
        together: Some(together(knobs)),
        demand: None,
    };
    Parallel::build(host, knobs, parts)
}
