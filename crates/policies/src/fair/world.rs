//! A simulated host for the tests of the fair policies.

pub(crate) use super::record::{Record, Recorder, Turn};
use sched::{
    Class, CpuId, Descriptor, EntityId, GroupId, GroupParams, Instant, Nanos, Params, Quota, Topology, Wake, Weight,
};
use sim::{Costs, Periodic, Workload};
use std::cell::RefCell;
use std::rc::Rc;

/// A host under a fair policy, and a record of what ran on it.
pub(crate) struct World {
    pub(crate) host: sim::Driver<'static>,
    pub(crate) record: Rc<RefCell<Record>>,
}

impl World {
    /// A host with some knobs set.
    pub(crate) fn under(policy: &'static Descriptor, host: Topology, knobs: &[(&str, i64)], costs: Costs) -> World {
        let mut values = policy.defaults();
        for &(name, value) in knobs {
            values.set(name, value).unwrap();
        }
        let record = Rc::new(RefCell::new(Record::new(host.cpus)));
        let mut sim = sim::Driver::new(policy, host, &values, costs).unwrap();
        sim.watch(Box::leak(Box::new(Recorder(Rc::clone(&record)))));
        World { host: sim, record }
    }

    /// Runs the host up to `ms`.
    pub(crate) fn until_ms(&mut self, ms: u64) {
        self.host.run_until(at_ms(ms));
    }

    /// Lets the last requests take effect.
    pub(crate) fn settle(&mut self) {
        self.host.run_until(self.host.now() + Nanos::ns(1));
    }

    pub(crate) fn hog(&mut self, params: Params) -> EntityId {
        self.host.attach("hog", params, Workload::Hog).unwrap()
    }

    pub(crate) fn hogs(&mut self, count: usize, params: Params) -> Vec<EntityId> {
        (0..count).map(|_| self.hog(params)).collect()
    }

    /// A blocked entity that the test wakes and blocks.
    pub(crate) fn scripted(&mut self, params: Params) -> EntityId {
        self.host.attach("scripted", params, Workload::Scripted).unwrap()
    }

    pub(crate) fn periodic(&mut self, period: Nanos, work: Nanos, params: Params) -> EntityId {
        self.host.attach("periodic", params, Workload::Periodic(Periodic::new(period, work))).unwrap()
    }

    pub(crate) fn wake(&mut self, e: EntityId) {
        self.host.wake(e, Wake::Timer);
    }

    pub(crate) fn group(&mut self, weight: u32, parent: GroupId) -> GroupId {
        let params = GroupParams { weight: Weight::linux(weight).unwrap(), ..GroupParams::default() };
        self.host.create_group("group", params, parent).unwrap()
    }

    pub(crate) fn limited_group(&mut self, quota: Nanos, period: Nanos, parent: GroupId) -> GroupId {
        let quota = Some(Quota::new(quota, period).unwrap());
        self.host.create_group("limited", GroupParams { quota, ..GroupParams::default() }, parent).unwrap()
    }

    /// The CPU time `e` has had.
    pub(crate) fn ran(&self, e: EntityId) -> Nanos {
        self.record.borrow().ran(e, self.host.now())
    }

    pub(crate) fn ran_all(&self, all: &[EntityId]) -> Nanos {
        all.iter().map(|&e| self.ran(e)).sum()
    }

    pub(crate) fn running(&self, cpu: usize) -> Option<EntityId> {
        self.host.machine().running(CpuId::new(cpu))
    }

    pub(crate) fn inspect(&self, e: EntityId, name: &str) -> i64 {
        self.host.machine().inspect(e, name).unwrap()
    }

    pub(crate) fn vruntime(&self, e: EntityId) -> i64 {
        self.inspect(e, "vruntime")
    }

    pub(crate) fn cpu_of(&self, e: EntityId) -> i64 {
        self.inspect(e, "cpu")
    }
}

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub(crate) const fn at_ms(ms: u64) -> Instant {
    Instant::at_ns(ms * 1_000_000)
}

pub(crate) const fn ms(n: i64) -> i64 {
    n * 1_000_000
}

pub(crate) fn nice(nice: i32) -> Params {
    Params { weight: Weight::nice(nice).unwrap(), ..Params::default() }
}

pub(crate) fn class(class: Class) -> Params {
    Params { class, ..Params::default() }
}

/// These parameters, confined to these CPUs.
pub(crate) fn on(cpus: &[usize], params: Params) -> Params {
    Params { affinity: cpus.iter().map(|&cpu| CpuId::new(cpu)).collect(), ..params }
}

pub(crate) fn within(group: GroupId, params: Params) -> Params {
    Params { group, ..params }
}

pub(crate) fn assert_near(what: &str, found: Nanos, right: Nanos, slack: Nanos) {
    let off = found.as_ns().abs_diff(right.as_ns());
    assert!(off <= slack.as_ns(), "{what}: {found} instead of {right}, off by {}", Nanos::ns(off));
}
