//! Relaxed co-scheduling: a vCPU that is too far ahead of its slowest sibling stops by itself and lets it catch up.
//!
//! Stopping a whole VM because one of its vCPUs lags (`cosched-strict`) wastes CPUs, and finding CPUs for all of them at once
//! takes long. It is enough that no sibling runs away: each vCPU has a *lead*, what it has got on further than the
//! slowest of its VM. Running and idling are getting on; waiting for a CPU and being stopped are not.
//!
//! ```text
//! two CPUs; a hog h; a VM of two vCPUs, a and b; equal weights; threshold 3 ms, resume 2 ms, margin 1 ms, quantum 50 ms
//! from ms    0   3   4   9   10  59
//! CPU 0      h   h   h   h   b   b       3: a leads by 3 ms and stops, its CPU goes to b
//! CPU 1      a   b   b   a   a   h       4: a leads by 2 ms and may go on
//! waiting    b       a       h   a       9: b has got on for 6 ms, a for 3; a turns the tables
//! stopped       a       b               10: b may go on, and h has had 10 ms, b only 6
//! ```
//!
//! **Stop.** A vCPU whose lead reaches the threshold stops (it is held, `co-stopped`); its siblings run on. Its CPU is
//! free, and often it is the one that lags who takes it.
//!
//! **Resume.** It goes on once its lead is down to `resume`. Both instants are known beforehand, and an alarm goes off then;
//! nobody looks at ticks. The slowest is never stopped, so a VM never stands still for its own sake, however many vCPUs it has.
//!
//! **Idling.** Who idles gets on, but leads by no more than `resume` for it (unless it led by more before, of which it loses what its
//! siblings get on): a vCPU that was left alone for an hour does not have to wait for an hour.
//!
//! **Order.** For all else it is proportional share, as in `cosched-strict`: who has had the least for its weight runs, for
//! a quantum at most, and preempts who has had more by `margin`.
//!
//! **`version = 3`** is what ESX 3 did: skews as in `cosched-strict`, and the whole VM stops at the threshold, but only
//! those who lag by half of it or more (assumed) need CPUs at the same moment; the others go on when they can. `resume` means
//! nothing there.
//!
//! A gang is a VM: the members of a group that is marked as one.
//!
//! Differences from ESX: there are no queues for each CPU, and no migration between them; time in the hypervisor counts as
//! time in the guest, where ESX leaves it out. The bounds, and how far idling counts, are assumed.
//!
//! Source: VMware, "The CPU Scheduler in VMware vSphere 5.1" (2013), as told in policies.md 10.6.

use crate::skew::{MARGIN, QUANTUM, Rule, SHARED, Skewed};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched-relaxed",
    title: "proportional share; a vCPU too far ahead of its slowest sibling stops by itself (ESX 3 and later)",
    source: "VMware, The CPU Scheduler in VMware vSphere 5.1 (2013); policies.md 10.6",
    good_for: "guests whose vCPUs spin for each other, on hosts with fewer CPUs than their VMs have together",
    bad_at: "vCPUs that have nothing to do with each other: one that gets less CPU time slows down the rest",
    text: include_str!("cosched_relaxed.rs"),
    knobs: &[
        Knob::choice(
            "version",
            &["4", "3"],
            "who stops: who leads, by itself; or the VM, until those who lag can start",
        )
        .from("ESX 4 and later; ESX 3 (policies.md 10.6)"),
        Knob::time(
            "threshold",
            Nanos::ms(3),
            (Nanos::us(100), Nanos::s(1000)),
            "the lead at which a vCPU stops, or with version 3 the skew at which its VM does",
        )
        .from("assumed: not published (policies.md 10.6)"),
        Knob::time(
            "resume",
            Nanos::ms(2),
            (Nanos::ZERO, Nanos::s(1000)),
            "the lead at which a stopped vCPU goes on; at most nine tenths of the threshold count",
        )
        .from("assumed: not published (policies.md 10.6)"),
        QUANTUM,
        MARGIN,
    ],
    build,
    ..SHARED
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let rule = if knobs.word("version") == "4" { Rule::Leader } else { Rule::Lagging };
    let threshold = knobs.time("threshold");
    // Were they equal, a leader would stop and go on again and again at one moment.
    let resume = knobs.time("resume").min(threshold.scale(9, 10));
    Ok(Skewed::build(host, knobs, rule, threshold, resume))
}
