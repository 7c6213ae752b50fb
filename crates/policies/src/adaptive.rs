//! Adaptive: VMs are brought together over Credit while their guests spin for long, and only then.
//!
//! Nobody has to know which VM is concurrent, and when: a monitor in the guest measures how long its spin locks are
//! waited for, and reports a wait of `threshold` or more. That begins an interval in which the VM is scheduled as a
//! concurrent one of `hybrid` is: each vCPU on a CPU of its own, and siblings called when one of them is chosen. After
//! it, the VM is as any other under `credit`.
//!
//! **How long.** The first interval lasts `interval`. If the next wait that is reported began sooner after one than it was
//! long, or within it, it was too short, and the next one is twice as long; if not, it may have been too long, and the next
//! one is a quarter shorter; `interval-least` and `interval-most` bound it. Reports within one change nothing.
//!
//! ```text
//! reports (ms)      0        31            200            1000
//! intervals         0-30     31-91         200-245        1000-1034
//! ```
//!
//! Every group with members is a VM; it need not be marked.
//!
//! The original learns by reinforcement how long a VM's lock contention lasts. Its constants are not at hand; the rule
//! above is ours, and the threshold is 2^20 cycles at 2.33 GHz.
//!
//! Source: Weng, Liu, Yu and Li, "Dynamic adaptive scheduling for virtual machines", HPDC 2011, as told in policies.md
//! 10.6.

use crate::credit;
use crate::hybrid::{SIGNAL_EVERY, SIGNAL_FROM, together};
use crate::parallel::{ACCOUNTING_LOWERS, Demand, Packing, Parallel, Parts, SHARED, Unit};
use sched::{AlarmKind, AlarmSlots, Conserving, Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "adaptive",
    title: "Credit, with VMs brought together while their guests spin for long",
    source: "Weng et al., HPDC 2011; xen/common/sched_credit.c",
    good_for: "VMs that are concurrent at times, without anybody having to say which and when",
    bad_at: "guests that report nothing, or lie: a VM that is brought together all the time can starve others",
    text: include_str!("adaptive.rs"),
    conserving: |load| if load.group_depth == 0 { (SHARED.conserving)(load) } else { Conserving::Never },
    starvation: |load| if load.group_depth == 0 { (SHARED.starvation)(load) } else { None },
    alarms: AlarmSlots { group: &[AlarmKind::Timer], ..SHARED.alarms },
    knobs: &KNOBS,
    build,
    ..SHARED
};

const MOST: Nanos = Nanos::s(100);

const OWN: [Knob; 7] = [
    Knob::time("threshold", Nanos::us(450), (Nanos::us(1), MOST), "the shortest wait for a spin lock that counts")
        .from("2^20 cycles at 2.33 GHz; assumed (policies.md 10.6)"),
    Knob::time("interval", Nanos::ms(30), (Nanos::us(100), MOST), "how long a VM is brought together at first")
        .from("ours: a slice of Credit"),
    Knob::time("interval-least", Nanos::ms(10), (Nanos::us(100), MOST), "the shortest that becomes")
        .from("ours: a tick"),
    Knob::time("interval-most", Nanos::s(1), (Nanos::us(100), MOST), "the longest that becomes").from("ours"),
    SIGNAL_FROM,
    SIGNAL_EVERY,
    ACCOUNTING_LOWERS,
];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let [threshold, first, least, most] =
        ["threshold", "interval", "interval-least", "interval-most"].map(|name| knobs.time(name));
    if least > most {
        return Err(Refused::Unsupported("interval-least above interval-most; right would be the other way round"));
    }
    let parts = Parts {
        unit: Unit::AnyVm,
        packing: Packing::FirstFitDecreasing,
        short_turns: None,
        promotion: None,
        together: Some(together(knobs)),
        demand: Some(Demand::new(threshold, first, least, most)),
    };
    Parallel::build(host, knobs, parts)
}
