//! Tests of the rules of the essay and of the fair class, each on the simulated host.

mod balancing;
mod bandwidth;
mod changes;
mod churn;
mod composition;
mod groups;
mod knobs;
mod placement;
mod rules;
mod shares;
mod version;

use super::POLICY;
use crate::fair::world::*;
use sched::{Class, CpuId, EntityId, GroupId, GroupParams, Instant, Nanos, Params, Quota, Topology, Wake, Weight};
use sim::Costs;
use std::cell::RefCell;
use std::rc::Rc;

impl World {
    fn new(cpus: usize) -> World {
        World::with(Topology::new(cpus), &[])
    }

    fn with(host: Topology, knobs: &[(&str, i64)]) -> World {
        World::delayed(host, knobs, Costs::NONE)
    }

    fn delayed(host: Topology, knobs: &[(&str, i64)], costs: Costs) -> World {
        World::under(&POLICY, host, knobs, costs)
    }
}
