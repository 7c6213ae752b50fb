//! Strict co-scheduling: the vCPUs of a VM may drift apart by so much; then all stop, and start again together.
//!
//! A guest takes it for granted that its CPUs get on at the same pace. If one of them holds a lock and waits for a real
//! CPU, the others spin. So each vCPU of a VM has a *skew*: it grows while the vCPU waits and a sibling gets on, and
//! shrinks again while it gets on itself. A vCPU whose guest idles gets on: it lacks nothing.
//!
//! ```text
//! two CPUs; a hog h; a VM of two vCPUs, a and b; equal weights; threshold 5 ms, margin 1 ms, quantum 50 ms
//! from ms    0   5   6   56  61  106
//! CPU 0      h   h   a   h   h   a       5: b has waited for 5 ms while a got on: both stop
//! CPU 1      a   .   b   b   .   b       6: h has had 6 ms, a had 5: both CPUs can be taken
//! waiting    b       h   a       h      61: a lags by 5 ms; h has had 11 ms by then, a and b 55 each
//! stopped       ab          ab
//! ```
//!
//! **Co-stop.** As soon as the skew of any reaches the threshold, all of the VM stop (they are held, `co-stopped`). That is
//! known beforehand, and an alarm goes off at that instant; nobody looks at ticks.
//!
//! **Co-start.** They go on when there are CPUs for all of them that are not idle at the same moment: idle CPUs, and those of
//! others that have had more, by `margin`, than any of them. Who waits and has had no more comes first. Until then
//! CPUs may idle, as one does in the picture for 46 of 106 ms: that is what the later `cosched-relaxed` mends.
//!
//! **Order.** For all else it is proportional share: who has had the least for its weight runs, for a quantum at most. Who wakes
//! does not keep what it did not use. A lead is remembered for 20 quanta: where one runs because nobody else may, others need not
//! make up for all of it. Weights are those of the vCPUs; groups have none here.
//!
//! A VM with more vCPUs than CPUs (or than CPUs that they may run on side by side) starts when as many as possible have one,
//! those first that have had least; whoever is left out begins to lag anew, and so they take turns.
//!
//! A gang is a VM: the members of a group that is marked as one.
//!
//! Differences from ESX: there are no queues for each CPU, and no migration between them; time in the hypervisor counts as
//! time in the guest. That a vCPU loses its skew also while it idles is assumed, as is the threshold.
//!
//! Source: VMware, "Co-scheduling SMP VMs in VMware ESX Server" (2008), and "The CPU Scheduler in VMware vSphere 5.1"
//! (2013), as told in policies.md 10.6.

use crate::skew::{MARGIN, QUANTUM, Rule, SHARED, Skewed};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched-strict",
    title: "proportional share; a VM whose vCPUs drift apart stops as a whole and starts together (ESX 2)",
    source: "VMware, Co-scheduling SMP VMs in VMware ESX Server (2008); policies.md 10.6",
    good_for: "guests whose vCPUs spin for each other, on a host with CPUs enough for all of a VM at a time",
    bad_at: "many VMs with many vCPUs: CPUs idle beside a stopped VM for which they are too few",
    text: include_str!("cosched_strict.rs"),
    knobs: &[
        Knob::time(
            "threshold",
            Nanos::ms(5),
            (Nanos::us(100), Nanos::s(1000)),
            "the skew at which a VM is stopped as a whole",
        )
        .from("assumed: ESX 2's is not published (policies.md 10.6)"),
        QUANTUM,
        MARGIN,
    ],
    build,
    ..SHARED
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let threshold = knobs.time("threshold");
    Ok(Skewed::build(host, knobs, Rule::All, threshold, threshold))
}
