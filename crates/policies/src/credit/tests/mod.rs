//! Tests of Credit against the rules of sched_credit.c, Xen 4.0.1, with worked examples, in virtual time.

mod accounting;
mod caps;
mod churn;
mod placement;
mod priorities;
mod stealing;
mod versions;

use super::POLICY;
use crate::fixture::{
    CPU, OTHER, assert_shares, at_ms as at, capped, group, hog, host_under, host_with, interrupt, knobs, living_on,
    member, pinned, run_through_ms as run_through, run_through_us, running, scripted, shows, used, weighing,
};
use sched::{CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Nanos, Params, State, Wake, Weight};
use sim::{Costs, Driver, Workload};

const BOOST: i64 = 0;
const UNDER: i64 = -1;
const OVER: i64 = -2;

fn host_of<'a>(shape: sched::Topology, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, shape, knobs)
}

/// Returns a host with topology `shape`. `words` sets choice knobs, and `values` sets other knobs.
fn worded<'a>(shape: sched::Topology, words: &[(&str, &str)], values: &[(&str, i64)]) -> Driver<'a> {
    host_with(&POLICY, shape, &knobs(&POLICY, words, values))
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_of(sched::Topology::new(cpus), &[])
}

fn credit(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "credit")
}

fn priority(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "priority")
}
