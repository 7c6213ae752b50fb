//! Tests of the credit of each vCPU, of caps and of parking.

use super::*;
use crate::credit::accounting::{Grant, Round};
use crate::credit::domains::{DomainId, Domains};
use crate::fixture;

/// Returns the grant of each domain `(weight, members, cap)`, in the order of the list.
fn round(cpus: usize, balance: i64, domains: &[(u32, u32, Option<u32>)]) -> Vec<Grant> {
    let mut table = Domains::new(false);
    let mut next = 0;
    for (n, &(weight, members, cap_percent)) in domains.iter().enumerate().rev() {
        let group = GroupId::new(u32::try_from(n).expect("few") + 1, 0);
        let weight = Weight::xen(weight).expect("in Xen's range");
        table.update_group(group, &GroupParams { weight, cap_percent, ..GroupParams::default() });
        for _ in 0..members {
            let e = EntityId::new(next, 0);
            next += 1;
            table.reserve(e, &member(group));
            table.activate(e, DomainId::of(e, &member(group)));
        }
    }
    let mut round = Round::new(cpus, 300, balance, table.active_weight());
    let listed = std::iter::successors(table.first(), |&domain| table.next(domain));
    listed.map(|domain| round.grant(table.get(domain))).collect()
}

fn each(grants: &[Grant]) -> Vec<i64> {
    grants.iter().map(|grant| grant.each).collect()
}

#[test]
fn credits_are_dealt_by_weight_and_among_active_members_equally() {
    // T = 300, W = 768.
    assert_eq!(each(&round(1, 0, &[(256, 1, None), (512, 1, None)])), [100, 200]);
    assert_eq!(each(&round(1, 0, &[(256, 4, None), (512, 1, None)])), [25, 200]);
    // Every part is rounded up.
    assert_eq!(each(&round(1, 0, &[(256, 1, None); 7])), [43; 7]);
}

#[test]
fn unused_credit_of_a_domain_goes_to_the_next_ones() {
    // Weight 768 of 1280 on two CPUs earns 360 credits, but one entity can use only 300. So the total for the remaining
    // domains grows by (360 − 300) · 1280 / 512 = 150. Each of them earns (600 + 150) · 256 / 1280 = 150.
    let grants = round(2, 0, &[(768, 1, None), (256, 1, None), (256, 1, None)]);
    assert_eq!(each(&grants), [300, 150, 150]);
    assert!(grants.iter().all(|grant| !grant.to_head), "no earlier vCPU had too little");
    // At the tail of the list, the domain's surplus is too late for the other domains, so the domain moves to the head.
    let grants = round(2, 0, &[(256, 1, None), (256, 1, None), (768, 1, None)]);
    assert_eq!(each(&grants), [120, 120, 300]);
    assert_eq!(grants.iter().map(|grant| grant.to_head).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn debt_is_dealt_out_once_more_and_lifts_the_peak() {
    assert_eq!(each(&round(1, -90, &[(256, 1, None), (512, 1, None)])), [130, 260]);
    assert_eq!(each(&round(2, -100, &[(256, 1, None)])), [400]);
    assert_eq!(each(&round(2, 100, &[(256, 1, None)])), [300]);
}

#[test]
fn a_cap_bounds_what_its_domain_earns_and_what_its_members_may_owe() {
    let grants = round(2, 0, &[(256, 2, Some(75)), (256, 1, None)]);
    // The two members receive ⌈75 · 300 / 100⌉ = 225 credits. A surplus of 75 credits remains.
    assert_eq!(grants[0], Grant { each: 113, park_below: Some(-113), to_head: false });
    assert_eq!(grants[1], Grant { each: 300, park_below: None, to_head: false });
}

#[test]
fn example_1_a_vcpu_that_ran_more_than_its_part_is_over() {
    let mut host = host(1);
    let a = hog(&mut host, weighing(256));
    let b = hog(&mut host, weighing(512));
    for ms in [10, 20] {
        host.run_until(at(ms));
        host.yield_now(CPU);
    }
    run_through(&mut host, 30);
    assert_eq!((credit(&host, a), priority(&host, a)), (-100, OVER));
    assert_eq!((credit(&host, b), priority(&host, b)), (100, UNDER));
}

#[test]
fn example_2_a_cap_of_40_percent_parks_for_90_of_150_ms() {
    let mut host = host(1);
    let vm = group(&mut host, capped(40));
    let e = hog(&mut host, member(vm));
    // The vCPU starts with 0 credits. From 90 ms on, a cycle of 150 ms repeats, which begins with 60 credits.
    let (out, parked) = (OVER, 1);
    let expected = [
        (30, -180, out, parked),
        (60, -60, out, parked),
        (90, 60, UNDER, 0),
        (120, -120, out, 0),
        (150, -300, out, parked),
        (180, -180, out, parked),
        (210, -60, out, parked),
        (240, 60, UNDER, 0),
    ];
    for (ms, credits, label, held) in expected {
        run_through(&mut host, ms);
        assert_eq!(
            (credit(&host, e), priority(&host, e), shows(&host, e, "parked")),
            (credits, label, held),
            "{ms} ms"
        );
        assert_eq!(host.machine().is_held(e), held == 1);
        assert_eq!(running(&host, CPU).is_some(), held == 0);
    }
    host.run_until(at(90 + 10 * 150));
    assert_eq!(used(&mut host, e), Nanos::ms(30 + 10 * 60));
}

#[test]
fn caps_bound_what_a_domain_uses() {
    for (cpus, percent, members) in [(1, 25, 1), (1, 40, 1), (2, 150, 2), (4, 100, 4)] {
        let mut host = host(cpus);
        let vm = group(&mut host, capped(percent));
        let hogs: Vec<EntityId> = (0..members).map(|_| hog(&mut host, member(vm))).collect();
        host.run_until(at(30_000));
        let got: Nanos = hogs.iter().map(|&e| used(&mut host, e)).sum();
        let due = Nanos::s(30).scale(percent.into(), 100);
        // At most the cap and the largest debt; at least the cap minus the largest credit.
        let bound = Nanos::ms(60).saturating_mul(members);
        assert!(got <= due + bound && got + bound >= due, "{percent} %: {got} of {due}");
    }
}

#[test]
fn a_cap_that_is_lifted_lets_the_parked_run_at_the_next_credit() {
    let mut host = host(1);
    let vm = group(&mut host, capped(10));
    let e = hog(&mut host, member(vm));
    run_through(&mut host, 30);
    assert_eq!(credit(&host, e), -270);
    host.adjust_group(vm, GroupParams::default()).expect("accepted");
    run_through(&mut host, 60);
    // Without a cap, both T and the peak are 300 + 270, so the vCPU earns 570 credits.
    assert_eq!((credit(&host, e), shows(&host, e, "parked")), (300, 0));
    host.run_until(at(1_060));
    assert_eq!(used(&mut host, e), Nanos::ms(30 + 1_000));
}

#[test]
fn a_parked_entity_that_leaves_its_domain_or_sleeps_is_unparked_all_the_same() {
    let mut host = host(1);
    let vm = group(&mut host, capped(10));
    let [mover, sleeper] = [(), ()].map(|()| hog(&mut host, member(vm)));
    run_through(&mut host, 20);
    run_through(&mut host, 60);
    host.pause(sleeper);
    host.adjust(mover, Params::default()).expect("accepted");
    host.run_until(at(2_000));
    assert_eq!((shows(&host, mover, "parked"), running(&host, CPU)), (0, Some(mover)));
    host.resume(sleeper);
    host.run_until(at(4_000));
    let before = used(&mut host, sleeper);
    host.run_until(at(14_000));
    let got = used(&mut host, sleeper) - before;
    assert!(got >= Nanos::ms(900) && got <= Nanos::ms(1_100), "10 % of 10 s: {got}");
}

#[test]
fn earning_ends_above_300_credits() {
    let mut host = host(1);
    let e = scripted(&mut host, Params::default());
    interrupt(&mut host, e);
    run_through(&mut host, 10);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (-100, 1));
    host.block(CPU);
    run_through(&mut host, 30);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (200, 1));
    run_through(&mut host, 60);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (0, 0));
    run_through(&mut host, 90);
    assert_eq!((credit(&host, e), priority(&host, e)), (0, UNDER), "an inactive vCPU earns nothing");
}

#[test]
fn exactly_300_credits_are_kept() {
    // The vCPU runs for 30 ms and then blocks. It has 0 credits at the first accounting, 300 at the second, and 600 at
    // the third, which empties the account.
    let mut host = host_of(sched::Topology::new(1), &[("slice", 100_000_000)]);
    let e = scripted(&mut host, Params::default());
    interrupt(&mut host, e);
    host.run_until(at(30));
    host.block(CPU);
    run_through(&mut host, 30);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (0, 1));
    run_through(&mut host, 60);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (300, 1));
    run_through(&mut host, 90);
    assert_eq!((credit(&host, e), shows(&host, e, "active")), (0, 0));
}

#[test]
fn a_domain_weight_is_shared_by_its_active_members() {
    let mut host = host(1);
    let vm = group(&mut host, GroupParams::default());
    let [first, second] = [(), ()].map(|()| hog(&mut host, member(vm)));
    let alone = hog(&mut host, Params::default());
    host.run_until(at(30_000));
    assert_shares(&mut host, &[(first, 1), (second, 1), (alone, 2)], Nanos::s(30), Nanos::ms(150));
    // The credits of a paused member go to its sibling, not to the other domain.
    let before = [first, alone].map(|e| used(&mut host, e));
    host.pause(second);
    host.run_until(at(60_000));
    for (e, before) in [first, alone].into_iter().zip(before) {
        let got = used(&mut host, e) - before;
        assert!(got >= Nanos::ms(14_850) && got <= Nanos::ms(15_150), "half each: {got}");
    }
}

#[test]
fn weights_share_one_two_and_four_cpus() {
    // Accounts above 300 credits are emptied, and debt beyond 300 credits is forgiven, so the shares are not exact. The
    // bound is 1.5 % of a CPU plus 400 ms.
    for (cpus, weights) in [(1, vec![256, 512, 1024]), (2, vec![256, 256, 512, 768, 768]), (4, vec![128; 11])] {
        let mut host = host(cpus);
        let hogs: Vec<(EntityId, u64)> =
            weights.iter().map(|&weight| (hog(&mut host, weighing(weight)), u64::from(weight))).collect();
        for seconds in [3, 30, 300] {
            host.run_until(at(1_000 * seconds));
            let bound = Nanos::ms(400) + Nanos::ms(15 * seconds);
            assert_shares(&mut host, &hogs, Nanos::s(seconds).saturating_mul(cpus as u64), bound);
        }
    }
}

#[test]
fn three_equal_vms_on_two_cpus_get_two_thirds_of_a_cpu_each() {
    let mut host = host(2);
    let vms = [(), (), ()].map(|()| group(&mut host, GroupParams::default()));
    let hogs = vms.map(|vm| (hog(&mut host, member(vm)), 1));
    host.run_until(at(60_000));
    assert_shares(&mut host, &hogs, Nanos::s(120), Nanos::ms(120));
}

#[test]
fn a_domain_too_heavy_for_its_members_leaves_the_rest_to_the_others() {
    let mut host = host(2);
    let heavy = hog(&mut host, weighing(2560));
    let [a, b] = [256, 256].map(|weight| hog(&mut host, weighing(weight)));
    host.run_until(at(30_000));
    assert_shares(&mut host, &[(heavy, 2), (a, 1), (b, 1)], Nanos::s(60), Nanos::ms(240));
}

#[test]
fn a_change_of_weight_counts_from_the_next_accounting() {
    let mut host = host(1);
    let [a, b] = [256, 256].map(|weight| hog(&mut host, weighing(weight)));
    host.run_until(at(9_000));
    let before = [a, b].map(|e| used(&mut host, e));
    host.adjust(b, weighing(768)).expect("accepted");
    host.run_until(at(29_000));
    let [got_a, got_b] = [used(&mut host, a) - before[0], used(&mut host, b) - before[1]];
    assert!(got_a.saturating_sub(Nanos::s(5)) <= Nanos::ms(120) && got_b + Nanos::ms(120) >= Nanos::s(15));
    assert!(got_a + Nanos::ms(120) >= Nanos::s(5) && got_a + got_b == Nanos::s(20));
}

#[test]
fn late_ticks_and_accountings_come_once_and_keep_their_phase() {
    use sched::{Action, Alarm, AlarmOwner, Input};
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let e = machine.attach(Instant::ZERO, Params::default()).expect("accepted");
    machine.input(Instant::ZERO, Input::Wake { entity: e, why: Wake::Timer });
    let (tick, accounting) =
        (Alarm { owner: AlarmOwner::Cpu(CPU), slot: 0 }, Alarm { owner: AlarmOwner::Policy, slot: 0 });
    let set_at = |actions: &[Action], alarm: Alarm| {
        actions.iter().find_map(|action| match *action {
            Action::SetAlarm { alarm: set, at, .. } if set == alarm => Some(at),
            _ => None,
        })
    };
    let actions = machine.settle(Instant::ZERO);
    assert_eq!((set_at(actions, tick), set_at(actions, accounting)), (Some(at(10)), Some(at(30))));
    // The driver delivers both alarms late, at 74 ms, the accounting alarm first. The accounting also handles the tick,
    // which is due.
    machine.input(at(74), Input::Alarm { alarm: accounting });
    machine.input(at(74), Input::Alarm { alarm: tick });
    machine.input(at(74), Input::Expire { cpu: CPU });
    let actions = machine.settle(at(74));
    assert_eq!((set_at(actions, tick), set_at(actions, accounting)), (Some(at(80)), Some(at(90))));
    assert_eq!(machine.inspect(e, "credit"), Some(-300), "−740 + 300, but no less than −300");
    assert_eq!(machine.until(CPU), at(104));
}

#[test]
fn an_idle_host_is_quiet() {
    let mut events = trace::Trace::new(trace::Header { policy: POLICY.name.to_string(), cpus: 2, seed: 0 });
    let mut host = host(2);
    host.watch(&mut events);
    let e = scripted(&mut host, Params::default());
    interrupt(&mut host, e);
    run_through(&mut host, 10);
    host.block(CPU);
    host.run_until(at(10_000));
    drop(host);
    // The second accounting removes the vCPU from the active list, and the third finds the list empty. After that, no
    // alarm fires.
    assert_eq!(events.events.last().expect("something happened").0, at(90));
}
