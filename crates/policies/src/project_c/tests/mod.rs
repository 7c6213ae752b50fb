//! The common parts against policies.md 4.4 and 4.5, mostly under BMQ's rule, and under PDS's where the two must agree.

mod balancing;
mod slices;

use crate::{bmq, pds};
use sched::{
    Class, CpuId, CpuSet, Descriptor, EntityId, Input, Instant, Kicks, Machine, Nanos, Params, RtPriority, State, Wake,
    Weight,
};

/// A whole slice: 4 "ms" of 2^20 ns.
pub(crate) const SLICE: Nanos = Nanos::ns(4_194_304);

/// A driver of a machine in virtual time, exact to the nanosecond; these policies set no alarms.
pub(crate) struct Lab {
    pub(crate) machine: Machine,
    pub(crate) now: Instant,
}

impl Lab {
    pub(crate) fn of(policy: &Descriptor, shape: sched::Topology, knobs: &[(&str, &str)]) -> Lab {
        let mut values = policy.defaults();
        for &(name, text) in knobs {
            match text {
                "off" => values.set(name, 0).expect("it is a switch"),
                "on" => values.set(name, 1).expect("it is a switch"),
                text => match text.parse() {
                    Ok(number) => values.set(name, number).expect("it is in range"),
                    Err(_) => values.set_word(name, text).expect("it is a choice"),
                },
            }
        }
        let machine = Machine::build(policy, shape, &values, Kicks::Immediate).expect("it works everywhere");
        Lab { machine, now: Instant::ZERO }
    }

    /// BMQ without ticks on so many CPUs.
    pub(crate) fn bmq(cpus: usize) -> Lab {
        Lab::bmq_with(cpus, &[])
    }

    pub(crate) fn bmq_with(cpus: usize, knobs: &[(&str, &str)]) -> Lab {
        Lab::of(&bmq::POLICY, sched::Topology::new(cpus), &[&[("tick", "0")], knobs].concat())
    }

    /// PDS without ticks on so many CPUs.
    pub(crate) fn pds(cpus: usize) -> Lab {
        Lab::pds_with(cpus, &[])
    }

    pub(crate) fn pds_with(cpus: usize, knobs: &[(&str, &str)]) -> Lab {
        Lab::of(&pds::POLICY, sched::Topology::new(cpus), &[&[("tick", "0")], knobs].concat())
    }

    /// A new task, blocked.
    pub(crate) fn attach(&mut self, params: Params) -> EntityId {
        self.machine.attach(self.now, params).expect("every task is accepted")
    }

    /// A new task, runnable from now on.
    pub(crate) fn hog(&mut self, params: Params) -> EntityId {
        let e = self.attach(params);
        self.wake_for(e, Wake::New { parent: None });
        e
    }

    /// A new hog, forked by `parent`.
    pub(crate) fn fork(&mut self, parent: EntityId) -> EntityId {
        let e = self.attach(Params::default());
        self.wake_for(e, Wake::New { parent: Some(parent) });
        e
    }

    pub(crate) fn wake(&mut self, e: EntityId) {
        self.wake_for(e, Wake::Interrupt);
    }

    fn wake_for(&mut self, entity: EntityId, why: Wake) {
        self.machine.input(self.now, Input::Wake { entity, why });
        self.machine.settle(self.now);
    }

    pub(crate) fn block(&mut self, e: EntityId) {
        let cpu = self.where_runs(e);
        self.machine.input(self.now, Input::Block { cpu });
        self.machine.settle(self.now);
    }

    pub(crate) fn yields(&mut self, e: EntityId) {
        let cpu = self.where_runs(e);
        self.machine.input(self.now, Input::Yield { cpu });
        self.machine.settle(self.now);
    }

    pub(crate) fn adjust(&mut self, e: EntityId, params: Params) {
        self.machine.adjust(self.now, e, params).expect("everything is accepted");
        self.machine.settle(self.now);
    }

    fn where_runs(&self, e: EntityId) -> CpuId {
        let State::Running(cpu) = self.machine.state(e) else { panic!("{e} does not run") };
        cpu
    }

    /// Lets time pass, and every slice end that ends in it.
    pub(crate) fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        loop {
            let next = self.machine.topology().iter().map(|cpu| self.machine.until(cpu)).min().expect("there is a CPU");
            if next > end {
                break;
            }
            self.now = next;
            for cpu in self.machine.topology().iter().filter(|&cpu| self.machine.until(cpu) == next).collect::<Vec<_>>()
            {
                self.machine.input(self.now, Input::Expire { cpu });
            }
            self.machine.settle(self.now);
        }
        self.now = end;
    }

    /// Lets time pass until the next slice on `cpu` is over.
    pub(crate) fn end_slice(&mut self, cpu: usize) {
        self.pass(self.until(cpu).since(self.now));
    }

    pub(crate) fn running(&self, cpu: usize) -> Option<EntityId> {
        self.machine.running(CpuId::new(cpu))
    }

    pub(crate) fn until(&self, cpu: usize) -> Instant {
        self.machine.until(CpuId::new(cpu))
    }

    pub(crate) fn shows(&self, e: EntityId, name: &str) -> i64 {
        self.machine.inspect(e, name).unwrap_or_else(|| panic!("{e} shows no {name}"))
    }

    pub(crate) fn boost(&self, e: EntityId) -> i64 {
        self.shows(e, "boost")
    }

    pub(crate) fn level(&self, e: EntityId) -> i64 {
        self.shows(e, "level")
    }

    /// The CPU in whose queue `e` is.
    pub(crate) fn cpu(&self, e: EntityId) -> i64 {
        self.shows(e, "cpu")
    }

    pub(crate) fn slice(&self, e: EntityId) -> Nanos {
        Nanos::ns(self.shows(e, "slice").unsigned_abs())
    }
}

pub(crate) fn nice(nice: i32) -> Params {
    Params { weight: Weight::nice(nice).expect("a nice value"), ..Params::default() }
}

pub(crate) fn class(class: Class) -> Params {
    Params { class, ..Params::default() }
}

pub(crate) fn fifo(priority: u8) -> Params {
    class(Class::Fifo(RtPriority::new(priority).expect("1 to 99")))
}

pub(crate) fn round_robin(priority: u8) -> Params {
    class(Class::RoundRobin(RtPriority::new(priority).expect("1 to 99")))
}

pub(crate) fn on(cpus: &[usize]) -> Params {
    Params { affinity: cpus.iter().map(|&cpu| CpuId::new(cpu)).collect::<CpuSet>(), ..Params::default() }
}
