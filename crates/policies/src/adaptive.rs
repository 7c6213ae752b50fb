//! Adaptive: Credit that co-schedules a VM only while its guest waits long for spin locks.
//!
//! No VM has to be marked as concurrent. A monitor in the guest measures how long the guest waits for its spin locks.
//! It reports each wait of `threshold` or more. A report starts an interval in which the VM is scheduled like a
//! concurrent VM of `hybrid`. Each vCPU has a CPU of its own, and a CPU that picks one vCPU calls the siblings. After
//! the interval, `credit` schedules the VM like any other.
//!
//! **Length of the interval.** The first interval lasts `interval`. The next reported wait may start within the
//! interval, or sooner after it than the interval was long. Then the interval was too short, and the next one is twice
//! as long. Otherwise it may have been too long, and the next one is a quarter shorter. `interval-least` and
//! `interval-most` bound the length. A report within an interval does not change that interval.
//!
//! ```text
//! reports (ms)      0        31            200            1000
//! intervals         0-30     31-91         200-245        1000-1034
//! ```
//!
//! Every group with members is a VM; it need not be marked.
//!
//! The original learns by reinforcement how long the lock contention of a VM lasts. Its constants are not available.
//! The rule above is ours, and the threshold is 2^20 cycles at 2.33 GHz.
//!
//! Source: Weng, Liu, Yu and Li, "Dynamic adaptive scheduling for virtual machines", HPDC 2011, as described in
//! policies.md 10.6.

use crate::credit;
use crate::hybrid::{SIGNAL_EVERY, SIGNAL_FROM, together};
use crate::parallel::{ACCOUNTING_LOWERS, Demand, Packing, Parallel, Parts, SHARED, Unit};
use sched::{AlarmKind, AlarmSlots, Conserving, Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "adaptive",
    title: "Credit that co-schedules VMs while their guests spin for long",
    source: "Weng et al., HPDC 2011; xen/common/sched_credit.c",
    good_for: "VMs that are concurrent at times, without marking them",
    bad_at: "guests that report nothing or report falsely: a VM that is always co-scheduled can starve others",
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
    Knob::time("threshold", Nanos::us(450), (Nanos::us(1), MOST), "the shortest wait for a spin lock that is reported")
        .from("2^20 cycles at 2.33 GHz; assumed (policies.md 10.6)"),
    Knob::time("interval", Nanos::ms(30), (Nanos::us(100), MOST), "the first interval of co-scheduling")
        .from("ours: a slice of Credit"),
    Knob::time("interval-least", Nanos::ms(10), (Nanos::us(100), MOST), "the shortest interval").from("ours: a tick"),
    Knob::time("interval-most", Nanos::s(1), (Nanos::us(100), MOST), "the longest interval").from("ours"),
    SIGNAL_FROM,
    SIGNAL_EVERY,
    ACCOUNTING_LOWERS,
];
const KNOBS: [Knob; credit::KNOBS.len() + OWN.len()] = Knob::join(&OWN, credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let [threshold, first, least, most] =
        ["threshold", "interval", "interval-least", "interval-most"].map(|name| knobs.time(name));
    if least > most {
        return Err(Refused::Unsupported { reason: "interval-least is above interval-most", remedy: "swap the two" });
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
