//! Tests of changes of parameters, including those of delayed sleepers.

use super::*;
use crate::fixture;
use sched::{GroupParams, Input, Machine, Weight};

/// Returns a host with a hog on CPU 0, and a task that sleeps on CPU 0 with a debt of 0.3 ms.
fn with_delayed(cpus: usize) -> (World, EntityId, EntityId) {
    let mut world = several(cpus, &[("tick", ms(20)), ("base-slice", ms(if cpus == 1 { 5 } else { 30 }))]);
    let a = world.scripted(on(&[0], nice(0)));
    let hog = run_ahead(&mut world, a, Nanos::us(600), on(&[0], nice(0)));
    block(&mut world);
    assert_eq!((world.inspect(a, "delayed"), world.running(0)), (1, Some(hog)));
    (world, a, hog)
}

#[test]
fn a_delayed_sleeper_wakes_where_it_is_though_another_cpu_idles() {
    let (mut world, a, _) = with_delayed(2);
    world.host.adjust(a, nice(0)).unwrap();
    world.host.wake(a, Wake::Timer);
    assert_eq!(world.cpu_of(a), 0, "it has not left");
    world.until_ms(200);
    assert_eq!(world.running(1), Some(a), "but it does not wait there for ever while another CPU idles");
}

#[test]
fn a_delayed_sleeper_that_may_not_run_there_any_more_leaves() {
    let (mut world, a, _) = with_delayed(2);
    world.host.adjust(a, on(&[1], nice(0))).unwrap();
    assert_eq!(world.inspect(a, "delayed"), 0);
    world.wake(a);
    world.settle();
    assert_eq!(world.running(1), Some(a));
}

#[test]
fn a_delayed_sleeper_may_leave_for_good_and_its_id_start_afresh() {
    let (mut world, a, hog) = with_delayed(1);
    world.host.detach(a);
    world.settle();
    assert_eq!((world.running(0), lag(&world, hog)), (Some(hog), 0), "it is alone");
    let new = world.scripted(nice(0));
    assert_eq!(new.index(), a.index());
    world.wake(new);
    assert_eq!(world.vruntime(new), world.vruntime(hog));
}

#[test]
fn a_delayed_sleeper_changes_groups_weight_and_class() {
    let (mut world, a, hog) = with_delayed(1);
    let owed = lag(&world, a);
    world.host.adjust(a, nice(5)).unwrap();
    let weighed = lag(&world, a);
    assert!((weighed - owed * 1024 / 335).abs() < 10, "{weighed}: as much CPU time");
    world.host.adjust(a, class(Class::Idle)).unwrap();
    let group = world.group(1024, GroupId::ROOT);
    world.host.adjust(a, within(group, nice(0))).unwrap();
    assert_eq!(world.inspect(a, "delayed"), 0);
    world.wake(a);
    world.until_ms(1_000);
    let before = world.ran(a);
    world.until_ms(3_000);
    assert_near(world.ran(a) - before, Nanos::s(1), Nanos::ms(25));
    assert!(world.ran(hog) > Nanos::s(1));
}

#[test]
fn a_delayed_sleeper_of_a_throttled_group_wakes_and_is_held() {
    let (mut world, a, hog) = with_delayed(1);
    let group = world.limited_group(Nanos::ms(20), Nanos::ms(100), GroupId::ROOT);
    for e in [a, hog] {
        world.host.adjust(e, within(group, nice(0))).unwrap();
    }
    world.wake(a);
    until_running(&mut world, a, true);
    world.host.run_until(world.host.now() + Nanos::us(200));
    block(&mut world);
    world.until_ms(95);
    assert!(world.host.machine().is_held(hog), "its quota is used up");
    assert!(!world.host.machine().is_held(a), "it sleeps");
    world.wake(a);
    world.settle();
    assert!(world.host.machine().is_held(a));
    world.until_ms(2_100);
    assert!(world.ran(a) > Nanos::ms(150) && world.ran_all(&[a, hog]) < Nanos::ms(470));
}

#[test]
fn a_group_may_go_while_its_part_still_pays() {
    let cpu = CpuId::new(0);
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let group = machine.create_group(Instant::ZERO, GroupParams::default(), GroupId::ROOT).unwrap();
    let inside = machine.attach(Instant::ZERO, within(group, nice(0))).unwrap();
    let hog = machine.attach(Instant::ZERO, nice(0)).unwrap();
    let drive = |machine: &mut Machine, at: Instant, input: Input| {
        machine.input(at, input);
        machine.settle(at);
    };
    for entity in [inside, hog] {
        drive(&mut machine, Instant::ZERO, Input::Wake { entity, why: Wake::Timer });
    }
    assert_eq!(machine.running(cpu), Some(inside));
    drive(&mut machine, at_ms(1), Input::Block { cpu });
    machine.detach(at_ms(1), inside);
    assert_eq!(machine.inspect(hog, "lag"), Some(500_000), "the group's part is queued beside it, and 1 ms ahead");
    machine.remove_group(at_ms(1), group).unwrap();
    assert_eq!(machine.inspect(hog, "lag"), Some(0));
    let again = machine.create_group(at_ms(1), GroupParams::default(), GroupId::ROOT).unwrap();
    assert_eq!(again.index(), group.index());
    let inside = machine.attach(at_ms(1), within(again, nice(0))).unwrap();
    drive(&mut machine, at_ms(1), Input::Wake { entity: inside, why: Wake::Timer });
    assert_eq!(machine.inspect(hog, "lag"), Some(0), "a new group owes nothing");
}

#[test]
fn a_new_weight_leaves_what_is_owed_and_the_average_as_they_are() {
    let mut world = one(&[("tick", ms(20)), ("base-slice", ms(5))]);
    let hogs = [0, 5, -5].map(|n| world.hog(nice(n)));
    // A tick at 40 ms charges the running task.
    world.until_ms(40);
    world.settle();
    for (e, old, level, new) in [(hogs[0], 1024, -3, 1991), (hogs[1], 335, 0, 1024), (hogs[2], 3121, 10, 110)] {
        let average = world.vruntime(e) + lag(&world, e);
        let owed = lag(&world, e) * old;
        // `rest` is the virtual time from the average to the deadline, times the weight.
        let rest = (left(&world, e) - lag(&world, e)) * old;
        world.host.adjust(e, nice(level)).unwrap();
        let now = world.vruntime(e) + lag(&world, e);
        assert!((now - average).abs() <= 2, "{now} was {average}");
        assert!((lag(&world, e) * new - owed).abs() <= 3 * new.max(old), "{}", lag(&world, e));
        let rest_now = (left(&world, e) - lag(&world, e)) * new;
        assert!((rest_now - rest).abs() <= 6 * new.max(old), "{rest_now} was {rest}");
    }
    let shares = [1991, 1024, 110];
    let before = hogs.map(|e| world.ran(e));
    world.until_ms(20_040);
    for ((e, before), part) in hogs.into_iter().zip(before).zip(shares) {
        assert_near(world.ran(e) - before, Nanos::s(20).scale(part, 3125), Nanos::ms(3 * 25));
    }
}

#[test]
fn a_new_weight_counts_for_a_sleeper_too() {
    let mut world = one(&[V6_6, ("tick", ms(20)), ("base-slice", ms(5))]);
    let a = world.scripted(nice(0));
    world.hog(nice(0));
    world.wake(a);
    until_running(&mut world, a, true);
    world.host.run_until(world.host.now() + Nanos::us(600));
    block(&mut world);
    let owed = lag(&world, a);
    world.host.adjust(a, Params { weight: Weight::linux(4096).unwrap(), ..Params::default() }).unwrap();
    assert_eq!(lag(&world, a), owed / 4);
}

#[test]
fn slices_may_be_asked_for_at_any_time() {
    let mut world = one(&[("base-slice", ms(3))]);
    let hogs = world.hogs(2, nice(0));
    world.until_ms(100);
    assert!(turns(&world, hogs[0]).iter().any(|&turn| turn == Nanos::ms(3)));
    for &e in &hogs {
        world.host.adjust(e, asking(Nanos::ms(10), nice(0))).unwrap();
    }
    world.until_ms(130);
    let before = turns(&world, hogs[0]).len();
    world.until_ms(300);
    assert!(turns(&world, hogs[0])[before..].iter().all(|&turn| turn == Nanos::ms(10)));
    world.host.adjust(hogs[0], nice(0)).unwrap();
    assert_eq!(world.inspect(hogs[0], "slice"), ms(3));
}

#[test]
fn a_waiting_task_with_a_shorter_request_shortens_the_protection_of_the_running_one_in_v6_17() {
    let mut world = one(&[V6_17, ("base-slice", ms(10))]);
    let hogs = world.hogs(2, nice(0));
    world.until_ms(60);
    let before = turns(&world, hogs[0]).len();
    world.host.adjust(hogs[1], asking(Nanos::ms(2), nice(0))).unwrap();
    world.until_ms(160);
    // The first time slice began before the change, so it is skipped.
    let later = &turns(&world, hogs[0])[before + 1..];
    assert!(later.iter().all(|&turn| turn <= Nanos::ms(3)), "{later:?}");
}
