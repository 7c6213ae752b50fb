//! CFS, the fair class of Linux v5.13: CPU time by weight, in rounds of a few milliseconds; who has slept goes first.
//!
//! Every task has a clock, its *vruntime*, that runs while the task runs, the slower the heavier the task is. On every
//! CPU, whoever's clock shows least runs next. So all clocks stay together, and CPU time is shared by weight.
//!
//! ```text
//! one CPU, tick 1ms, round 6ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! baaaaabbaaaaabbaaaaabaaaaabbaaaaabbaaaaabaaaaabbaaaaabb
//! ```
//!
//! 1. *Charge*: `vruntime += ran · 1024 / weight`. `min_vruntime` of a queue follows its least vruntime, never back.
//! 2. *Slice*: a round of 6 ms for up to 8 tasks, else 0.75 ms each, is divided by weight, at least 0.75 ms. These times,
//!    and the 1 ms of rule 7, are multiplied by 1 + ⌊log2 of min(CPUs, 8)⌋.
//! 3. *Fork*: a child starts at its parent's vruntime, or a slice after `min_vruntime` if that is later.
//! 4. *Wake*: however long it slept, a wakee's vruntime is at most half a round before `min_vruntime`.
//! 5. *Sleep, migrate*: vruntime is kept; between queues, its distance from `min_vruntime` is.
//! 6. *Tick*: who has had more than its slice, or has had its 0.75 ms and is a slice ahead of the first who waits, is
//!    stopped. Slices end at ticks only.
//! 7. *Wake-up preemption*: a wakee preempts whoever's vruntime is later by more than 1 ms on the wakee's clock.
//!    SCHED_BATCH and SCHED_IDLE never do; SCHED_IDLE gives way to all others.
//! 8. *Pick*: the least vruntime; but a buddy comes first if that is no more unfair than rule 7 allows: whoever
//!    preempted, was yielded to or is left alone in its group's slice (next), then whoever was preempted in a crowd
//!    (last); and whoever yielded (skip) lets the second go.
//! 9. *Yield*: rule 8's skip. *Yield to*: the other is made next, and whoever yields to it yields.
//! 10. *Weight*: changes at once; vruntime is kept.
//!
//! *Groups* nest: a group has a queue per CPU, and its part on a CPU waits in the queue above like a task, with the
//! weight `group's · runnable here / runnable everywhere`. *Quotas* stop a group on every CPU once it has had its time
//! of a period. A wakee goes to an idle CPU near its waker or near where it was; idle CPUs look for work, and busy ones
//! compare loads. All this is the fair class's, and `eevdf` has the same. The class may share its CPUs with a more
//! urgent and a less urgent one.
//!
//! *Parameters*: the weight is the share, exact within a few slices; but clocks lose parts of nanoseconds, as the kernel's
//! do, so that over hours heavy tasks gain a little. `exact-clock` mends that.
//!
//! *Versions*: v3.17 sizes a round by the tasks of one queue, and knows no least slice. A wakee's load is weighed
//! against its waker's CPU whether that idles or not, an even balance draws it near, and only a core that idles wholly
//! will do, or a thread of its own core; a quarter more load is put up with.
//!
//! Buddies are as in the kernel: whoever preempts becomes the next buddy, and so does a group one of whose tasks falls
//! asleep while others are left in it; the bound of rule 8 is scaled by the weight of the first, not of the candidate.
//! Differences from the kernel: loads are weights that are runnable now, not decayed averages; all of a cache is
//! searched for an idle CPU; an idle CPU called by another's tick looks for work at once; running tasks are not moved;
//! real-time classes, where this policy is asked to run them, count as SCHED_OTHER; reservations are ignored.
//!
//! Source: torvalds/linux kernel/sched/fair.c, core.c and features.h, v5.13 and v3.17.

mod bounds;
mod clock;
#[cfg(test)]
mod tests;
mod tunables;

use crate::fair::{self, Fair};
pub(crate) use clock::LeastVruntime;
use sched::{Descriptor, Guarantees, Knobs, Policy, Refused, Topology};
use tunables::Times;

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cfs",
    title: "Linux's fair class before EEVDF: least weighted CPU time first",
    source: "Linux v5.13 and v3.17, kernel/sched/fair.c",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks nobody has described",
    bad_at: "promises in time: how soon a task runs depends on how many others there are and when they slept",
    text: include_str!("mod.rs"),
    conserving: fair::conserving,
    starvation: bounds::starvation,
    guarantees: Guarantees { shares: bounds::shares, quota: fair::quota, ..Guarantees::NOTHING },
    alarms: fair::ALARMS,
    knobs: &tunables::KNOBS,
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(new(host, knobs)))
}

/// CFS itself, for policies over it.
pub(crate) fn new(host: &Topology, knobs: &Knobs) -> Fair<LeastVruntime> {
    let (tunables, times) = Times::new(host, knobs);
    Fair::new(host, tunables, LeastVruntime(times))
}
