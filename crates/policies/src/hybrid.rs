//! Hybrid: concurrent VMs are co-scheduled on top of Credit; all other VMs are scheduled by Credit alone.
//!
//! Co-scheduling benefits VMs whose threads wait for each other. In VMs that only compute, co-scheduling costs time
//! without benefit. The administrator therefore classifies each VM: a marked VM (`gang`) is concurrent; any other VM is
//! a high-throughput VM.
//!
//! The vCPUs of a concurrent VM are kept on different CPUs. When a CPU picks the VM's first vCPU, the CPU signals the
//! siblings. Siblings that wait move to the head of their queues, above BOOST, and their CPUs pick again. Each VM is
//! signalled at most once per `signal-every`, which is one time slice of Credit by default.
//!
//! ```text
//! two CPUs; VM a = a0 a1 is marked; two hogs on CPU 0, one on CPU 1
//! 0    30   60   90   120  150  180  210  240
//! aaaaa..........aaaaa..........aaaaa..........      CPU 0: a0, and the hogs: the dots
//! aaaaa.....aaaaaaaaaa..........aaaaa.....aaaaa      CPU 1: a1, and a hog
//! ```
//!
//! With `signal-from = boot`, only CPU 0 signals, as in the original; a VM without a vCPU on CPU 0 is then never
//! signalled. A signalled vCPU runs even if it has overspent its credit. Each VM therefore receives its share in the
//! long run only if concurrent VMs request no more than their share.
//!
//! The internals of the original policy are not available. The priority of siblings above BOOST and the rate of signals
//! are assumed.
//!
//! Source: Weng, Wang, Li and Lu, "The hybrid scheduling framework for virtual machine systems", VEE 2009 (abstract);
//! Wu et al. (Poris) §2.

use crate::credit;
use crate::parallel::{ACCOUNTING_LOWERS, Packing, Parallel, Parts, SHARED, SignalFrom, Together, Unit};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "hybrid",
    title: "Credit, with concurrent VMs co-scheduled once per time slice",
    source: "Weng et al., VEE 2009; xen/common/sched_credit.c",
    good_for: "concurrent VMs beside throughput VMs, both with their shares",
    bad_at: "short latencies, and VMs that are concurrent only at times; marked VMs can starve others",
    text: include_str!("hybrid.rs"),
    knobs: &KNOBS,
    build,
    ..SHARED
};

/// The CPUs whose picks start the co-scheduling of siblings.
pub(crate) const SIGNAL_FROM: Knob = Knob::choice(
    "signal-from",
    &["first", "boot", "any"],
    "the picks that signal the siblings: picks of the VM's first vCPU; picks by CPU 0; all picks of its vCPUs",
)
.from("Weng et al.: the boot CPU; the VM's first CPU is assumed, because CPU 0 may have no vCPU of the VM");

/// The minimum time between two signals to the siblings of a VM.
pub(crate) const SIGNAL_EVERY: Knob = Knob::time(
    "signal-every",
    Nanos::ms(30),
    (Nanos::ZERO, Nanos::s(10)),
    "the minimum time between two signals to the siblings of a VM",
)
.from("a time slice of Credit (assumed)");

const OWN: [Knob; 3] = [SIGNAL_FROM, SIGNAL_EVERY, ACCOUNTING_LOWERS];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

/// Returns the settings for signals to siblings.
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
