//! Linux: the stop class over SCHED_DEADLINE over the real-time classes over a fair one.
//!
//! What an ordinary Linux host or guest does. A task is in one class at a time, by what is asked for it. On every CPU
//! the most urgent class is asked first who runs; the next gets what that leaves, and a task of a more urgent class
//! preempts at once.
//!
//! ```text
//! one CPU, f and g fair, r FIFO every 10 ms for 4 ms
//! 0         10        20        30        40
//! rrrrggggffrrrrggggffrrrrffffggrrrrggggff
//! ```
//!
//! | class | who | rules |
//! |---|---|---|
//! | stop | class `stop` | before everything, until it blocks |
//! | deadline | who has a reservation, and no other class than the normal one | `deadline`; a soft one reclaims |
//! | real-time | `fifo`, `rr` | `rt` |
//! | fair, idle | all others | `cfs`, `eevdf` or another policy, by the knob `fair` |
//!
//! Between the classes there is only this:
//!
//! - Whoever changes class leaves the old one as if it blocked, and enters the new one as if it woke. Who runs
//!   meanwhile goes on at once in a class above the fair one; in that, it has to be picked. Who comes to the deadline
//!   class may be refused; who leaves it keeps its bandwidth up to its 0-lag time.
//!   Who comes back to the fair class of the kernel is as far behind or ahead there as when it left (`switched_from_fair`).
//! - What it ran meanwhile is free in the kernel, and it stays on the CPU where it did. With `boosts-pay` it is charged for
//!   that when it comes back to `cfs`, `eevdf` or `balance`, and so are its groups, and it goes to the CPU on whose queue it
//!   was: a boost lends CPU time and gives none, and who waits where is not changed by those who are pushed about above.
//! - Groups, weights and quotas are the fair class's; others do not count in them.
//! - `yield_to` works within the fair class.
//! - Real-time throttling leaves the fair class at least 50 ms of every second of a CPU. What deadline tasks run on it
//!   counts as used by real-time ones.
//! - With `fair-server` there is a server for each CPU instead: a reservation of 50 ms in every second on behalf of all
//!   fair tasks, which is part of what admission counts. It waits until the last moment at which 50 ms still fit before
//!   its deadline, and does nothing if fair tasks have had that much by then; else it runs them at its deadline, and
//!   goes on so until they come to run by themselves. Nobody real-time is held, and no CPU idles meanwhile.
//!
//! **Which kernel.** The defaults are those of v5.13, with ticks of 1 ms. `rt-runtime-share = on` goes back before
//! v5.10; a 6.12 kernel is `fair = eevdf`, `fair-server = on`, `reclaim = v6.5`. Where a knob of `eevdf` has the name
//! of another one of `cfs`, it begins with `eevdf-` here. What `deadline` promises on one CPU holds here with `hrtick =
//! on`, `admission = density`, `asleep = lapse` and nobody above; the kernel's, and the defaults here, are `off`,
//! `bandwidth` and `renew`. The kernel's `whole-machine = on` is not the default here, so that VMs can be pinned.
//!
//! **Other fair classes.** `fair` takes every policy here that shares CPUs among all it is given: besides `cfs`,
//! `eevdf` and `balance`, these are `bfs`, `muqss`, `bmq`, `pds`, `credit`, `credit2` and `round-robin`. Each has its
//! defaults, but for knobs it has in common with `cfs`. They know nothing of classes above: who waits there behind a
//! real-time task may go on waiting while another CPU idles, as those do not promise to look. Not taken are policies
//! that keep who they are given on one CPU (`bvt`, `sedf`), those that keep promises or gangs of their own (`edf`,
//! `rtds`, `poris` …), and variants of `credit` for VMs.
//!
//! Differences from the kernel: a fair server looks after all fair tasks that could run on its CPU, not those queued
//! there; its share is never reclaimed by others; and the differences that the essays of the classes name.
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
    good_for: "what an ordinary Linux host or guest does, reservations and real-time tasks included",
    bad_at: "keeping promises to several who all ask for real-time priorities",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    // Who is not fair has no quota. Of reservations the kernel's defaults keep less than they promise: see deadline.
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

/// Where the slices of servers end: when they are used up, or at the next tick after that.
fn grain(knobs: &Knobs) -> Nanos {
    if knobs.on("hrtick") { Nanos::ZERO } else { knobs.time("tick") }
}

/// What the fair class says of itself, to which everybody above is real-time.
fn ask_fair<T>(load: &LoadBounds<'_>, question: fn(&Descriptor, &LoadBounds<'_>) -> T) -> T {
    let (fair, knobs) = knobs::fair(load.knobs);
    question(fair, &LoadBounds { knobs: &knobs, has_rt: has_above(load), ..*load })
}

/// Whether anybody may be in a class above the fair one.
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

/// Priorities and deadlines are strict: only among fair tasks is there a bound.
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
