//! EEVDF, the fair class of Linux since v6.6: among the tasks that are owed CPU time, the task with the earliest
//! virtual deadline runs.
//!
//! Each task is entitled to a share of the CPU by weight, and may request the length of its time slices. A task that
//! has received less than its share is owed CPU time and may run. A task that has received more waits until it is
//! eligible again. A task that requests short time slices receives them sooner, but receives no more CPU time in total.
//!
//! ```text
//! one CPU, tick 1ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! abaaabaaabaaabaaabaaabaaabaaabaaabaaabaaabaaabaaab
//!
//! the same; a and b request time slices of 6 ms, c of 1 ms; c needs 1 ms in every 6 ms
//! 0         10        20        30        40        50
//! caaabbbcaaaacbbbbbcaabaacbbbbbcaaaabcaaaaacbbbbbca
//! ```
//!
//! 1. *Clock*: the vruntime of a task advances by `ran · 1024 / weight`. Fractions of a nanosecond are carried over.
//! 2. *Lag*: V is the weighted average vruntime of all tasks in a queue. The lag of a task is its distance behind V:
//!    the time that is owed to the task. Multiplied by the weights, the lags of a queue sum to zero.
//! 3. *Eligibility*: a task that is not ahead of V is eligible. At least one task is always eligible.
//! 4. *Pick*: the eligible task with the earliest virtual deadline runs. If deadlines are equal, the task that was
//!    queued first runs.
//! 5. *Deadline*: a time slice of `slice` ends when the vruntime has advanced by `slice · 1024 / weight`. Then the next
//!    time slice begins, and the CPU picks again at the next tick or wake-up. The default time slice is 0.75 ms, times
//!    1 + ⌊log2 of min(CPUs, 8)⌋. A task may request 0.1 to 100 ms. The first time slice of a forked task is half as
//!    long.
//! 6. *Run to parity*: a picked task is protected until its deadline, while it is eligible. Eligibility is tested when
//!    another task might be picked.
//! 7. *Wake-up*: a woken task preempts if it would be picked. Rule 6 does not protect the running task from a woken
//!    task with a shorter time slice and an earlier deadline. SCHED_BATCH and SCHED_IDLE tasks do not preempt, with one
//!    exception: a SCHED_IDLE task is preempted by tasks of any other class.
//! 8. *Yield*: the deadline is postponed by a time slice, and the protection ends.
//! 9. *Sleep*: a task that is owed time when it blocks is still owed this time when it wakes. The limit is two time
//!    slices or a tick, whichever is longer. A task that blocks with a debt stays in the queue until it would be picked
//!    or wakes. Its debt shrinks while other tasks run. If the task is owed time by then, its lag is set to zero. A
//!    wake-up during this stay uses the vruntimes as of the last charge, for example at a tick.
//! 10. *Join*: a task that wakes or migrates keeps the lag with which it left. This lag is relative to the V that
//!     includes the weight of the task itself. A new task has no lag. A migration keeps the remainder of a time slice.
//! 11. *Weight*: a change of weight keeps the lag in CPU time.
//!
//! *Groups*, *quotas*, the choice of a CPU and load balancing are as in `cfs`. Both policies are the fair class; they
//! differ in the order of the queues. A group entity requests the shortest time slice that is requested in the group,
//! and may stay queued while blocked, like a task.
//!
//! *Parameters*: the weight sets the share; `latency` is the requested time slice. A task that needs little CPU time,
//! but soon, should request a short time slice. A task that suffers from preemption should request a long time slice.
//! Ticks are often coarser than time slices. Without wake-ups, time slices end at ticks only: with 4 ms between ticks,
//! competing hogs run for multiples of 4 ms. A task that uses up its share waits for the time slices of the other
//! tasks, each extended to the next tick. A request for a short time slice does not change this wait.
//!
//! *Versions*: v6.6 has no requested time slices, no preemption of a protected task and no delayed dequeue. In v6.6, a
//! task that blocks in debt keeps the debt. A migration begins a new time slice, and a group entity requests the
//! default time slice. Version v6.17 has a base slice of 0.7 ms and protects a task for at most the shortest time slice
//! of the queue. In v6.17, the target of a directed yield is also picked next if it is eligible. The default is v6.12.
//!
//! Differences from the kernel: the differences of the fair class (see `cfs`) also apply here. Clocks are exact, and V
//! is computed without rounding where eligibility is decided. A CPU ticks only while a tick can have an effect. A
//! SCHED_IDLE task that is preempted, or a task that yields, loses its protection in every version. Throttling stops a
//! whole group entity at once, as before v6.18.
//!
//! Source: torvalds/linux kernel/sched/fair.c and features.h, v6.6, v6.12 and v6.17; Stoica and Abdel-Wahab, "Earliest
//! Eligible Virtual Deadline First", 1995.

mod bounds;
mod deadline;
#[cfg(test)]
mod tests;
mod tunables;

use crate::fair::{self, Fair};
use deadline::EarliestDeadline;
use sched::{Descriptor, Guarantees, Knobs, Policy, Refused, Topology};
use tunables::Requests;

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "eevdf",
    title: "Linux's fair class since v6.6: among tasks that are owed time, the earliest virtual deadline first",
    source: "Linux v6.6, v6.12 and v6.17, kernel/sched/fair.c; Stoica and Abdel-Wahab 1995",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks with different latency requirements",
    bad_at: "the wake-up latency of a task that uses up its share: the task waits for the ticks of the other tasks",
    text: include_str!("mod.rs"),
    conserving: fair::conserving,
    starvation: bounds::starvation,
    guarantees: Guarantees { shares: bounds::shares, quota: fair::quota, ..Guarantees::NOTHING },
    alarms: fair::ALARMS,
    knobs: &tunables::KNOBS,
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let (tunables, requests) = Requests::new(host, knobs);
    Ok(Box::new(Fair::new(host, tunables, EarliestDeadline(requests))))
}
