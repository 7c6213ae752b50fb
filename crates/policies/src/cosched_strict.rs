//! Strict co-scheduling: when the vCPUs of a VM drift apart by a threshold, all of them stop and later start together.
//!
//! A guest assumes that its CPUs make progress at the same rate. If a vCPU that holds a lock waits for a real CPU, the
//! others spin. So each vCPU of a VM has a *skew*: it grows while the vCPU waits and a sibling makes progress, and
//! shrinks while the vCPU makes progress. A vCPU whose guest idles makes progress, because it lacks nothing.
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
//! **Co-stop.** As soon as the skew of any vCPU reaches the threshold, all vCPUs of the VM stop (they are held,
//! `co-stopped`). This instant is known in advance, and an alarm is set for it; ticks play no role.
//!
//! **Co-start.** The VM resumes when CPUs are available at the same instant for all of its vCPUs that are not idle.
//! Available CPUs are idle CPUs and the CPUs of other vCPUs that have had more, by `margin`, than any of the VM. A
//! waiting vCPU that has had no more than the VM goes first. Until then CPUs may idle, as a CPU does in the picture for
//! 46 of 106 ms. The later `cosched-relaxed` improves that. A skew above half the threshold is reduced to half of it
//! (assumed): otherwise a vCPU that loses its CPU at once would stop the VM again at once.
//!
//! **Order.** Otherwise scheduling is proportional share: the vCPU with the least weighted CPU time runs, for a quantum
//! at most. A vCPU that wakes does not keep the time it did not use. A lead is remembered for 20 quanta: if a vCPU runs
//! because no other may run, the others need not make up for all of it. Weights are those of the vCPUs; groups have no
//! weight here.
//!
//! A VM may have more vCPUs than CPUs, or than CPUs that its vCPUs may run on side by side. It starts when as many
//! vCPUs as possible have a CPU, and those with the least CPU time come first. The vCPUs that are left out begin to lag
//! anew, so all of them take turns.
//!
//! A gang is a VM: the members of a group that is marked as one.
//!
//! Differences from ESX: there are no per-CPU queues, and no migration between them. Time in the hypervisor counts as
//! time in the guest. It is assumed that a vCPU also loses its skew while it idles; the threshold is assumed as well.
//!
//! Source: VMware, "Co-scheduling SMP VMs in VMware ESX Server" (2008), and "The CPU Scheduler in VMware vSphere 5.1"
//! (2013), as described in policies.md 10.6.

use crate::skew::{MARGIN, QUANTUM, Rule, SHARED, Skewed};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched-strict",
    title: "proportional share; a VM whose vCPUs drift apart stops as a whole and starts together (ESX 2)",
    source: "VMware, Co-scheduling SMP VMs in VMware ESX Server (2008); policies.md 10.6",
    good_for: "guests whose vCPUs spin for each other, on a host with enough CPUs for all vCPUs of a VM at a time",
    bad_at: "many VMs with many vCPUs: CPUs idle while a stopped VM waits for more of them",
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
