//! Tests of the accuracy of caps: the auditor checks runs of hogs against the bound of the descriptor.

use super::*;
use sched::{CapBound, LoadBounds};
use sim::Auditor;
use sim::auditor::{LimitTolerance, Promises};

const ENTITIES: u64 = 7;

/// Returns the bound that the descriptor states for hogs on `cpus` CPUs with these knobs.
fn stated(cpus: usize, words: &[(&str, &str)], values: &[(&str, i64)], has_sleepers: bool) -> Option<CapBound> {
    let mut knobs = POLICY.defaults();
    for &(name, word) in words {
        knobs.set_word(name, word).expect("a choice");
    }
    for &(name, value) in values {
        knobs.set(name, value).expect("in range");
    }
    let host = sched::Topology::new(cpus);
    let load = LoadBounds {
        weight_least: 64,
        weight_most: 16_384,
        group_depth: 1,
        has_limits: true,
        has_sleepers,
        ..LoadBounds::of_hogs(&host, &knobs, ENTITIES)
    };
    (POLICY.guarantees.cap)(&load)
}

/// Returns the number of cap violations that the auditor finds in a run of 20 s. Seven hogs run in two capped groups
/// and in no group. The auditor tolerates the excess that `bound` allows.
fn excesses(cpus: usize, caps: [u32; 2], values: &[(&str, i64)], bound: CapBound) -> u64 {
    let limits = LimitTolerance { quota: None, cap: Some(bound) };
    let mut auditor = Auditor::new(sched::Topology::new(cpus), Promises { limits, ..Promises::NONE });
    let mut host = worded(sched::Topology::new(cpus), &[], values);
    host.watch(&mut auditor);
    let vms = caps.map(|percent| group(&mut host, capped(percent)));
    let weights = [16, 256, 4096, 64, 512, 1, 256];
    for (n, &weight) in weights.iter().enumerate() {
        let group = [GroupId::ROOT, vms[0], vms[1]][n % 3];
        hog(&mut host, Params { group, ..weighing(weight) });
    }
    host.run_until(at(20_000));
    drop(host);
    auditor.findings().len() as u64
}

#[test]
fn hogs_stay_within_the_bound_whatever_the_tick_and_the_cap() {
    for (tick, ticks) in [(2_500_000, 1), (10_000_000, 3), (1_000_000, 1), (7_300_000, 2), (10_000_000, 12)] {
        let knobs = [("tick", tick), ("accounting-ticks", ticks)];
        for cpus in [1, 2, 4] {
            let bound = stated(cpus, &[], &knobs, false).expect("hogs cannot hide from ticks");
            for caps in [[1, 7], [40, 33], [50, 150], [99, 101], [204, 5]] {
                assert_eq!(excesses(cpus, caps, &knobs, bound), 0, "{cpus} CPUs, caps {caps:?}, tick {tick}");
            }
        }
    }
}

#[test]
fn rounding_does_exceed_the_cap_itself() {
    // Of 25 credits, 1 % is a quarter of a credit, rounded up to one credit for each of two members.
    let knobs = [("tick", 2_500_000), ("accounting-ticks", 1)];
    let exact = CapBound { period: Nanos::us(2_500), rounding: Nanos::ZERO, burst: Nanos::ms(100) };
    assert!(excesses(1, [1, 1], &knobs, exact) > 0);
    let bound = stated(1, &[], &knobs, false).expect("hogs cannot hide from ticks");
    assert_eq!(bound.rounding, Nanos::us(100 * 2 * ENTITIES));
}

#[test]
fn no_bound_is_stated_if_a_vcpu_can_avoid_ticks() {
    assert!(stated(1, &[], &[], false).is_some());
    assert_eq!(stated(1, &[], &[], true), None);
    assert_eq!(stated(1, &[], &[("slice", 9_000_000)], false), None);
    for words in [("charging", "sampled"), ("overflow", "halve"), ("parking", "in-debt"), ("version", "4.23")] {
        assert_eq!(stated(1, &[words], &[], false), None);
    }
    // No bound is stated with sleepers: a vCPU that sleeps at every tick is never active, so its cap is never enforced.
    let mut host = host(1);
    let vm = group(&mut host, capped(10));
    let e = scripted(&mut host, member(vm));
    for ms in (1..1_000).step_by(10) {
        host.run_until(at(ms));
        interrupt(&mut host, e);
        host.run_until(at(ms + 8));
        host.block(CPU);
    }
    assert_eq!(used(&mut host, e), Nanos::ms(800));
}
