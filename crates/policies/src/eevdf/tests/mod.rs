//! Tests of the rules of the essay, each on the simulated host.

mod changes;
mod knobs;
mod rules;
mod sleep;

use super::POLICY;
use crate::fair::world::*;
use sched::{Class, CpuId, EntityId, GroupId, Instant, Nanos, Params, Topology, Wake};
use sim::Costs;

/// Returns a host of one CPU with these knobs.
fn one(knobs: &[(&str, i64)]) -> World {
    World::under(&POLICY, Topology::new(1), knobs, Costs::NONE)
}

fn several(cpus: usize, knobs: &[(&str, i64)]) -> World {
    World::under(&POLICY, Topology::new(cpus), knobs, Costs::NONE)
}

const V6_6: (&str, i64) = ("version", 1);
const V6_17: (&str, i64) = ("version", 2);

const fn us(n: i64) -> i64 {
    n * 1_000
}

/// Returns parameters that request a slice.
fn asking(slice: Nanos, params: Params) -> Params {
    Params { latency: Some(slice), ..params }
}

/// Returns the virtual time from the clock of `e` to its deadline.
fn left(world: &World, e: EntityId) -> i64 {
    world.inspect(e, "deadline") - world.vruntime(e)
}

fn lag(world: &World, e: EntityId) -> i64 {
    world.inspect(e, "lag")
}

fn block(world: &mut World) {
    world.host.block(CpuId::new(0));
    world.settle();
}

/// Advances time until `e` runs on CPU 0; if `runs` is false, until `e` does not run there.
fn until_running(world: &mut World, e: EntityId, runs: bool) {
    while (world.running(0) == Some(e)) != runs {
        world.host.run_until(world.host.now() + Nanos::us(10));
    }
}

/// Returns the lengths of the runs of `e` so far.
fn turns(world: &World, e: EntityId) -> Vec<Nanos> {
    let record = world.record.borrow();
    record.turns.iter().filter(|turn| turn.entity == e).map(|turn| turn.to.since(turn.from)).collect()
}

/// Wakes `a` and runs it for `ran` beside a new hog with `params`, which are equal to those of `a`.
fn run_ahead(world: &mut World, a: EntityId, ran: Nanos, params: Params) -> EntityId {
    world.wake(a);
    world.settle();
    let hog = world.hog(params);
    world.host.run_until(world.host.now() + ran);
    assert_eq!(world.running(0), Some(a));
    hog
}
