//! Tests of the real-time classes without other classes.

mod churn;
mod lists;
mod throttling;

use super::POLICY;
use crate::fixture::{
    CPU, OTHER, at_ms as at, fifo, hog, host_under, interrupt as wake, pinned_to as pinned, round_robin,
    run_through_ms as run_through, running, scripted, used,
};
use sched::{CpuId, EntityId, Instant, Nanos, Params, State, Wake};
use sim::Driver;

fn host_with<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, sched::Topology::new(cpus), knobs)
}

/// Returns a host without throttling.
fn host<'a>(cpus: usize) -> Driver<'a> {
    host_with(cpus, &[("rt-throttling", 0)])
}

#[test]
fn entities_without_a_priority_run_round_robin_below() {
    let mut host = host(1);
    let turns = [(), (), ()].map(|()| hog(&mut host, Params::default()));
    host.run_until(at(300));
    assert_eq!(turns.map(|e| used(&mut host, e)), [Nanos::ms(100); 3]);
    let urgent = hog(&mut host, fifo(1));
    run_through(&mut host, 400);
    assert_eq!((running(&host, CPU), host.machine().inspect(urgent, "rt-priority")), (Some(urgent), Some(1)));
    // Without its priority, `urgent` runs in the lower class.
    host.adjust(urgent, Params::default()).expect("accepted");
    host.run_until(at(800));
    assert_eq!(turns.map(|e| used(&mut host, e)), [Nanos::ms(200); 3]);
}

#[test]
fn the_time_slice_below_can_be_tuned() {
    let mut host = host_with(1, &[("quantum", 30_000_000)]);
    let [a, b] = [(), ()].map(|()| hog(&mut host, Params::default()));
    run_through(&mut host, 29);
    assert_eq!(running(&host, CPU), Some(a));
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), Some(b));
}
