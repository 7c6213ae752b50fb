//! The family against its rules: policies.md 10, S3 §4 and Algorithm 1.

use crate::{adaptive, hybrid, poris, poris_s, ps, rs};
use sched::{CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Instant, Nanos, Notice, Params, State, Wake};
use sim::{Costs, Host, Workload};

fn host<'a>(policy: &'static Descriptor, cpus: usize, knobs: &[(&str, i64)]) -> Host<'a> {
    let mut values = policy.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob in its range");
    }
    Host::new(policy, sched::Host::new(cpus), &values, Costs::NONE).expect("it works everywhere")
}

fn group(host: &mut Host<'_>, gang: bool, parent: GroupId) -> GroupId {
    host.create_group("g", GroupParams { gang, ..GroupParams::default() }, parent).expect("every group is accepted")
}

fn scripted(host: &mut Host<'_>, group: GroupId) -> EntityId {
    host.attach("e", Params { group, ..Params::default() }, Workload::Scripted).expect("everybody is accepted")
}

fn pinned(host: &mut Host<'_>, cpu: usize) -> EntityId {
    let params = Params { affinity: CpuSet::one(CpuId::new(cpu)), ..Params::default() };
    let e = host.attach("hog", params, Workload::Scripted).expect("everybody is accepted");
    host.wake(e, Wake::New { parent: None });
    e
}

fn wake(host: &mut Host<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

fn run_through(host: &mut Host<'_>, us: u64) {
    host.run_until(Instant::at_ns(Nanos::us(us).as_ns()).max(host.now()) + Nanos::ns(1));
}

/// Who runs on `cpu` every `step` microseconds from the first of them on, by letter.
fn row(host: &mut Host<'_>, steps: std::ops::Range<u64>, step: u64, names: &[(EntityId, char)]) -> Vec<String> {
    let cpus = host.machine().host().cpus;
    let mut rows = vec![String::new(); cpus];
    for n in steps {
        run_through(host, n * step);
        for (cpu, row) in rows.iter_mut().enumerate() {
            let running = host.machine().running(CpuId::new(cpu));
            row.push(names.iter().find(|&&(e, _)| running == Some(e)).map_or(' ', |&(_, name)| name));
        }
    }
    rows
}

#[test]
fn pictures() {
    for (policy, knobs, step) in [
        (&poris::POLICY, &[("latency", 10_000_000)][..], 1_000),
        (&poris_s::POLICY, &[("latency", 10_000_000)][..], 1_000),
        (&ps::POLICY, &[], 6_000),
        (&hybrid::POLICY, &[], 6_000),
    ] {
        let mut host = host(policy, 2, knobs);
        let both = group(&mut host, true, GroupId::ROOT);
        let vms = [(); 2].map(|()| group(&mut host, false, both));
        let mut names = Vec::new();
        for (vm, name) in vms.into_iter().zip(['a', 'b']) {
            for _ in 0..2 {
                names.push((scripted(&mut host, vm), name));
            }
        }
        for &(e, _) in &names.clone() {
            wake(&mut host, e);
        }
        for cpu in 0..2 {
            names.push((pinned(&mut host, cpu), '.'));
        }
        println!("{}", policy.name);
        for row in row(&mut host, 0..100, step, &names) {
            println!("{row}");
        }
    }
}
