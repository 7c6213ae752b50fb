//! Credit2 against its rules: policies.md 8.1, and the order of steps of Xen's own, all in virtual time.

mod caps;
mod knobs;
mod queues;
mod rules;

use super::POLICY;
use sched::{
    CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Knobs, LoadBounds, Nanos, Params, State, Wake, Weight,
};
use sim::{Costs, Driver, Workload};

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

/// A host of this shape with some knobs set.
fn host_of<'a>(shape: sched::Topology, knobs: &[(&str, i64)]) -> Driver<'a> {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of credit2");
    }
    Driver::new(&POLICY, shape, &values, Costs::NONE).expect("credit2 works everywhere")
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_of(sched::Topology::new(cpus), &[])
}

fn at(us: u64) -> Instant {
    Instant::at_ns(Nanos::us(us).as_ns())
}

fn weighing(xen: u32) -> Params {
    Params { weight: Weight::xen(xen).expect("in Xen's range"), ..Params::default() }
}

fn pinned(cpu: CpuId) -> Params {
    Params { affinity: CpuSet::one(cpu), ..Params::default() }
}

fn member(group: GroupId) -> Params {
    Params { group, ..Params::default() }
}

fn capped(percent: u32) -> GroupParams {
    GroupParams { cap_percent: Some(percent), ..GroupParams::default() }
}

fn group(host: &mut Driver<'_>, params: GroupParams) -> GroupId {
    host.create_group("vm", params, GroupId::ROOT).expect("every group is accepted")
}

fn hog(host: &mut Driver<'_>, params: Params) -> EntityId {
    host.attach("hog", params, Workload::Hog).expect("everybody is accepted")
}

fn scripted(host: &mut Driver<'_>, params: Params) -> EntityId {
    host.attach("scripted", params, Workload::Scripted).expect("everybody is accepted")
}

/// Somebody scripted that may run anywhere and lives on `cpu`.
fn living_on(host: &mut Driver<'_>, cpu: CpuId) -> EntityId {
    let e = scripted(host, pinned(cpu));
    host.adjust(e, Params::default()).expect("accepted");
    e
}

/// Lets everything up to `us` happen, and what is at `us` or now, too.
fn run_through(host: &mut Driver<'_>, us: u64) {
    host.run_until(at(us).max(host.now()) + Nanos::ns(1));
}

fn interrupt(host: &mut Driver<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

fn shows(host: &Driver<'_>, e: EntityId, name: &str) -> i64 {
    host.machine().inspect(e, name).expect("credit2 shows it")
}

/// The credit of `e` in microseconds, as of its last charge.
fn credit(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "credit") / 1_000
}

fn running(host: &Driver<'_>, cpu: CpuId) -> Option<EntityId> {
    host.machine().running(cpu)
}

/// Where `e` runs.
fn place(host: &Driver<'_>, e: EntityId) -> usize {
    match host.machine().state(e) {
        State::Running(cpu) => cpu.index(),
        other => panic!("{e} is {other:?}"),
    }
}

/// The CPU time `e` has used until now, running slices included.
fn used(host: &mut Driver<'_>, e: EntityId) -> Nanos {
    if matches!(host.machine().state(e), State::Running(_)) {
        // A change of nothing charges who runs.
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
    }
    host.machine().charged(e)
}

/// The decisions on CPU 0 up to `us`: when each began, who runs, until when. What goes on is not told again.
fn turns(host: &mut Driver<'_>, us: u64) -> Vec<(u64, EntityId)> {
    let mut turns: Vec<(u64, EntityId)> = Vec::new();
    let mut now = host.now().as_ns() / 1_000;
    while now < us {
        run_through(host, now);
        let e = running(host, CPU).expect("somebody always runs");
        if turns.last().is_none_or(|&(_, last)| last != e) {
            turns.push((now, e));
        }
        now += 50;
    }
    turns
}

/// A load of hogs of normal weight, without groups.
fn load<'a>(host: &'a sched::Topology, knobs: &'a Knobs, entities: u64) -> LoadBounds<'a> {
    LoadBounds::of_hogs(host, knobs, entities)
}

/// Asserts that each got its part of `of` CPU time, give or take `bound`.
fn assert_shares(host: &mut Driver<'_>, expected: &[(EntityId, u64)], of: Nanos, bound: Nanos) {
    let whole: u64 = expected.iter().map(|(_, part)| part).sum();
    for &(e, part) in expected {
        let due = of.scale(part, whole);
        let got = used(host, e);
        let off = got.saturating_sub(due).max(due.saturating_sub(got));
        assert!(off <= bound, "{e} got {got} of {due}, off by {off}");
    }
}
