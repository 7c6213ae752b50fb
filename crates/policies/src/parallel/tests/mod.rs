//! The family against its rules: policies.md 10, S3 §4 and Algorithm 1.

mod gangs;
mod pictures;
mod promotion;
mod signals;

use crate::{adaptive, hybrid, poris, poris_s, ps, rs};
use sched::{
    CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Instant, Nanos, Notice, Params, State, Wake, Weight,
};
use sim::{Costs, Driver, Workload};

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

fn host<'a>(policy: &'static Descriptor, cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    let mut values = policy.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob in its range");
    }
    Driver::new(policy, sched::Topology::new(cpus), &values, Costs::NONE).expect("it works everywhere")
}

const fn ms(ms: i64) -> i64 {
    ms * 1_000_000
}

fn group(host: &mut Driver<'_>, gang: bool, parent: GroupId) -> GroupId {
    host.create_group("g", GroupParams { gang, ..GroupParams::default() }, parent).expect("every group is accepted")
}

/// A VM of this many vCPUs, all asleep.
fn vm(host: &mut Driver<'_>, group: GroupId, vcpus: usize) -> Vec<EntityId> {
    (0..vcpus).map(|_| attach(host, Params { group, ..Params::default() })).collect()
}

fn attach(host: &mut Driver<'_>, params: Params) -> EntityId {
    host.attach("e", params, Workload::Scripted).expect("everybody is accepted")
}

fn on(cpu: CpuId) -> Params {
    Params { affinity: CpuSet::one(cpu), ..Params::default() }
}

/// Somebody who is awake from now on.
fn hog(host: &mut Driver<'_>, params: Params) -> EntityId {
    let e = attach(host, params);
    wake(host, e);
    e
}

fn wake(host: &mut Driver<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

fn run_through(host: &mut Driver<'_>, us: u64) {
    host.run_until(Instant::at_ns(Nanos::us(us).as_ns()).max(host.now()) + Nanos::ns(1));
}

fn running(host: &Driver<'_>, cpu: CpuId) -> Option<EntityId> {
    host.machine().running(cpu)
}

/// How long the turn lasts that has just begun on `cpu`, in microseconds.
fn turn(host: &Driver<'_>, cpu: CpuId) -> u64 {
    (host.machine().until(cpu).since(host.now()).as_ns() + 1) / 1_000
}

fn shows(host: &Driver<'_>, e: EntityId, name: &str) -> i64 {
    host.machine().inspect(e, name).expect("it is shown")
}

/// Credit's numbers: OVER −2, UNDER −1, BOOST 0, and 1.
fn priority(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "priority")
}

const REAL_TIME: i64 = 1;
const BOOST: i64 = 0;
const UNDER: i64 = -1;

/// Who runs on each CPU, every `step` microseconds, by letter.
fn rows(host: &mut Driver<'_>, steps: core::ops::Range<u64>, step: u64, names: &[(EntityId, char)]) -> Vec<String> {
    let mut rows = vec![String::new(); host.machine().topology().cpus];
    for n in steps {
        run_through(host, n * step);
        for (cpu, row) in rows.iter_mut().enumerate() {
            let running = running(host, CpuId::new(cpu));
            row.push(names.iter().find(|&&(e, _)| running == Some(e)).map_or(' ', |&(_, name)| name));
        }
    }
    rows
}
