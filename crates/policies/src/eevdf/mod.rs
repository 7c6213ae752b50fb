//! EEVDF, the fair class of Linux since v6.6: of those who are owed CPU time, whoever's turn is due first runs.
//!
//! Everybody is due a share of the CPU by weight, and asks for it in turns of some length. Who has had less than its share
//! is owed time and may run; who has had more waits until the others have caught up. Whoever asks for short turns gets them
//! sooner, but no more of them than its weight is worth.
//!
//! ```text
//! one CPU, tick 1ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! abaaabaaabaaabaaabaaabaaabaaabaaabaaabaaabaaabaaab
//!
//! the same: a and b ask for turns of 6 ms, c for turns of 1 ms, and has as much to do every 6 ms
//! 0         10        20        30        40        50
//! caaabbbcaaaacbbbbbcaabaacbbbbbcaaaabcaaaaacbbbbbca
//! ```
//!
//! 1. *Clock*: every task's vruntime goes on by `ran · 1024 / weight`, to the last fraction of a nanosecond.
//! 2. *Lag*: V is the average vruntime of all in a queue, by weight. How far a task is behind it is its lag: what it is
//!    owed. What some are owed, the others have had too much.
//! 3. *Eligible* is who is not ahead of V. Somebody always is.
//! 4. *Pick*: of the eligible, the one whose virtual deadline is earliest; of equals, who was queued first.
//! 5. *Deadline*: a turn of `slice` ends when the vruntime has gone on by `slice · 1024 / weight`. Then the next one
//!    begins, and the CPU picks again, as soon as anybody looks: at a tick, or when somebody wakes. The slice is 0.75
//!    ms, times 1 + ⌊log2 of min(CPUs, 8)⌋, unless a task asks for another of 0.1 to 100 ms. A new task's first turn is
//!    half as long.
//! 6. *Peace*: who has been picked goes on to its deadline, as long as it is eligible when somebody else might be picked.
//! 7. *Wake-up*: a wakee preempts if it would be picked; if it asks for a shorter slice and its deadline is earlier,
//!    rule 6 does not protect the other. SCHED_BATCH and SCHED_IDLE never preempt; SCHED_IDLE gives way to all others.
//! 8. *Yield*: the deadline is put off by a slice, and peace is over.
//! 9. *Sleep*: who is owed time when it falls asleep is still owed it when it wakes, two slices at most. Who owes time
//!    stays in the queue, asleep, until it would be picked or it wakes: so it pays while others run. What it is owed by
//!    then is forgotten; but who wakes is judged by what the last tick or change of turn has seen.
//! 10. *Join*: who wakes, or comes from another CPU, is placed so that it lags V as much as it did when it left, once
//!     it counts in V itself. New tasks are owed nothing. On the way between CPUs, what is left of a turn is kept.
//! 11. *Weight*: what is owed, in CPU time, stays the same.
//!
//! *Groups*, *quotas*, the choice of a CPU and moving work are as in `cfs`: both are the fair class, with another order of
//! the queues. A group's part asks for the shortest slice that anybody in it asks for, and may stay asleep like a task.
//!
//! *Parameters*: the weight is the share; `latency` is the slice asked for. A task that needs little, but soon, asks
//! for a short one; one that would rather not be interrupted, for a long one. Ticks are coarser than most slices: a
//! turn ends at a tick, so with 4 ms between ticks nobody's turn is shorter. Who uses up its share waits for the
//! others' turns, up to a tick each, however short its slice is.
//!
//! *Versions*: v6.6 has no slices that are asked for, no peace-breaking and no sleeping in the queue: who sleeps in debt
//! takes the debt along. v6.17 has a base slice of 0.7 ms, grants peace for no longer than the shortest slice of the queue,
//! and lets whoever was yielded to go next if it is eligible. v6.12 is the default.
//!
//! Differences from the kernel: those of the fair class; clocks are exact; V is counted without rounding where
//! eligibility is decided; a CPU ticks only where a tick can matter; who gives way to others because it is SCHED_IDLE,
//! or yields, loses its peace in every version; a quota's throttling stops a whole part at once, as before v6.18.
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
    title: "Linux's fair class since v6.6: of those who are owed time, the earliest deadline first",
    source: "Linux v6.6, v6.12 and v6.17, kernel/sched/fair.c; Stoica and Abdel-Wahab 1995",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks some of which want short turns soon",
    bad_at: "waking up on time whoever uses up its share: it waits for the others' ticks like everybody else",
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
