//! The fixture's host for the tests of the fair policies, with a record of its run.

pub(crate) use super::record::{Record, Recorder, Turn};
pub(crate) use crate::fixture::{Dice, assert_near, at_ms, nice, of_class as class, on, within};

use crate::fixture;
use sched::{CpuId, Descriptor, EntityId, GroupId, GroupParams, Nanos, Params, Quota, Topology, Wake, Weight};
use sim::{Costs, Periodic, Workload};
use std::cell::RefCell;
use std::rc::Rc;

/// A host under a fair policy, with a record of its run.
pub(crate) struct World {
    pub(crate) host: sim::Driver<'static>,
    pub(crate) record: Rc<RefCell<Record>>,
}

impl World {
    /// Returns a host under `policy` with these knobs set.
    pub(crate) fn under(policy: &Descriptor, topology: Topology, knobs: &[(&str, i64)], costs: Costs) -> World {
        let record = Rc::new(RefCell::new(Record::new(topology.cpus)));
        let mut host = fixture::host_of_costs(policy, topology, &fixture::knobs(policy, &[], knobs), costs);
        host.watch(Recorder(Rc::clone(&record)));
        World { host, record }
    }

    /// Runs the host up to `ms`.
    pub(crate) fn until_ms(&mut self, ms: u64) {
        self.host.run_until(at_ms(ms));
    }

    /// Lets the policy process the last inputs: runs the host for 1 ns.
    pub(crate) fn settle(&mut self) {
        fixture::settle(&mut self.host);
    }

    pub(crate) fn hog(&mut self, params: Params) -> EntityId {
        fixture::hog(&mut self.host, params)
    }

    pub(crate) fn hogs(&mut self, count: usize, params: Params) -> Vec<EntityId> {
        (0..count).map(|_| self.hog(params)).collect()
    }

    pub(crate) fn scripted(&mut self, params: Params) -> EntityId {
        fixture::scripted(&mut self.host, params)
    }

    pub(crate) fn periodic(&mut self, period: Nanos, work: Nanos, params: Params) -> EntityId {
        let workload = Workload::Periodic(Periodic::new(period, work));
        self.host.attach("periodic", params, workload).expect("the entity is accepted")
    }

    pub(crate) fn wake(&mut self, e: EntityId) {
        self.host.wake(e, Wake::Timer);
    }

    pub(crate) fn group(&mut self, weight: u32, parent: GroupId) -> GroupId {
        let weight = Weight::linux(weight).expect("in Linux's range");
        fixture::group_below(&mut self.host, GroupParams { weight, ..GroupParams::default() }, parent)
    }

    pub(crate) fn limited_group(&mut self, quota: Nanos, period: Nanos, parent: GroupId) -> GroupId {
        let quota = Some(Quota::new(quota, period).expect("a quota in range"));
        fixture::group_below(&mut self.host, GroupParams { quota, ..GroupParams::default() }, parent)
    }

    /// Returns the CPU time that `e` has received.
    pub(crate) fn ran(&self, e: EntityId) -> Nanos {
        self.record.borrow().ran(e, self.host.now())
    }

    pub(crate) fn ran_all(&self, all: &[EntityId]) -> Nanos {
        all.iter().map(|&e| self.ran(e)).sum()
    }

    pub(crate) fn running(&self, cpu: usize) -> Option<EntityId> {
        fixture::running(&self.host, CpuId::new(cpu))
    }

    pub(crate) fn inspect(&self, e: EntityId, name: &str) -> i64 {
        fixture::shows(&self.host, e, name)
    }

    pub(crate) fn vruntime(&self, e: EntityId) -> i64 {
        self.inspect(e, "vruntime")
    }

    pub(crate) fn cpu_of(&self, e: EntityId) -> i64 {
        self.inspect(e, "cpu")
    }
}

pub(crate) const fn ms(n: i64) -> i64 {
    n * 1_000_000
}
