//! CFS, the fair class of Linux v5.13: CPU time by weight, in rounds of a few milliseconds; tasks that have slept run
//! first.
//!
//! Every task has a clock, its *vruntime*, that advances while the task runs. The clock of a heavier task advances more
//! slowly. On every CPU, the task with the least vruntime runs next. All clocks therefore stay close together, and CPU
//! time is shared by weight.
//!
//! ```text
//! one CPU, tick 1ms, round 6ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! baaaaabbaaaaabbaaaaabaaaaabbaaaaabbaaaaabaaaaabbaaaaabb
//! ```
//!
//! 1. *Charge*: `vruntime += ran · 1024 / weight`. `min_vruntime` of a queue follows its least vruntime, and never
//!    decreases.
//! 2. *Time slice*: a round lasts 6 ms for up to 8 tasks, else 0.75 ms per task. The round is divided by weight; a time
//!    slice is at least 0.75 ms. These times, the 3 ms of rule 4 and the 1 ms of rule 7 are multiplied by 1 + ⌊log2 of
//!    min(CPUs, 8)⌋.
//! 3. *Fork*: a child starts at its parent's vruntime, or a time slice after `min_vruntime`, whichever is later.
//! 4. *Wake*: after a sleep of any length, the vruntime of a task is at most 3 ms before `min_vruntime`.
//! 5. *Sleep, migrate*: a sleep keeps the vruntime; a migration keeps the distance of the vruntime from `min_vruntime`.
//! 6. *Tick*: a task is preempted when it has run for more than its time slice. After a run of 0.75 ms, a task is also
//!    preempted when its vruntime leads the first waiting task's by more than a time slice. Time slices end at ticks
//!    only.
//! 7. *Wake-up preemption*: a woken task preempts a running task whose vruntime is later by more than 1 ms on the woken
//!    task's clock. SCHED_BATCH and SCHED_IDLE tasks do not preempt, with one exception: a SCHED_IDLE task is preempted
//!    by tasks of any other class.
//! 8. *Pick*: the task with the least vruntime runs. A buddy runs instead if its vruntime is not later by more than
//!    rule 7 allows. The next buddy has precedence. It is a task that preempted, the target of a directed yield, or a
//!    group. A group becomes the next buddy when one of its tasks blocks while others are runnable. The last buddy
//!    follows: a task that was preempted in a queue of at least 8 nodes. If the task with the least vruntime is the
//!    skip buddy, a task that yielded, the second task runs within the same limit.
//! 9. *Yield*: the caller becomes the skip buddy of rule 8. *Yield to*: the target becomes the next buddy, and the
//!    caller yields.
//! 10. *Weight*: a change of weight takes effect at once and keeps the vruntime.
//!
//! *Groups* nest. A group has a queue per CPU. On each CPU, an entity of the group waits in the parent's queue like a
//! task. The weight of this entity is the group's weight, multiplied by the part of the group's runnable weight that is
//! on this CPU. *Quotas* throttle a group on every CPU once the group has used its quota of a quota period.
//!
//! *Placement*: a woken task is placed on an idle CPU near its waker or near its last CPU, if there is one. Idle CPUs
//! pull tasks, and busy CPUs balance loads. Groups, quotas and placement belong to the fair class, and are the same in
//! `eevdf`. The class may share its CPUs with a more urgent and a less urgent class.
//!
//! *Balancing*: at intervals, a busy CPU compares its decayed averages of load and utilisation with those of other
//! CPUs. The averages of a task move with it. A busy CPU pulls only from an overloaded CPU, and only if its own average
//! utilisation is above 85 %. A CPU that has lost a task therefore pulls no task for about 60 ms. A task that is heavier
//! than half the difference of the loads, or cache-hot, moves after failed balances. CPUs race at a tick: most balances
//! follow the switches of other CPUs at that tick, 1 in 11 precedes them, and 1 in 31 is a tick late, as measured on
//! Linux 6.18. Which balances these are is pseudorandom, but the same in every run.
//!
//! *Parameters*: the weight sets the share, which is exact to within a few time slices. But clocks lose fractions of
//! nanoseconds, as in the kernel, so heavy tasks gain a little over hours. `exact-clock` removes this loss.
//!
//! *Versions*: v3.17 computes the length of a round from the tasks of one queue, and has no minimum time slice.
//! Placement compares the load of the woken task's last CPU with the load of the waker's CPU, even if one of them
//! idles. If the loads are equal, the task moves to the waker's CPU. Near the chosen CPU, placement accepts only a CPU
//! of a fully idle core, or an idle thread of the chosen CPU's core. Load balancing tolerates an imbalance of 25 %, and
//! compares the weights that are runnable now.
//!
//! Buddies are as in the kernel: the limit of rule 8 is scaled by the weight of the first task, not of the candidate.
//!
//! Differences from the kernel: at a wake-up and a fork, and in v3.17, the load of a CPU is the sum of the weights that
//! are runnable now, not a decayed average. All CPUs of a cache are searched for an idle CPU. An idle CPU that is kicked
//! by another CPU's tick searches for work at once. Load balancing migrates no running task, and ignores capacities and
//! estimated utilisations. Entities of real-time classes count as SCHED_OTHER if this policy runs them; reservations
//! are ignored.
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
    bad_at: "timing guarantees: the latency of a task depends on the number and the sleeps of the other tasks",
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

/// Returns the CFS policy, for policies built over CFS.
pub(crate) fn new(host: &Topology, knobs: &Knobs) -> Fair<LeastVruntime> {
    let (tunables, times) = Times::new(host, knobs);
    Fair::new(host, tunables, LeastVruntime(times))
}
