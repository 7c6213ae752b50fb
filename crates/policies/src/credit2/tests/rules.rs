//! Tests of one run queue on one CPU: credit burning, time slices, resets, yields, wake-ups.

use super::*;

/// Returns a host with two hogs of weights 256 and 512.
fn two<'a>(knobs: &[(&str, i64)]) -> (Driver<'a>, [EntityId; 2]) {
    let mut host = host_of(sched::Topology::new(1), knobs);
    let pair = [256, 512].map(|weight| hog(&mut host, weighing(weight)));
    (host, pair)
}

#[test]
fn the_example_in_xens_order_of_steps() {
    // The preempted vCPU is queued after the length of the next time slice is computed, so `b` uses up its credit.
    let (mut host, [a, b]) = two(&[]);
    let expected = [(0, a), (1_000, b), (11_000, a), (15_500, b), (25_500, a), (30_500, b)];
    assert_eq!(turns(&mut host, 31_000), expected);
    // After 1 ms, `a` has 10 − 2 = 8 ms of credit. From 11 ms on, `a` burns 2 ns of credit per nanosecond, down to 0 at
    // 15 ms. The credit of `b` is 0, too, so `a` keeps the CPU. The reset at 15 ms gives 10 ms to both. After the
    // shortest time slice, `b` has 10 ms and `a` has 9.
    host.run_until(at(300_000));
    assert_shares(&mut host, &[(a, 1), (b, 2)], Nanos::ms(300), Nanos::ms(7));
}

#[test]
fn the_example_of_policies_md_with_the_preempted_vcpu_counted() {
    // After 1 ms, `a` has 10 − 2 = 8 ms of credit. `b` then runs for 2 ms, down to 8: a tie, so `b` keeps the CPU.
    // Nothing is left of the rate limit, so `b` runs for the shortest time slice, 0.5 ms, down to 7.5. `a` then has 0.5
    // ms more credit, which lasts for 0.25 ms; its time slice is raised to 1 ms.
    let (mut host, [a, b]) = two(&[("count-stopped", 1)]);
    assert_eq!(turns(&mut host, 4_400), [(0, a), (1_000, b), (3_500, a)]);
    run_through(&mut host, 3_500);
    assert_eq!((credit(&host, a), credit(&host, b)), (8_000, 7_500));
    run_through(&mut host, 4_500);
    assert_eq!((running(&host, CPU), credit(&host, a)), (Some(b), 6_000));
    host.run_until(at(300_000));
    assert_shares(&mut host, &[(a, 1), (b, 2)], Nanos::ms(300), Nanos::ms(7));
}

#[test]
fn the_example_of_the_essay() {
    let (mut host, [a, _]) = two(&[]);
    let mut gantt = String::new();
    for ms in 0..45 {
        run_through(&mut host, 1_000 * ms);
        gantt.push(if running(&host, CPU) == Some(a) { 'a' } else { 'b' });
    }
    assert!(POLICY.essay().contains(&gantt), "{gantt}");
}

#[test]
fn burning_keeps_the_remainder() {
    // Weights 3 and 7: each charge of 1 ns costs 7/3 ns of credit.
    let mut host = host(1);
    let [light, _heavy] = [3, 7].map(|weight| scripted(&mut host, weighing(weight)));
    interrupt(&mut host, light);
    for _ in 0..900 {
        let now = host.now();
        host.run_until(now + Nanos::ns(1));
        let params = *host.machine().params(light);
        host.adjust(light, params).expect("a change of nothing charges");
    }
    let ran = i64::try_from(host.machine().charged(light).as_ns()).expect("short");
    assert_eq!(shows(&host, light, "credit"), 10_000_000 - ran * 7 / 3);
}

#[test]
fn a_lone_runner_is_given_credit_when_it_has_none() {
    let mut host = host(1);
    let e = hog(&mut host, Params::default());
    run_through(&mut host, 0);
    assert_eq!(host.machine().until(CPU), at(10_000));
    run_through(&mut host, 10_000);
    assert_eq!((credit(&host, e), host.machine().until(CPU)), (10_000, at(20_000)));
}

#[test]
fn a_reset_leaves_10_ms_and_a_half_at_most() {
    let mut host = host(1);
    let busy = hog(&mut host, Params::default());
    let rests = scripted(&mut host, Params::default());
    run_through(&mut host, 10_000);
    assert_eq!((credit(&host, busy), credit(&host, rests)), (10_000, 10_500));
    run_through(&mut host, 20_000);
    assert_eq!(credit(&host, rests), 10_500);
}

#[test]
fn a_vcpu_at_the_least_credit_has_credit_after_one_reset() {
    // A run of 1 ms costs the light vCPU 64 ms of credit. The credit is clipped at −10 ms, and a reset gives 20 ms. The
    // first time slice ends at 1 ms, the second would end at 1.5 ms.
    let mut host = host(1);
    let light = scripted(&mut host, weighing(16));
    let heavy = scripted(&mut host, weighing(1024));
    interrupt(&mut host, light);
    run_through(&mut host, 1_400);
    interrupt(&mut host, heavy);
    run_through(&mut host, 1_400);
    assert_eq!((running(&host, CPU), credit(&host, light)), (Some(heavy), -10_000));
    run_through(&mut host, 2_500);
    host.block(CPU);
    run_through(&mut host, 2_500);
    assert_eq!((running(&host, CPU), credit(&host, light)), (Some(light), 10_000));
    assert_eq!(credit(&host, heavy), 10_500, "9 and 20 are more than any vCPU keeps");
}

#[test]
fn a_vcpu_that_slept_runs_before_a_vcpu_that_ran() {
    let mut host = host(1);
    let _busy = hog(&mut host, Params::default());
    let sleeper = scripted(&mut host, Params::default());
    run_through(&mut host, 4_000);
    interrupt(&mut host, sleeper);
    run_through(&mut host, 4_000);
    assert_eq!(running(&host, CPU), Some(sleeper));
    // `sleeper` has 10 ms of credit, and the hog has 6 ms. But the time slice is computed before the hog is queued.
    assert_eq!(host.machine().until(CPU), at(14_000) + Nanos::ns(1));
}

#[test]
fn a_vcpu_that_has_just_begun_is_not_preempted() {
    let mut host = host(1);
    let [first, second] = [(), ()].map(|()| scripted(&mut host, Params::default()));
    interrupt(&mut host, first);
    run_through(&mut host, 900);
    interrupt(&mut host, second);
    run_through(&mut host, 999);
    assert_eq!(running(&host, CPU), Some(first), "no CPU is kicked");
    // `first` blocks and wakes, and `second` begins a run. After more than 950 us of this run, the CPU may be kicked.
    host.block(CPU);
    interrupt(&mut host, first);
    run_through(&mut host, 1_000);
    assert_eq!(running(&host, CPU), Some(second));
    run_through(&mut host, 1_960);
    let third = scripted(&mut host, Params::default());
    interrupt(&mut host, third);
    run_through(&mut host, 1_960);
    // The CPU was kicked within the tolerance. `second` continues for the rest of 1 ms, but for half a millisecond at
    // least.
    assert_eq!((running(&host, CPU), host.machine().until(CPU)), (Some(second), at(2_460) + Nanos::ns(1)));
}

#[test]
fn a_yield_lets_any_vcpu_run_whatever_the_rate_limit() {
    let mut host = host(1);
    let [poor, rich] = [(), ()].map(|()| scripted(&mut host, Params::default()));
    interrupt(&mut host, poor);
    run_through(&mut host, 3_000);
    interrupt(&mut host, rich);
    run_through(&mut host, 3_500);
    assert_eq!((running(&host, CPU), credit(&host, poor)), (Some(rich), 6_999));
    host.yield_now(CPU);
    run_through(&mut host, 3_500);
    assert_eq!(running(&host, CPU), Some(poor), "with 7 ms against 9.5");
    assert_eq!(host.machine().until(CPU), at(10_500), "all its credit: no vCPU was queued");
    // A yield has no effect if no other vCPU waits.
    host.block(CPU);
    run_through(&mut host, 3_600);
    host.yield_now(CPU);
    run_through(&mut host, 3_600);
    assert_eq!(running(&host, CPU), Some(rich));
}

#[test]
fn equals_take_turns_in_the_order_in_which_they_came() {
    let mut host = host(1);
    let hogs = [(), (), ()].map(|()| hog(&mut host, Params::default()));
    let [a, b, c] = hogs;
    // Each vCPU runs for 1 ms because the next vCPU has the same credit. The last vCPU then ties with the first and
    // keeps the CPU for the shortest time slice.
    assert_eq!(turns(&mut host, 3_600), [(0, a), (1_000, b), (2_000, c), (3_500, a)]);
}

#[test]
fn a_weight_counts_for_each_member() {
    let mut host = host(1);
    let vm = group(&mut host, GroupParams::default());
    let three: Vec<(EntityId, u64)> =
        [member(vm), member(vm), Params::default()].map(|params| (hog(&mut host, params), 1)).to_vec();
    host.run_until(at(3_000_000));
    assert_shares(&mut host, &three, Nanos::s(3), Nanos::ms(12));
    let vm_weight = GroupParams { weight: Weight::xen(512).expect("in range"), ..GroupParams::default() };
    host.adjust_group(vm, vm_weight).expect("accepted");
    let before: Vec<Nanos> = three.iter().map(|&(e, _)| used(&mut host, e)).collect();
    host.run_until(at(8_000_000));
    for ((&(e, _), before), due) in three.iter().zip(before).zip([2_000, 2_000, 1_000]) {
        let got = used(&mut host, e) - before;
        assert!(got >= Nanos::ms(due - 25) && got <= Nanos::ms(due + 25), "{e} got {got}");
    }
}

#[test]
fn shares_are_within_the_bound_at_every_moment() {
    for weights in [&[256, 256, 256][..], &[256, 512], &[128, 256, 1024], &[200, 300, 500, 700, 900]] {
        let mut host = host(1);
        let hogs: Vec<(EntityId, u64)> =
            weights.iter().map(|&weight| (hog(&mut host, weighing(weight)), u64::from(weight))).collect();
        let knobs = POLICY.defaults();
        let (least, most) = (weights.iter().min().expect("some"), weights.iter().max().expect("some"));
        let shape = sched::Topology::new(1);
        let entities = weights.len() as u64;
        let (weight_least, weight_most) = (u64::from(4 * least), u64::from(4 * most));
        let load = LoadBounds { weight_least, weight_most, ..load(&shape, &knobs, entities) };
        let bound = (POLICY.guarantees.shares)(&load).expect("the weights are close");
        for step in 1..600 {
            // These instants are not multiples of a time slice.
            let now = 1_313 * step;
            host.run_until(at(now));
            assert_shares(&mut host, &hogs, Nanos::us(now), bound);
        }
        assert_eq!((POLICY.guarantees.shares)(&LoadBounds { weight_most: 64 * load.weight_least, ..load }), None);
    }
}

#[test]
fn shares_err_where_the_shortest_turn_costs_more_than_can_be_owed() {
    // No bound is stated for such weights: the light vCPU runs for 1 ms and is charged 20 ms of credit, not 64.
    let mut host = host(1);
    let [light, _] = [16, 1024].map(|weight| hog(&mut host, weighing(weight)));
    host.run_until(at(3_000_000));
    let got = used(&mut host, light);
    assert!(got > Nanos::ms(90), "{got} of 3 s; 46 ms are due");
}

#[test]
fn a_change_of_weight_counts_from_then_on() {
    let mut host = host(1);
    let [a, b] = [256, 256].map(|weight| hog(&mut host, weighing(weight)));
    host.run_until(at(1_000_000));
    let before = [a, b].map(|e| used(&mut host, e));
    host.adjust(b, weighing(768)).expect("accepted");
    host.run_until(at(5_000_000));
    let got = [used(&mut host, a) - before[0], used(&mut host, b) - before[1]];
    assert!(got[0] >= Nanos::ms(980) && got[0] <= Nanos::ms(1_020), "{got:?}");
}

#[test]
fn a_detached_vcpu_no_longer_counts_as_the_heaviest() {
    let mut host = host(1);
    let light = hog(&mut host, weighing(256));
    let heavy = scripted(&mut host, weighing(1024));
    run_through(&mut host, 1_000);
    host.adjust(light, weighing(256)).expect("charged");
    assert_eq!(credit(&host, light), 5_999, "four times as dear");
    host.detach(heavy);
    run_through(&mut host, 2_000);
    host.adjust(light, weighing(256)).expect("charged");
    assert_eq!(credit(&host, light), 4_999);
}
