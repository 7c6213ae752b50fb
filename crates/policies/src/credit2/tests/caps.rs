//! Tests of caps: pools, quotas, debts and parking.

use super::*;
use sched::{CapBound, Held};
use sim::Auditor;
use sim::auditor::{LimitTolerance, Promises};

#[test]
fn a_capped_hog_runs_for_its_part_of_every_period() {
    let mut host = host(1);
    let vm = group(&mut host, capped(40));
    let e = hog(&mut host, member(vm));
    for period in 0..20 {
        for us in [0, 3_999] {
            run_through(&mut host, 10_000 * period + us);
            assert_eq!(running(&host, CPU), Some(e));
        }
        run_through(&mut host, 10_000 * period + 4_000);
        assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (None, 1));
        assert!(host.machine().is_held(e));
    }
    assert_eq!(used(&mut host, e), Nanos::ms(80));
}

#[test]
fn members_take_quotas_and_give_back_what_is_left() {
    let mut host = host(2);
    let vm = group(&mut host, capped(60));
    let [a, b] = [CPU, OTHER].map(|cpu| scripted(&mut host, Params { group: vm, ..pinned(cpu) }));
    interrupt(&mut host, a);
    run_through(&mut host, 1_000);
    assert_eq!(shows(&host, a, "budget"), 3_000_000, "half of 6 ms, not charged yet");
    host.block(CPU);
    run_through(&mut host, 1_000);
    assert_eq!(shows(&host, a, "budget"), 0);
    interrupt(&mut host, b);
    run_through(&mut host, 1_000);
    // The pool has 5 ms left: `b` takes quotas of 3 ms and 2 ms.
    assert_eq!(host.machine().until(OTHER), at(4_000) + Nanos::ns(2));
    run_through(&mut host, 4_001);
    assert_eq!(running(&host, OTHER), Some(b));
    run_through(&mut host, 6_001);
    assert_eq!((running(&host, OTHER), shows(&host, b, "parked")), (None, 1));
    assert_eq!(used(&mut host, a) + used(&mut host, b), Nanos::ms(6));
}

#[test]
fn what_is_given_back_unparks_others() {
    let mut host = host(2);
    let vm = group(&mut host, capped(10));
    // The budget is 1 ms, and each of the three members takes quotas of half a millisecond.
    let [a, b, c] = [CPU, OTHER, OTHER].map(|cpu| scripted(&mut host, Params { group: vm, ..pinned(cpu) }));
    for e in [a, b] {
        interrupt(&mut host, e);
    }
    run_through(&mut host, 100);
    assert_eq!([a, b].map(|e| shows(&host, e, "budget")), [500_000; 2]);
    // Together, `a` and `b` hold the whole budget.
    interrupt(&mut host, c);
    host.block(OTHER);
    run_through(&mut host, 100);
    assert_eq!(running(&host, OTHER), Some(c), "the other one's 0.4 ms");
    interrupt(&mut host, b);
    run_through(&mut host, 200);
    assert_eq!(host.machine().state(b), State::Waiting);
    host.yield_now(OTHER);
    run_through(&mut host, 300);
    assert_eq!(shows(&host, b, "parked"), 1, "it had its chance, and found nothing");
    host.block(OTHER);
    run_through(&mut host, 300);
    assert_eq!((running(&host, OTHER), shows(&host, b, "parked")), (Some(b), 0));
}

#[test]
fn an_overrun_of_the_quota_leaves_a_debt() {
    // The cap of 2 % allows 0.2 ms per 10 ms, but the shortest time slice is 1 ms. The debt of 0.8 ms lasts for four
    // quota periods.
    let mut host = host(1);
    let vm = group(&mut host, capped(2));
    let e = hog(&mut host, member(vm));
    for (us, runs) in [(500, true), (1_000, false), (10_000, false), (40_000, false), (50_000, true), (51_000, false)] {
        run_through(&mut host, us);
        assert_eq!(running(&host, CPU).is_some(), runs, "{us} us");
    }
    host.run_until(at(5_000_000));
    assert_eq!(used(&mut host, e), Nanos::ms(100));
}

#[test]
fn unused_budget_is_not_saved() {
    let mut host = host(1);
    let vm = group(&mut host, capped(30));
    let e = scripted(&mut host, member(vm));
    run_through(&mut host, 95_000);
    interrupt(&mut host, e);
    run_through(&mut host, 98_001);
    assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (None, 1));
    // The filling unparks the blocked vCPU, which does not run.
    host.pause(e);
    run_through(&mut host, 101_000);
    assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (None, 0));
    interrupt(&mut host, e);
    run_through(&mut host, 101_000);
    assert_eq!(running(&host, CPU), Some(e));
}

#[test]
fn a_cap_takes_effect_at_once_and_ends_at_once() {
    let mut host = host(1);
    let vm = group(&mut host, GroupParams::default());
    let e = hog(&mut host, member(vm));
    run_through(&mut host, 3_000);
    host.adjust_group(vm, capped(20)).expect("accepted");
    run_through(&mut host, 3_001);
    assert_eq!((running(&host, CPU), shows(&host, e, "budget")), (Some(e), 2_000_000));
    run_through(&mut host, 5_001);
    assert_eq!(running(&host, CPU), None);
    run_through(&mut host, 13_001);
    assert_eq!(running(&host, CPU), Some(e), "a period after it came into force");
    run_through(&mut host, 16_000);
    assert_eq!(running(&host, CPU), None);
    host.adjust_group(vm, GroupParams::default()).expect("accepted");
    run_through(&mut host, 16_000);
    assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (Some(e), 0));
    host.run_until(at(60_000));
    assert_eq!(running(&host, CPU), Some(e));
}

#[test]
fn a_lowered_cap_empties_the_pool_to_its_measure() {
    let mut host = host(1);
    let vm = group(&mut host, capped(90));
    let e = scripted(&mut host, member(vm));
    host.adjust_group(vm, capped(10)).expect("accepted");
    interrupt(&mut host, e);
    run_through(&mut host, 1_001);
    assert_eq!(running(&host, CPU), None);
}

#[test]
fn a_parked_vcpu_that_leaves_its_domain_runs() {
    let mut host = host(1);
    let vm = group(&mut host, capped(10));
    let e = hog(&mut host, member(vm));
    run_through(&mut host, 2_000);
    assert_eq!(shows(&host, e, "parked"), 1);
    host.adjust(e, Params::default()).expect("accepted");
    run_through(&mut host, 2_000);
    assert_eq!((running(&host, CPU), host.machine().is_held(e)), (Some(e), false));
    // A running vCPU that joins the domain needs a quota from the pool, which is empty.
    host.adjust(e, member(vm)).expect("accepted");
    run_through(&mut host, 2_000);
    assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (None, 1));
    run_through(&mut host, 10_500);
    assert_eq!(running(&host, CPU), Some(e));
    assert_eq!(Held::Parked.name(), "parked");
}

#[test]
fn vcpus_behind_a_parked_one_get_an_idle_cpu() {
    // `poor`, for which no budget is left, waits in front of `free`, which has no cap.
    for (hand_off, runs) in [(1, true), (0, false)] {
        let mut host = host_of(sched::Topology::new(1), &[("hand-off", hand_off)]);
        let vm = group(&mut host, capped(10));
        let [spender, poor] = [(), ()].map(|()| scripted(&mut host, member(vm)));
        let [runner, free] = [(), ()].map(|()| scripted(&mut host, Params::default()));
        interrupt(&mut host, spender);
        run_through(&mut host, 3_000);
        assert_eq!((running(&host, CPU), shows(&host, spender, "parked")), (None, 1));
        interrupt(&mut host, runner);
        run_through(&mut host, 3_000);
        for e in [poor, free] {
            interrupt(&mut host, e);
        }
        run_through(&mut host, 3_500);
        assert_eq!(running(&host, CPU), Some(runner));
        host.block(CPU);
        run_through(&mut host, 3_500);
        assert_eq!(running(&host, CPU) == Some(free), runs, "hand-off {hand_off}");
        assert_eq!(shows(&host, poor, "parked"), 1);
    }
}

#[test]
fn capped_groups_stay_within_the_bound() {
    const ENTITIES: u64 = 8;
    for cpus in [1, 2, 4] {
        for caps in [[1, 7], [40, 33], [50, 150], [99, 101], [204, 5]] {
            for (name, value) in [("min-timer", 500_000), ("ratelimit", 0), ("cap-period", 3_000_000)] {
                let mut knobs = POLICY.defaults();
                knobs.set(name, value).expect("in range");
                let shape = sched::Topology::new(cpus);
                let load = LoadBounds {
                    group_depth: 1,
                    has_limits: true,
                    has_sleepers: true,
                    ..load(&shape, &knobs, ENTITIES)
                };
                let bound: CapBound = (POLICY.guarantees.cap)(&load).expect("it keeps caps");
                let limits = LimitTolerance { quota: None, cap: Some(bound) };
                let mut auditor = Auditor::new(shape, Promises { limits, ..Promises::NONE });
                let mut host = host_of(shape, &[(name, value)]);
                host.watch(&mut auditor);
                let vms = caps.map(|percent| group(&mut host, capped(percent)));
                for n in 0..ENTITIES {
                    let group = [GroupId::ROOT, vms[0], vms[1]][usize::try_from(n).expect("few") % 3];
                    let workload = match n % 2 {
                        0 => Workload::Hog,
                        _ => {
                            Workload::Periodic(sim::Periodic::new(Nanos::us(3_300 + 700 * n), Nanos::us(900 + 500 * n)))
                        }
                    };
                    host.attach("e", member(group), workload).expect("accepted");
                }
                host.run_until(at(4_000_000));
                drop(host);
                assert_eq!(auditor.findings().len(), 0, "{cpus} CPUs, caps {caps:?}, {name}: {:?}", auditor.findings());
            }
        }
    }
}
