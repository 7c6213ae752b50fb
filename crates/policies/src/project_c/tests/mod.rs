//! Tests of the common engine against alt_core.c of Project C v5.13-r3, mostly under the rule of BMQ. Tests in which
//! the two rules must agree also use the rule of PDS.

mod balancing;
mod slices;

pub(crate) use crate::fixture::{fifo, nice, of_class as class, on, round_robin};

use crate::fixture::{awake, cpu_of, host_with, interrupt, knobs_from_text, running, scripted, shows};
use crate::{bmq, pds};
use sched::{Class, CpuId, Descriptor, EntityId, Instant, Nanos, Params, Wake};
use sim::Driver;

/// Length of a whole time slice: 4 "ms" of 2^20 ns.
pub(crate) const SLICE: Nanos = Nanos::ns(4_194_304);

/// A host in virtual time, exact to the nanosecond. These policies set no alarms.
pub(crate) struct Lab {
    pub(crate) host: Driver<'static>,
}

impl Lab {
    pub(crate) fn of(policy: &Descriptor, shape: sched::Topology, knobs: &[(&str, &str)]) -> Lab {
        Lab { host: host_with(policy, shape, &knobs_from_text(policy, knobs)) }
    }

    /// Returns a host with `cpus` CPUs and BMQ without ticks.
    pub(crate) fn bmq(cpus: usize) -> Lab {
        Lab::bmq_with(cpus, &[])
    }

    pub(crate) fn bmq_with(cpus: usize, knobs: &[(&str, &str)]) -> Lab {
        Lab::of(&bmq::POLICY, sched::Topology::new(cpus), &[&[("tick", "0")], knobs].concat())
    }

    /// Returns a host with `cpus` CPUs and PDS without ticks.
    pub(crate) fn pds(cpus: usize) -> Lab {
        Lab::pds_with(cpus, &[])
    }

    pub(crate) fn pds_with(cpus: usize, knobs: &[(&str, &str)]) -> Lab {
        Lab::of(&pds::POLICY, sched::Topology::new(cpus), &[&[("tick", "0")], knobs].concat())
    }

    pub(crate) fn now(&self) -> Instant {
        self.host.now()
    }

    /// Attaches a blocked task.
    pub(crate) fn attach(&mut self, params: Params) -> EntityId {
        scripted(&mut self.host, params)
    }

    /// Attaches a task and wakes it.
    pub(crate) fn hog(&mut self, params: Params) -> EntityId {
        let e = awake(&mut self.host, params);
        self.settle();
        e
    }

    /// Attaches a hog that `parent` forks.
    pub(crate) fn fork(&mut self, parent: EntityId) -> EntityId {
        let e = self.attach(Params::default());
        self.host.wake(e, Wake::New { parent: Some(parent) });
        self.settle();
        e
    }

    pub(crate) fn wake(&mut self, e: EntityId) {
        interrupt(&mut self.host, e);
        self.settle();
    }

    pub(crate) fn block(&mut self, e: EntityId) {
        self.host.block(self.cpu_that_runs(e));
        self.settle();
    }

    pub(crate) fn yields(&mut self, e: EntityId) {
        self.host.yield_now(self.cpu_that_runs(e));
        self.settle();
    }

    pub(crate) fn adjust(&mut self, e: EntityId, params: Params) {
        self.host.adjust(e, params).expect("every change is accepted");
        self.settle();
    }

    fn cpu_that_runs(&self, e: EntityId) -> CpuId {
        CpuId::new(cpu_of(&self.host, e).expect("the task runs"))
    }

    /// Settles all events that are due, without advancing time.
    pub(crate) fn settle(&mut self) {
        self.host.step(self.host.now() + Nanos::ns(1));
    }

    /// Advances time by `time`, and ends the time slices that end at the last instant.
    pub(crate) fn pass(&mut self, time: Nanos) {
        let end = self.now() + time;
        self.host.run_until(end);
        if self.host.machine().topology().iter().any(|cpu| self.host.machine().until(cpu) == end) {
            self.settle();
        }
    }

    /// Advances time until the time slice on `cpu` is over.
    pub(crate) fn end_slice(&mut self, cpu: usize) {
        self.pass(self.until(cpu).since(self.now()));
    }

    pub(crate) fn running(&self, cpu: usize) -> Option<EntityId> {
        running(&self.host, CpuId::new(cpu))
    }

    pub(crate) fn until(&self, cpu: usize) -> Instant {
        self.host.machine().until(CpuId::new(cpu))
    }

    pub(crate) fn shows(&self, e: EntityId, name: &str) -> i64 {
        shows(&self.host, e, name)
    }

    pub(crate) fn boost(&self, e: EntityId) -> i64 {
        self.shows(e, "boost")
    }

    pub(crate) fn level(&self, e: EntityId) -> i64 {
        self.shows(e, "level")
    }

    /// Returns the CPU whose queue contains `e`, or contained `e` last.
    pub(crate) fn cpu(&self, e: EntityId) -> i64 {
        self.shows(e, "cpu")
    }

    pub(crate) fn slice(&self, e: EntityId) -> Nanos {
        Nanos::ns(self.shows(e, "slice").unsigned_abs())
    }
}
