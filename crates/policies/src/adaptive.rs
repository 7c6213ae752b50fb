//! Adaptive: Credit that co-schedules a VM only while its guest waits a long time for spin locks.
//!
//! No VM has to be marked as concurrent. A monitor in the guest measures each wait for a spin lock and reports long
//! waits. The policy ignores waits shorter than `threshold`. Any other report starts an interval in which the policy
//! schedules the VM like a concurrent VM of `hybrid`. During the interval, the vCPUs of the VM are placed on different
//! CPUs. A CPU that picks the VM's first vCPU signals the CPUs of the siblings, as in `hybrid` (`signal-from`,
//! `signal-every`). After the interval, the VM is scheduled as in `credit`.
//!
//! **Length of the interval.** The first interval lasts `interval`. An interval was too short if the next reported wait
//! begins during the interval, or within one interval length after its end. The next interval is then twice as long.
//! Otherwise the interval may have been too long, and the next interval is a quarter shorter. `interval-least` and
//! `interval-most` bound the length. A report within an interval does not change that interval.
//!
//! ```text
//! reports (ms)      0        31            200            1000
//! intervals         0-30     31-91         200-245        1000-1034
//! ```
//!
//! Every group with members counts as a VM, whether or not the group is marked as a gang.
//!
//! The original policy uses reinforcement learning to estimate how long the lock contention of a VM lasts. The
//! constants of this estimate are not available. The rule above is an addition of Tactus, and the threshold of 2^20
//! cycles at 2.33 GHz is assumed.
//!
//! Source: Weng, Liu, Yu and Li, "Dynamic adaptive scheduling for virtual machines", HPDC 2011 (abstract).

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
        .from("2^20 cycles at 2.33 GHz (assumed)"),
    Knob::time("interval", Nanos::ms(30), (Nanos::us(100), MOST), "the first interval of co-scheduling")
        .from("ours: a time slice of Credit"),
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
