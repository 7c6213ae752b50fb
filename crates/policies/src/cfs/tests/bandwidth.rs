//! Tests of quotas.

use super::*;
use crate::fair::{PERIOD, SLACK};
use crate::fixture;
use sched::{Alarm, AlarmOwner, Input};

/// Returns a group with a quota of 50 ms in 100 ms, and its two hogs, each pinned to a CPU.
fn two_limited_hogs() -> (World, GroupId, [EntityId; 2]) {
    let mut world = World::new(2);
    let group = world.limited_group(Nanos::ms(50), Nanos::ms(100), GroupId::ROOT);
    let hogs = [0, 1].map(|cpu| world.hog(on(&[cpu], within(group, nice(0)))));
    (world, group, hogs)
}

fn is_held(world: &World, e: EntityId) -> bool {
    world.host.machine().is_held(e)
}

#[test]
fn example_b_both_cpus_are_throttled_at_25_ms_and_refilled_at_100() {
    let (mut world, _, hogs) = two_limited_hogs();
    world.until_ms(25);
    assert_eq!((world.running(0), world.running(1)), (Some(hogs[0]), Some(hogs[1])));
    world.settle();
    assert_eq!((world.running(0), world.running(1)), (None, None));
    for e in hogs {
        assert!(is_held(&world, e));
        assert_eq!(world.ran(e), Nanos::ms(25));
    }
    world.until_ms(100);
    assert_eq!((world.running(0), world.running(1)), (None, None));
    world.settle();
    assert_eq!((world.running(0), world.running(1)), (Some(hogs[0]), Some(hogs[1])));
    assert!(!is_held(&world, hogs[0]));
}

#[test]
fn a_quota_is_kept_over_ten_seconds_within_a_bite_per_cpu() {
    let (mut world, _, hogs) = two_limited_hogs();
    for period in 1..=100 {
        world.until_ms(100 * period);
        assert_near(world.ran_all(&hogs), Nanos::ms(50 * period), Nanos::ms(5 * 2));
    }
}

#[test]
fn an_overdraft_is_paid_in_the_next_period() {
    // With ticks of 10 ms, a used-up quota is detected late.
    let mut world = World::with(Topology::new(1), &[("tick", ms(10))]);
    let group = world.limited_group(Nanos::ms(23), Nanos::ms(100), GroupId::ROOT);
    let e = world.hog(within(group, nice(0)));
    world.until_ms(100);
    assert_eq!(world.ran(e), Nanos::ms(30), "the tick that finds it out comes at 30 ms");
    world.until_ms(200);
    assert_eq!(world.ran(e), Nanos::ms(50), "7 of the next 23 ms were spent already; a tick comes at 120");
    world.until_ms(10_000);
    assert_near(world.ran(e), Nanos::ms(2_300), Nanos::ms(10));
}

#[test]
fn what_is_outside_the_group_runs_on() {
    let mut world = World::new(1);
    let group = world.limited_group(Nanos::ms(10), Nanos::ms(100), GroupId::ROOT);
    let inside = world.hogs(3, within(group, nice(0)));
    let outside = world.hog(nice(0));
    world.until_ms(10_000);
    assert_near(world.ran_all(&inside), Nanos::s(1), Nanos::ms(5));
    assert_near(world.ran(outside), Nanos::s(9), Nanos::ms(5));
}

#[test]
fn nested_quotas_hold_at_every_level() {
    for (outer, inner, right) in [(30, 50, 30), (50, 20, 20)] {
        let mut world = World::new(1);
        let outer = world.limited_group(Nanos::ms(outer), Nanos::ms(100), GroupId::ROOT);
        let inner = world.limited_group(Nanos::ms(inner), Nanos::ms(100), outer);
        let e = world.hog(within(inner, nice(0)));
        world.until_ms(5_000);
        assert_near(world.ran(e), Nanos::ms(50 * right), Nanos::ms(5));
    }
}

#[test]
fn a_throttled_inner_group_leaves_the_outer_one_to_its_siblings() {
    let mut world = World::new(1);
    let outer = world.limited_group(Nanos::ms(60), Nanos::ms(100), GroupId::ROOT);
    let inner = world.limited_group(Nanos::ms(10), Nanos::ms(50), outer);
    let deep = world.hog(within(inner, nice(0)));
    let sibling = world.hog(within(outer, nice(0)));
    world.until_ms(10_000);
    assert_near(world.ran(deep) + world.ran(sibling), Nanos::s(6), Nanos::ms(5));
    // In every 100 ms, the inner group receives 10 of the first 20 ms. From 50 ms on, it receives half of the 10 ms
    // that are left of the outer quota.
    assert_near(world.ran(deep), Nanos::ms(1_500), Nanos::ms(100));
}

#[test]
fn a_task_that_wakes_in_a_throttled_group_is_held_until_the_refill() {
    let mut world = World::new(1);
    let group = world.limited_group(Nanos::ms(5), Nanos::ms(100), GroupId::ROOT);
    world.hog(within(group, nice(0)));
    let sleeper = world.scripted(within(group, nice(0)));
    world.until_ms(50);
    world.wake(sleeper);
    world.settle();
    assert!(is_held(&world, sleeper));
    world.until_ms(101);
    assert!(!is_held(&world, sleeper) && world.running(0).is_some());
}

#[test]
fn a_task_that_wakes_in_an_idle_group_without_quota_is_held_as_well() {
    let mut world = World::new(2);
    let group = world.limited_group(Nanos::ms(20), Nanos::ms(100), GroupId::ROOT);
    world.hog(on(&[0], within(group, nice(0))));
    let sleeper = world.scripted(on(&[1], within(group, nice(0))));
    world.until_ms(50);
    world.wake(sleeper);
    world.settle();
    assert!(is_held(&world, sleeper), "the pool is dry");
    world.until_ms(101);
    assert_eq!(world.running(1), Some(sleeper));
}

#[test]
fn a_held_task_may_sleep_leave_or_be_stopped() {
    let (mut world, _, [a, b]) = two_limited_hogs();
    world.until_ms(50);
    world.host.pause(a);
    world.settle();
    assert!(!is_held(&world, a), "it waits for nothing any more");
    world.host.detach(b);
    world.until_ms(60);
    world.host.resume(a);
    world.settle();
    assert!(is_held(&world, a));
    world.until_ms(101);
    assert_eq!(world.running(0), Some(a));
}

#[test]
fn leaving_a_throttled_group_ends_the_hold_and_joining_one_begins_it() {
    let mut world = World::new(1);
    let group = world.limited_group(Nanos::ms(10), Nanos::ms(100), GroupId::ROOT);
    let leaves = world.hog(within(group, nice(0)));
    world.until_ms(50);
    assert_eq!(world.running(0), None);
    world.host.adjust(leaves, nice(0)).unwrap();
    world.settle();
    assert_eq!(world.running(0), Some(leaves));
    world.until_ms(60);
    // The task joins the group while it runs. The group has no quota left.
    world.host.adjust(leaves, within(group, nice(0))).unwrap();
    world.settle();
    assert_eq!((world.running(0), is_held(&world, leaves)), (None, true));
    world.until_ms(101);
    assert_eq!(world.running(0), Some(leaves));
}

#[test]
fn a_new_quota_ends_throttling_and_none_ends_it_for_good() {
    let (mut world, group, hogs) = two_limited_hogs();
    world.until_ms(50);
    let quota = Some(Quota::new(Nanos::ms(80), Nanos::ms(100)).unwrap());
    world.host.adjust_group(group, GroupParams { quota, ..GroupParams::default() }).unwrap();
    world.until_ms(95);
    assert_eq!(world.ran_all(&hogs), Nanos::ms(50 + 80));
    assert!(is_held(&world, hogs[0]) && is_held(&world, hogs[1]));
    world.host.adjust_group(group, GroupParams::default()).unwrap();
    world.until_ms(1_095);
    assert_eq!(world.ran_all(&hogs), Nanos::ms(50 + 80 + 2_000));
}

#[test]
fn a_quota_given_to_a_running_group_takes_effect() {
    let mut world = World::new(1);
    let group = world.group(1024, GroupId::ROOT);
    let e = world.hog(within(group, nice(0)));
    world.until_ms(200);
    let quota = Some(Quota::new(Nanos::ms(10), Nanos::ms(100)).unwrap());
    world.host.adjust_group(group, GroupParams { quota, ..GroupParams::default() }).unwrap();
    world.until_ms(300);
    assert_eq!(world.ran(e), Nanos::ms(210));
}

#[test]
fn a_group_that_goes_idle_returns_all_but_a_millisecond() {
    // Three short runs take a bandwidth slice of 5 ms each, at 8 ms. The pool is empty when the hog needs its third
    // slice.
    let mut world = World::new(4);
    let group = world.limited_group(Nanos::ms(25), Nanos::ms(100), GroupId::ROOT);
    let hog = world.hog(on(&[0], within(group, nice(0))));
    let short = [1, 2, 3].map(|cpu| world.scripted(on(&[cpu], within(group, nice(0)))));
    world.until_ms(8);
    short.into_iter().for_each(|e| world.wake(e));
    world.host.run_until(Instant::at_ns(10_100_000));
    assert!(is_held(&world, hog));
    for cpu in 1..4 {
        world.host.block(CpuId::new(cpu));
    }
    // Each short task has used 2.1 ms and returns 1.9 ms. The sum of 5.7 ms is distributed 5 ms later.
    world.host.run_until(Instant::at_ns(15_100_000));
    assert!(is_held(&world, hog));
    world.settle();
    assert_eq!(world.running(0), Some(hog));
    world.until_ms(99);
    assert_near(world.ran(hog), Nanos::us(15_700), Nanos::ms(1));
}

#[test]
fn returned_quota_waits_for_a_refill_that_is_near() {
    let mut world = World::new(4);
    let group = world.limited_group(Nanos::ms(25), Nanos::ms(16), GroupId::ROOT);
    // The same tasks as in the previous test, but the next period begins 5.9 ms after the return.
    let hog = world.hog(on(&[0], within(group, nice(0))));
    let short = [1, 2, 3].map(|cpu| world.scripted(on(&[cpu], within(group, nice(0)))));
    world.until_ms(8);
    short.into_iter().for_each(|e| world.wake(e));
    world.host.run_until(Instant::at_ns(10_100_000));
    (1..4).for_each(|cpu| world.host.block(CpuId::new(cpu)));
    world.until_ms(16);
    assert!(is_held(&world, hog));
    world.settle();
    assert!(!is_held(&world, hog));
    assert_eq!(world.record.borrow().slack_alarms, 0);
}

#[test]
fn a_late_slack_timer_leaves_a_near_refill_to_do_its_work() {
    let mut machine = fixture::machine(&POLICY, 4, &POLICY.defaults());
    let quota = Some(Quota::new(Nanos::ms(25), Nanos::ms(100)).unwrap());
    let limited = GroupParams { quota, ..GroupParams::default() };
    let group = machine.create_group(Instant::ZERO, limited, GroupId::ROOT).unwrap();
    let [hog, a, b, c] = [0, 1, 2, 3].map(|cpu| {
        let params = on(&[cpu], within(group, nice(0)));
        machine.attach(Instant::ZERO, params).unwrap()
    });
    let mut tell = |at: Instant, inputs: &[Input]| {
        inputs.iter().for_each(|&input| machine.input(at, input));
        machine.settle(at);
        machine.is_held(hog)
    };
    let alarm = |of: AlarmOwner, slot: u8| Input::Alarm { alarm: Alarm { owner: of, slot } };
    let wake = |entity: EntityId| Input::Wake { entity, why: Wake::Timer };
    let tick = alarm(AlarmOwner::Cpu(CpuId::new(0)), 0);
    tell(Instant::ZERO, &[wake(hog)]);
    tell(at_ms(5), &[tick]);
    tell(at_ms(8), &[wake(a), wake(b), wake(c)]);
    assert!(tell(at_ms(10), &[tick]), "the pool is dry");
    let blocks = [1, 2, 3].map(|cpu| Input::Block { cpu: CpuId::new(cpu) });
    tell(at_ms(10) + Nanos::us(100), &blocks);
    // The slack alarm was due at 15.1 ms.
    assert!(tell(at_ms(99), &[alarm(AlarmOwner::Group(group), SLACK)]));
    assert!(!tell(at_ms(100), &[alarm(AlarmOwner::Group(group), PERIOD)]));
}

#[test]
fn a_throttled_group_returns_with_a_sleepers_credit_only() {
    for (place_unthrottled, outside_first) in [(1, true), (0, false)] {
        let mut world = World::with(Topology::new(1), &[("place-unthrottled", place_unthrottled)]);
        let group = world.limited_group(Nanos::ms(20), Nanos::ms(1_000), GroupId::ROOT);
        let inside = world.hog(within(group, nice(0)));
        let outside = world.hog(nice(0));
        world.until_ms(1_000);
        assert!(is_held(&world, inside));
        let before = world.ran(outside);
        world.until_ms(1_025);
        let ran = world.ran(outside) - before;
        // `inside` is owed at most 3 ms: it runs first, then both tasks alternate. Without `place-unthrottled`,
        // `inside` is owed far more and uses up its quota at once.
        assert_eq!(ran >= Nanos::ms(7), outside_first, "{ran}");
        assert_eq!(is_held(&world, inside), !outside_first);
    }
}

#[test]
fn a_refill_pays_debts_and_a_nanosecond_each() {
    // CPU 0 takes the whole quota of 2 ms before the other tasks arrive. The refill of 2 ms lets all three tasks run.
    let mut world = World::new(3);
    let group = world.limited_group(Nanos::ms(2), Nanos::ms(100), GroupId::ROOT);
    let hogs = [0, 1, 2].map(|cpu| world.hog(on(&[cpu], within(group, nice(0)))));
    world.until_ms(50);
    assert_eq!(hogs.map(|e| world.ran(e)), [Nanos::ms(2), Nanos::ZERO, Nanos::ZERO]);
    world.until_ms(100);
    world.settle();
    assert_eq!([0, 1, 2].map(|cpu| world.running(cpu)), hogs.map(Some));
    world.until_ms(10_000);
    assert_near(world.ran_all(&hogs), Nanos::ms(200), Nanos::ms(3));
}

#[test]
fn an_idle_cpu_pulls_no_task_whose_group_is_throttled_there() {
    // CPU 1 has a bandwidth slice of 10 ms, CPU 0 a slice of 50 ms.
    let mut world = World::with(Topology::new(2), &[("bandwidth-slice", ms(50))]);
    let group = world.limited_group(Nanos::ms(60), Nanos::ms(100), GroupId::ROOT);
    let free = world.hogs(2, on(&[0], within(group, nice(0))));
    let there = world.hog(on(&[1], within(group, nice(0))));
    world.until_ms(6);
    free.iter().for_each(|&e| world.host.adjust(e, within(group, nice(0))).unwrap());
    world.until_ms(11);
    assert!(is_held(&world, there));
    world.until_ms(50);
    assert!(free.iter().all(|&e| !is_held(&world, e)), "one would be held for nothing on CPU 1");
    assert_eq!(world.ran_all(&free), Nanos::ms(50));
}

#[test]
fn periods_stop_while_no_task_spends() {
    let mut world = World::new(1);
    let group = world.limited_group(Nanos::ms(50), Nanos::ms(100), GroupId::ROOT);
    let e = world.scripted(within(group, nice(0)));
    world.wake(e);
    world.until_ms(10);
    world.host.block(CpuId::new(0));
    world.until_ms(1_000);
    let alarms = world.record.borrow().alarms;
    world.until_ms(2_000);
    assert_eq!(world.record.borrow().alarms, alarms, "no alarm goes off while every task sleeps");
    world.wake(e);
    world.until_ms(2_100);
    assert_eq!(world.ran(e), Nanos::ms(10 + 1 + 50), "the CPU had kept 1 ms, the pool was full");
}

#[test]
fn the_root_group_takes_no_quota() {
    let mut world = World::new(1);
    let quota = Some(Quota::new(Nanos::ms(50), Nanos::ms(100)).unwrap());
    let answer = world.host.adjust_group(GroupId::ROOT, GroupParams { quota, ..GroupParams::default() });
    assert!(answer.is_err());
}
