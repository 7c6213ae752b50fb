//! Strict co-scheduling: when the vCPUs of a VM drift apart by a threshold, all of them stop and later start together.
//!
//! A guest assumes that its CPUs make progress at the same rate. If a vCPU that holds a lock waits for a physical CPU,
//! its siblings spin. Each vCPU of a VM therefore has a *skew*. The skew grows while the vCPU waits and a sibling makes
//! progress. The skew shrinks while the vCPU makes progress. A vCPU whose guest idles makes progress, because it needs
//! no CPU.
//!
//! ```text
//! two CPUs; a hog h; a VM of vCPUs a and b; equal weights; threshold 5 ms, margin 1 ms, quantum 50 ms
//! from ms    0   5   6   56  61  106
//! CPU 0      h   h   a   h   h   a       5: b has waited for 5 ms while a ran: both stop
//! CPU 1      a   .   b   b   .   b       6: h has run for 6 ms, a for 5: both CPUs are available
//! waiting    b       h   a       h      61: a lags by 5 ms; h has run for 11 ms, a and b for 55
//! stopped       ab          ab
//! ```
//!
//! **Co-stop.** As soon as the skew of any vCPU reaches the threshold, the policy holds all vCPUs of the VM that are
//! not idle (`co-stopped`). This instant is known in advance, and an alarm is set for it; ticks have no effect.
//!
//! **Co-start.** The VM resumes when CPUs are available at the same instant for all of its vCPUs that are not idle. A
//! CPU is available if it idles. It is also available if it runs an entity whose weighted CPU time exceeds that of each
//! of these vCPUs by more than `margin`. A waiting entity takes precedence if its weighted CPU time is at most the
//! maximum among these vCPUs. CPUs may idle while a VM is stopped. In the picture, a CPU idles for 46 of 106 ms. The
//! later `cosched-relaxed` reduces this waste. At a co-start, a skew above half the threshold is reduced to half the
//! threshold (assumed). Without this rule, a vCPU that loses its CPU immediately after the co-start would immediately
//! stop the VM again.
//!
//! **Order.** Otherwise scheduling is proportional share: the vCPU with the least weighted CPU time runs, for a quantum
//! at most. A vCPU that wakes does not keep its unused time. A vCPU that runs while no other vCPU can run gains a lead
//! in weighted CPU time. Only about 20 quanta of this lead count later. Weights belong to the vCPUs; groups have no
//! weight here.
//!
//! A VM may have more vCPUs than there are CPUs, or more than its affinities allow to run at the same time. Such a VM
//! starts when CPUs are available for the largest possible number of its vCPUs. Its vCPUs with the least CPU time have
//! precedence. The vCPUs without a CPU begin to lag, so all vCPUs run in turn.
//!
//! The members of a group that is marked as a gang are the vCPUs of a VM.
//!
//! Differences from ESX: there are no per-CPU queues, and no migration between them. Time in the hypervisor counts as
//! time in the guest. The threshold is assumed. It is also assumed that the skew of a vCPU shrinks while the vCPU
//! idles.
//!
//! Source: VMware, "Co-scheduling SMP VMs in VMware ESX Server" (2008), and "The CPU Scheduler in VMware vSphere 5.1"
//! (2013).

use crate::skew::{MARGIN, QUANTUM, Rule, SHARED, Skewed};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched-strict",
    title: "proportional share; a VM whose vCPUs drift apart stops as a whole and starts together (ESX 2)",
    source: "VMware, Co-scheduling SMP VMs in VMware ESX Server (2008)",
    good_for: "guests whose vCPUs spin for each other, on a host with enough CPUs for all vCPUs of a VM at a time",
    bad_at: "many VMs with many vCPUs: CPUs idle while a stopped VM waits for more CPUs",
    text: include_str!("cosched_strict.rs"),
    knobs: &[
        Knob::time(
            "threshold",
            Nanos::ms(5),
            (Nanos::us(100), Nanos::s(1000)),
            "the skew at which a VM is stopped as a whole",
        )
        .from("assumed: ESX 2's threshold is not published"),
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
