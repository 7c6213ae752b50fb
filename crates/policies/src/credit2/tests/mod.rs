//! Tests of Credit2 against the rules and the order of steps of Xen's credit2.c, in virtual time.

mod caps;
mod knobs;
mod queues;
mod rules;

use super::POLICY;
use crate::fixture::{
    CPU, OTHER, assert_shares, at_us as at, capped, cpu_of, group, hog, host_under, interrupt, living_on, member,
    pinned, run_through_us as run_through, running, scripted, shows, used, weighing,
};
use sched::{CpuId, CpuSet, EntityId, GroupId, GroupParams, Knobs, LoadBounds, Nanos, Params, State, Weight};
use sim::{Driver, Workload};

fn host_of<'a>(shape: sched::Topology, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, shape, knobs)
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_of(sched::Topology::new(cpus), &[])
}

/// Returns the number of the CPU on which `e` runs.
fn place(host: &Driver<'_>, e: EntityId) -> usize {
    cpu_of(host, e).expect("it runs")
}

/// Returns the credit of `e` in microseconds, as of its last charge.
fn credit(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "credit") / 1_000
}

/// Returns the runs on CPU 0 up to `us`, each with its beginning in microseconds and its entity. Consecutive runs of an
/// entity count as one.
fn turns(host: &mut Driver<'_>, us: u64) -> Vec<(u64, EntityId)> {
    let mut turns: Vec<(u64, EntityId)> = Vec::new();
    let mut now = host.now().as_ns() / 1_000;
    while now < us {
        run_through(host, now);
        let e = running(host, CPU).expect("an entity always runs");
        if turns.last().is_none_or(|&(_, last)| last != e) {
            turns.push((now, e));
        }
        now += 50;
    }
    turns
}

/// Returns load bounds for hogs of normal weight, without groups.
fn load<'a>(host: &'a sched::Topology, knobs: &'a Knobs, entities: u64) -> LoadBounds<'a> {
    LoadBounds::of_hogs(host, knobs, entities)
}
