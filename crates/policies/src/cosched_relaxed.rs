//! Relaxed co-scheduling: a vCPU that is too far ahead of its slowest sibling stops alone, until its lead is small
//! again.
//!
//! Stopping a whole VM because one of its vCPUs lags (`cosched-strict`) wastes CPUs. Also, enough CPUs for all of its
//! vCPUs are rarely free at once. It is enough to limit the drift between vCPUs. Each vCPU has a *lead*, its progress
//! beyond the progress of the slowest vCPU of the VM. A vCPU makes progress while it runs or idles, but not while it
//! waits for a CPU or is co-stopped.
//!
//! ```text
//! two CPUs; a hog h; a VM of vCPUs a and b; equal weights; threshold 3 ms, resume 2 ms, margin 1 ms, quantum 50 ms
//! from ms    0   3   4   9   10  59
//! CPU 0      h   h   h   h   b   b       3: a leads by 3 ms and stops; b gets its CPU
//! CPU 1      a   b   b   a   a   h       4: a leads by 2 ms and may resume
//! waiting    b       a       h   a       9: b has run for 6 ms, a for 3; b stops
//! stopped       a       b               10: b may resume; h has run for 10 ms, b for 6
//! ```
//!
//! **Stop.** A running vCPU whose lead reaches the threshold stops (it is held, `co-stopped`); its siblings continue.
//! Its CPU becomes free, often for the lagging vCPU.
//!
//! **Resume.** The vCPU resumes once its lead is down to `resume`. The instants of the stop and of the resume are known
//! in advance, and an alarm is set for each; ticks have no effect. The slowest vCPU is never stopped, so a VM with any
//! number of vCPUs never halts as a whole.
//!
//! **Idling.** An idle vCPU makes progress, but its lead from idling is limited to `resume`. If the lead was larger
//! when the vCPU became idle, the lead shrinks by the progress of the slowest sibling. A vCPU that idles for an hour
//! therefore does not lead by an hour. A vCPU whose siblings idle for an hour does not lead by an hour either.
//!
//! **Order.** Otherwise scheduling is proportional share, as in `cosched-strict`: the vCPU with the least weighted CPU
//! time runs, for a quantum at most. A vCPU that becomes ready to run preempts an entity outside its VM whose weighted
//! CPU time is larger by more than `margin`.
//!
//! **`version = 3`** is the behaviour of ESX 3. Skews are as in `cosched-strict`, and the whole VM stops at the
//! threshold. But only the vCPUs that lag by half of the threshold or more (assumed) need CPUs at the same instant.
//! Their siblings resume as soon as they receive a CPU. When the VM starts, skews above half the threshold are reduced
//! to half the threshold. `resume` has no effect in this version.
//!
//! The members of a group that is marked as a gang are the vCPUs of a VM.
//!
//! Differences from ESX: there are no per-CPU queues, and no migration between them. Time in the hypervisor counts as
//! time in the guest; ESX excludes it. The threshold, `resume` and the limit on the lead from idling are assumed.
//!
//! Source: VMware, "The CPU Scheduler in VMware vSphere 5.1" (2013).

use crate::skew::{MARGIN, QUANTUM, Rule, SHARED, Skewed};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched-relaxed",
    title: "proportional share; a vCPU too far ahead of its slowest sibling stops alone (ESX 3 and later)",
    source: "VMware, The CPU Scheduler in VMware vSphere 5.1 (2013)",
    good_for: "guests whose vCPUs spin for each other, on hosts with fewer CPUs than vCPUs",
    bad_at: "vCPUs that do not depend on each other: a vCPU that receives less CPU time slows down its siblings",
    text: include_str!("cosched_relaxed.rs"),
    knobs: &[
        Knob::choice(
            "version",
            &["4", "3"],
            "what stops: the leading vCPU alone (4); or the VM, until the lagging vCPUs can start (3)",
        )
        .from("ESX 4 and later; ESX 3"),
        Knob::time(
            "threshold",
            Nanos::ms(3),
            (Nanos::us(100), Nanos::s(1000)),
            "the lead at which a vCPU stops, or with version 3 the skew at which its VM stops",
        )
        .from("assumed: not published"),
        Knob::time(
            "resume",
            Nanos::ms(2),
            (Nanos::ZERO, Nanos::s(1000)),
            "the lead at which a stopped vCPU resumes; at most nine tenths of the threshold",
        )
        .from("assumed: not published"),
        QUANTUM,
        MARGIN,
    ],
    build,
    ..SHARED
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let rule = if knobs.word("version") == "4" { Rule::Leader } else { Rule::Lagging };
    let threshold = knobs.time("threshold");
    // With equal values, a leader would stop and resume repeatedly at one instant.
    let resume = knobs.time("resume").min(threshold.scale(9, 10));
    Ok(Skewed::build(host, knobs, rule, threshold, resume))
}
