//! Tests of the family against its rules: Poris §4 and Algorithm 1.

mod gangs;
mod pictures;
mod promotion;
mod signals;

use crate::fixture::{
    CPU, OTHER, host_under, interrupt as wake, pinned as on, run_through_us as run_through, running,
    scripted as attach, shows,
};
use crate::{adaptive, hybrid, poris, poris_s, ps, rs};
use sched::{CpuId, Descriptor, EntityId, GroupId, GroupParams, Nanos, Notice, Params, State, Weight};
use sim::{Costs, Driver};

fn host<'a>(policy: &'static Descriptor, cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(policy, sched::Topology::new(cpus), knobs)
}

const fn ms(ms: i64) -> i64 {
    ms * 1_000_000
}

fn group(host: &mut Driver<'_>, gang: bool, parent: GroupId) -> GroupId {
    host.create_group("g", GroupParams { gang, ..GroupParams::default() }, parent).expect("every group is accepted")
}

/// Returns the vCPUs of a new VM, all blocked.
fn vm(host: &mut Driver<'_>, group: GroupId, vcpus: usize) -> Vec<EntityId> {
    (0..vcpus).map(|_| attach(host, Params { group, ..Params::default() })).collect()
}

/// Returns a new entity that is runnable.
fn hog(host: &mut Driver<'_>, params: Params) -> EntityId {
    let e = attach(host, params);
    wake(host, e);
    e
}

/// Returns the length of the time slice that has just started on `cpu`, in microseconds.
fn turn(host: &Driver<'_>, cpu: CpuId) -> u64 {
    (host.machine().until(cpu).since(host.now()).as_ns() + 1) / 1_000
}

/// Returns the priority of `e` in Credit's numbers: OVER −2, UNDER −1, BOOST 0, real-time 1.
fn priority(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "priority")
}

const REAL_TIME: i64 = 1;
const BOOST: i64 = 0;
const UNDER: i64 = -1;

/// Returns a row for each CPU, with the letter of its entity every `step` microseconds.
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
