//! Linux: the stop class, SCHED_DEADLINE, the real-time classes and a fair class, the most urgent first.
//!
//! This policy schedules like an ordinary Linux host or guest. A task is in one class at a time, and its parameters
//! determine the class. On every CPU, a class picks only if no more urgent class has a task to run there. A task of a
//! more urgent class preempts at once.
//!
//! ```text
//! one CPU, f and g fair, r FIFO every 10 ms for 4 ms
//! 0         10        20        30        40
//! rrrrggggffrrrrggggffrrrrffffggrrrrggggff
//! ```
//!
//! | class | tasks | rules |
//! |---|---|---|
//! | stop | class `stop` | runs before all other tasks, until it blocks |
//! | deadline | normal tasks with a reservation | `deadline`; a soft reservation reclaims unused bandwidth |
//! | real-time | `fifo`, `rr` | `rt` |
//! | fair, idle | all other tasks | `cfs`, `eevdf` or another policy, selected by the knob `fair` |
//!
//! Only these rules connect the classes:
//!
//! - A task that changes class leaves the old class as if it blocked, and enters the new class as if it woke. A running
//!   task that enters a class above the fair class continues to run. A running task that enters the fair class stops
//!   until it is picked. The deadline class may refuse a task. A task that leaves the deadline class keeps its
//!   bandwidth up to its 0-lag time. A task that returns to a fair class of the kernel has the same lag or lead as when
//!   it left (`switched_from_fair`).
//! - By default, as in the kernel, the fair class does not charge a task for the time for which it ran in another
//!   class. A returning task stays on its last CPU. With `boosts-pay`, the task and its groups are charged for that
//!   time when the task returns to `cfs`, `eevdf` or `balance`. A boost is then a loan of CPU time, not a gift. The
//!   task also returns to the CPU in whose queue it was. Migrations in the classes above therefore do not change the
//!   CPU on which a fair task is queued.
//! - Groups, weights and quotas apply only to the fair class; tasks of other classes do not count towards them.
//! - `yield_to` works only within the fair class.
//! - By default, real-time throttling leaves the fair class at least 50 ms per second on each CPU. The run time of
//!   deadline tasks on the CPU counts as real-time run time.
//! - With `fair-server` each CPU has a server instead: a reservation of 50 ms in every second on behalf of all fair
//!   tasks. Admission control counts this reservation. The server is deferred until the last instant at which the rest
//!   of its 50 ms fits before its deadline. The server stays inactive if fair tasks have received 50 ms by then.
//!   Otherwise the server competes with deadline tasks, by its own deadline, and runs fair tasks. The server is
//!   deferred again once fair tasks run outside the server after its 50 ms are used up, or once no fair task waits.
//!   Unlike throttling, the server holds no real-time task and leaves no CPU idle.
//!
//! **Kernel versions.** The defaults are the values of v5.13, with ticks of 1 ms. `rt-runtime-share = on` is the
//! behaviour before v5.10. A 6.12 kernel corresponds to `fair = eevdf`, `fair-server = on`, `reclaim = v6.5`. A knob of
//! `eevdf` that has the same name as a different knob of `cfs` has the prefix `eevdf-` here.
//!
//! The guarantees of `deadline` on one CPU hold here with `hrtick = on`, `admission = density`, `asleep = lapse` and no
//! stop task. The kernel's values, and the defaults here, are `off`, `bandwidth` and `renew`. The kernel's
//! `whole-machine = on` is not the default here, so that VMs can be pinned.
//!
//! **Other fair classes.** `fair` accepts every policy that shares CPUs among all entities: `cfs`, `eevdf`, `balance`,
//! `bfs`, `muqss`, `bmq`, `pds`, `credit`, `credit2` and `round-robin`. Knobs that a class shares with `cfs` or `eevdf`
//! can be set here; its other knobs have their defaults. The last seven classes have no rules for more urgent classes.
//! For example, under one of these classes an idle CPU does not pull a task that waits behind a real-time task on
//! another CPU.
//!
//! `fair` does not accept policies that keep each entity on one CPU (`bvt`, `sedf`). Policies with reservations or
//! gangs of their own (`edf`, `rtds`, `poris` …) and variants of `credit` for VMs are not accepted either.
//!
//! Differences from the kernel: a fair server serves all fair tasks that could run on its CPU, not only the tasks
//! queued there. Its share is never reclaimed by other entities. The essays of the classes list their own differences.
//!
//! Source: torvalds/linux kernel/sched/core.c, stop_task.c, deadline.c, rt.c, v5.13; dl_server of deadline.c, v6.12;
//! sched(7).

mod knobs;
#[cfg(test)]
mod tests;

use crate::classes::{Bases, Below, Classes, FairServers, Parts, Stop};
use crate::deadline::Deadline;
use crate::rt::{self, Rt};
use sched::{CapBound, Conserving, Descriptor, Guarantees, Knobs, LoadBounds, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "linux",
    title: "stop, SCHED_DEADLINE, SCHED_FIFO and SCHED_RR over a fair class, as in Linux",
    source: "Linux v5.13 and v6.12, kernel/sched/{core,stop_task,deadline,rt,fair}.c; sched(7)",
    good_for: "the behaviour of an ordinary Linux host or guest, including reservations and real-time tasks",
    bad_at: "guarantees for several tasks that all have real-time priorities",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    // A task outside the fair class has no quota. With the kernel's defaults no reservation is guaranteed exactly: see
    // `deadline`.
    guarantees: Guarantees { shares, quota, cap, ..Guarantees::NOTHING },
    alarms: knobs::ALARMS,
    knobs: &knobs::ALL,
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let promise = FairServers::promise(knobs);
    let (fair, own) = knobs::fair(knobs);
    let parts = Parts {
        stop: Some(Stop::new(host)),
        deadline: Some(Deadline::new(host, knobs, promise.as_ref())),
        rt: Some(Rt::new(host, knobs, promise.is_none())),
        servers: promise.map(|promise| FairServers::new(host.cpus, &promise, grain(knobs))),
        below: Below::Fair((fair.build)(host, &own)?),
        boosts_pay: knobs.on("boosts-pay"),
        bases: knobs::BASES,
    };
    Ok(Box::new(Classes::new(host, parts)))
}

/// Returns the granularity at which the time slices of servers end. With `hrtick`, a time slice ends when the budget is
/// used up, otherwise at the next tick.
fn grain(knobs: &Knobs) -> Nanos {
    if knobs.on("hrtick") { Nanos::ZERO } else { knobs.time("tick") }
}

/// Returns the answer of the fair class to `question`. Every entity above the fair class counts as real-time.
fn ask_fair<T>(load: &LoadBounds<'_>, question: fn(&Descriptor, &LoadBounds<'_>) -> T) -> T {
    let (fair, knobs) = knobs::fair(load.knobs);
    question(fair, &LoadBounds { knobs: &knobs, has_rt: has_above(load), ..*load })
}

/// Returns whether an entity may be in a class above the fair class.
fn has_above(load: &LoadBounds<'_>) -> bool {
    load.has_rt || load.has_reservations
}

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if has_above(load) && !knobs::pulls_from_behind(knobs::fair(load.knobs).0) {
        return Conserving::Never;
    }
    let below = ask_fair(load, |fair, load| (fair.conserving)(load));
    if load.knobs.on("fair-server") { below } else { rt::throttled(load, below) }
}

/// Returns the bound of the fair class if all tasks are fair. Otherwise there is no bound, because priorities and
/// deadlines are strict.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if has_above(load) { None } else { ask_fair(load, |fair, load| (fair.starvation)(load)) }
}

fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    if has_above(load) { None } else { ask_fair(load, |fair, load| (fair.guarantees.shares)(load)) }
}

fn quota(load: &LoadBounds<'_>) -> Option<Nanos> {
    if has_above(load) { None } else { ask_fair(load, |fair, load| (fair.guarantees.quota)(load)) }
}

fn cap(load: &LoadBounds<'_>) -> Option<CapBound> {
    if has_above(load) { None } else { ask_fair(load, |fair, load| (fair.guarantees.cap)(load)) }
}
