//! Tests of the interaction of the classes: their order, and changes from one class to another.

mod churn;
mod classes;
mod deadlines;
mod servers;

use super::POLICY;
use crate::fixture::{
    CPU, OTHER, assert_near, at_ms as at, fifo, hog, host_of_costs, interrupt as wake, knobs, nice, number,
    of_class as of, pinned_to as pinned, round_robin, run_through_ms as run_through, running, scripted, used,
};
use sched::{
    Class, CpuSet, EntityId, GroupId, GroupParams, Limit, Nanos, Params, Quota, Refused, Reservation, State, Wake,
    Weight,
};
use sim::{Costs, Driver, Periodic, Workload};

fn host_with<'a>(cpus: usize, values: &[(&str, i64)], costs: Costs) -> Driver<'a> {
    host_of_costs(&POLICY, sched::Topology::new(cpus), &knobs(&POLICY, &[], values), costs)
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_with(cpus, &[], Costs::NONE)
}

/// Returns a hard reservation, in milliseconds.
fn reserved(slice: u64, period: u64) -> Params {
    let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(slice), Nanos::ms(period)) };
    Params { reservation: Some(reservation), ..Params::default() }
}

fn periodic(host: &mut Driver<'_>, params: Params, period: Nanos, work: Nanos) -> EntityId {
    host.attach("periodic", params, Workload::Periodic(Periodic::new(period, work))).expect("accepted")
}
