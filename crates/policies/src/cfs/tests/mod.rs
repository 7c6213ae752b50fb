//! The rules of the essay, each on the simulated host.

mod balancing;
mod bandwidth;
mod changes;
mod churn;
mod composition;
mod groups;
mod knobs;
mod placement;
mod record;
mod rules;

use super::POLICY;
use record::{Record, Recorder};
use sched::{Class, CpuId, EntityId, GroupId, GroupParams, Host, Instant, Nanos, Params, Quota, Wake, Weight};
use sim::{Costs, Periodic, Workload};
use std::cell::RefCell;
use std::rc::Rc;

/// A host under CFS, and a record of what ran on it.
struct World {
    host: sim::Host<'static>,
    record: Rc<RefCell<Record>>,
}

impl World {
    fn new(cpus: usize) -> World {
        World::with(Host::new(cpus), &[])
    }

    /// A host with some knobs set.
    fn with(host: Host, knobs: &[(&str, i64)]) -> World {
        World::delayed(host, knobs, Costs::NONE)
    }

    fn delayed(host: Host, knobs: &[(&str, i64)], costs: Costs) -> World {
        let mut values = POLICY.defaults();
        for &(name, value) in knobs {
            values.set(name, value).unwrap();
        }
        let record = Rc::new(RefCell::new(Record::new(host.cpus)));
        let mut sim = sim::Host::new(&POLICY, host, &values, costs).unwrap();
        sim.watch(Box::leak(Box::new(Recorder(Rc::clone(&record)))));
        World { host: sim, record }
    }

    /// Lets everything before `ms` happen.
    fn until_ms(&mut self, ms: u64) {
        self.host.run_until(at_ms(ms));
    }

    /// Lets what was just asked for take effect.
    fn settle(&mut self) {
        self.host.run_until(self.host.now() + Nanos::ns(1));
    }

    fn hog(&mut self, params: Params) -> EntityId {
        self.host.attach("hog", params, Workload::Hog).unwrap()
    }

    fn hogs(&mut self, count: usize, params: Params) -> Vec<EntityId> {
        (0..count).map(|_| self.hog(params)).collect()
    }

    /// An entity that wakes and blocks when told; blocked.
    fn scripted(&mut self, params: Params) -> EntityId {
        self.host.attach("scripted", params, Workload::Scripted).unwrap()
    }

    fn periodic(&mut self, period: Nanos, work: Nanos, params: Params) -> EntityId {
        self.host.attach("periodic", params, Workload::Periodic(Periodic::new(period, work))).unwrap()
    }

    fn wake(&mut self, e: EntityId) {
        self.host.wake(e, Wake::Timer);
    }

    fn group(&mut self, weight: u32, parent: GroupId) -> GroupId {
        let params = GroupParams { weight: Weight::linux(weight).unwrap(), ..GroupParams::default() };
        self.host.create_group("group", params, parent).unwrap()
    }

    fn limited_group(&mut self, quota: Nanos, period: Nanos, parent: GroupId) -> GroupId {
        let quota = Some(Quota::new(quota, period).unwrap());
        self.host.create_group("limited", GroupParams { quota, ..GroupParams::default() }, parent).unwrap()
    }

    /// The CPU time `e` has had.
    fn ran(&self, e: EntityId) -> Nanos {
        self.record.borrow().ran(e, self.host.now())
    }

    fn ran_all(&self, all: &[EntityId]) -> Nanos {
        all.iter().map(|&e| self.ran(e)).sum()
    }

    fn running(&self, cpu: usize) -> Option<EntityId> {
        self.host.machine().running(CpuId::new(cpu))
    }

    fn inspect(&self, e: EntityId, name: &str) -> i64 {
        self.host.machine().inspect(e, name).unwrap()
    }

    fn vruntime(&self, e: EntityId) -> i64 {
        self.inspect(e, "vruntime")
    }

    fn cpu_of(&self, e: EntityId) -> i64 {
        self.inspect(e, "cpu")
    }
}

/// Numbers that look random and are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const fn at_ms(ms: u64) -> Instant {
    Instant::at_ns(ms * 1_000_000)
}

const fn ms(n: i64) -> i64 {
    n * 1_000_000
}

fn nice(nice: i32) -> Params {
    Params { weight: Weight::nice(nice).unwrap(), ..Params::default() }
}

fn class(class: Class) -> Params {
    Params { class, ..Params::default() }
}

/// These parameters, confined to these CPUs.
fn on(cpus: &[usize], params: Params) -> Params {
    Params { affinity: cpus.iter().map(|&cpu| CpuId::new(cpu)).collect(), ..params }
}

fn within(group: GroupId, params: Params) -> Params {
    Params { group, ..params }
}

fn assert_near(what: &str, found: Nanos, right: Nanos, slack: Nanos) {
    let off = found.as_ns().abs_diff(right.as_ns());
    assert!(off <= slack.as_ns(), "{what}: {found} instead of {right}, off by {}", Nanos::ns(off));
}
