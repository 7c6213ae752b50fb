//! Credit against its rules: policies.md 7.3 and the worked examples of 7.5, all in virtual time.

mod accounting;
mod caps;
mod churn;
mod placement;
mod priorities;
mod stealing;
mod versions;

use super::POLICY;
use sched::{CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Nanos, Params, State, Wake, Weight};
use sim::{Costs, Driver, Workload};

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

const BOOST: i64 = 0;
const UNDER: i64 = -1;
const OVER: i64 = -2;

fn host_of<'a>(shape: sched::Topology, knobs: &[(&str, i64)]) -> Driver<'a> {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of credit");
    }
    Driver::new(&POLICY, shape, &values, Costs::NONE).expect("credit works everywhere")
}

/// A host of this shape, with some knobs set by their words.
fn worded<'a>(shape: sched::Topology, words: &[(&str, &str)], knobs: &[(&str, i64)]) -> Driver<'a> {
    let mut values = POLICY.defaults();
    for &(name, word) in words {
        values.set_word(name, word).expect("a choice of credit");
    }
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of credit");
    }
    Driver::new(&POLICY, shape, &values, Costs::NONE).expect("credit works everywhere")
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_of(sched::Topology::new(cpus), &[])
}

fn at(ms: u64) -> Instant {
    Instant::at_ns(Nanos::ms(ms).as_ns())
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

/// Lets everything up to `ms` happen, and what is at `ms` or now, too.
fn run_through(host: &mut Driver<'_>, ms: u64) {
    host.run_until(at(ms).max(host.now()) + Nanos::ns(1));
}

fn interrupt(host: &mut Driver<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

fn shows(host: &Driver<'_>, e: EntityId, name: &str) -> i64 {
    host.machine().inspect(e, name).expect("credit shows it")
}

fn credit(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "credit")
}

fn priority(host: &Driver<'_>, e: EntityId) -> i64 {
    shows(host, e, "priority")
}

fn running(host: &Driver<'_>, cpu: CpuId) -> Option<EntityId> {
    host.machine().running(cpu)
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
