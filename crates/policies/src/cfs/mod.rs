//! CFS, the fair class of Linux v5.13: CPU time by weight, in rounds of a few milliseconds; tasks that have slept run
//! first.
//!
//! Every task has a clock, its *vruntime*, that advances while the task runs, the more slowly the heavier the task is.
//! On every CPU, the task with the least vruntime runs next. So all clocks stay close together, and CPU time is shared
//! by weight.
//!
//! ```text
//! one CPU, tick 1ms, round 6ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! baaaaabbaaaaabbaaaaabaaaaabbaaaaabbaaaaabaaaaabbaaaaabb
//! ```
//!
//! 1. *Charge*: `vruntime += ran · 1024 / weight`. `min_vruntime` of a queue follows its least vruntime, never
//!    backwards.
//! 2. *Time slice*: a round of 6 ms for up to 8 tasks, else 0.75 ms each, is divided by weight, at least 0.75 ms. These
//!    times, and the 1 ms of rule 7, are multiplied by 1 + ⌊log2 of min(CPUs, 8)⌋.
//! 3. *Fork*: a child starts at its parent's vruntime, or a time slice after `min_vruntime` if that is later.
//! 4. *Wake*: however long a task slept, its vruntime is at most half a round before `min_vruntime`.
//! 5. *Sleep, migrate*: a sleep keeps the vruntime; a migration keeps its distance from `min_vruntime`.
//! 6. *Tick*: a task is preempted when it has run for more than its time slice. It is also preempted when it has run
//!    for 0.75 ms and is a time slice ahead of the first waiting task. Time slices end at ticks only.
//! 7. *Wake-up preemption*: a woken task preempts a running task whose vruntime is later by more than 1 ms on the woken
//!    task's clock. SCHED_BATCH and SCHED_IDLE tasks never preempt; a SCHED_IDLE task is preempted by all others.
//! 8. *Pick*: the task with the least vruntime runs. A buddy runs first if that is no more unfair than rule 7 allows.
//!    The next buddy is a task that preempted, that another task yielded to, or that is left alone in the time slice of
//!    its group. After it comes the last buddy, a task that was preempted in a long queue. The skip buddy, a task that
//!    yielded, lets the second task run.
//! 9. *Yield*: sets the skip buddy of rule 8. *Yield to*: the target becomes the next buddy, and the caller yields.
//! 10. *Weight*: changes at once; the vruntime is kept.
//!
//! *Groups* nest. A group has a queue per CPU. Its entity on a CPU waits in the queue above like a task, with the
//! weight `group's · runnable here / runnable everywhere`. *Quotas* throttle a group on every CPU once it has used its
//! time of a quota period. A woken task goes to an idle CPU near its waker or near its last CPU. Idle CPUs pull tasks,
//! and busy ones balance loads. All this belongs to the fair class, and `eevdf` has the same. The class may share its
//! CPUs with a more urgent and a less urgent class.
//!
//! *Parameters*: the weight sets the share, exact within a few time slices. But clocks lose fractions of nanoseconds,
//! as the kernel's do, so over hours heavy tasks gain a little. `exact-clock` removes this loss.
//!
//! *Versions*: v3.17 sizes a round by the tasks of one queue, and has no minimum time slice. It compares a woken task's
//! load with the load of the waker's CPU whether that CPU idles or not, and an even balance moves the task there. It
//! accepts as idle only a fully idle core or a thread of the same core. It tolerates a quarter more load.
//!
//! Buddies are as in the kernel. A task that preempts becomes the next buddy; so does a group if one of its tasks
//! blocks while others are left in it. The bound of rule 8 is scaled by the weight of the first task, not of the
//! candidate. Differences from the kernel: loads are the weights that are runnable now, not decayed averages. All CPUs
//! of a cache are searched for an idle one. An idle CPU called by another CPU's tick looks for work at once. Running
//! tasks are not migrated. Real-time classes, where this policy is asked to run them, count as SCHED_OTHER;
//! reservations are ignored.
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

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cfs",
    title: "Linux's fair class before EEVDF: least weighted CPU time first",
    source: "Linux v5.13 and v3.17, kernel/sched/fair.c",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks of unknown behaviour",
    bad_at: "timing guarantees: how soon a task runs depends on the number of other tasks and on when they slept",
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

/// Returns the CFS policy itself, for policies built over it.
pub(crate) fn new(host: &Topology, knobs: &Knobs) -> Fair<LeastVruntime> {
    let (tunables, times) = Times::new(host, knobs);
    Fair::new(host, tunables, LeastVruntime(times))
}
