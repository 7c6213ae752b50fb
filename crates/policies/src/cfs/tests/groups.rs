//! Tests of nested groups.

use super::*;
use crate::fixture;
use sched::{Alarm, AlarmOwner, Input};

#[test]
fn groups_share_by_their_weights_whatever_is_in_them() {
    let mut world = World::new(1);
    let (a, b) = (world.group(2048, GroupId::ROOT), world.group(1024, GroupId::ROOT));
    let one = world.hogs(1, within(a, nice(0)));
    let three = world.hogs(3, within(b, nice(0)));
    world.until_ms(10_000);
    assert_near(world.ran_all(&one), Nanos::s(10).scale(2, 3), Nanos::ms(10));
    assert_near(world.ran_all(&three), Nanos::s(10).scale(1, 3), Nanos::ms(10));
    for e in three {
        assert_near(world.ran(e), Nanos::s(10).scale(1, 9), Nanos::ms(10));
    }
}

#[test]
fn shares_multiply_down_the_tree() {
    let mut world = World::new(1);
    let a = world.group(3072, GroupId::ROOT);
    let (inner, other) = (world.group(1024, a), world.group(512, a));
    let deep = world.hog(within(inner, nice(0)));
    let deep_light = world.hog(within(inner, nice(5)));
    let [shallow, root] = [world.hog(within(other, nice(-5))), world.hog(nice(0))];
    world.until_ms(20_000);
    let all = Nanos::s(20);
    let of_a = all.scale(3, 4);
    assert_near(world.ran(root), all.scale(1, 4), Nanos::ms(20));
    assert_near(world.ran(shallow), of_a.scale(1, 3), Nanos::ms(20));
    assert_near(world.ran(deep), of_a.scale(2, 3).scale(1024, 1359), Nanos::ms(20));
    assert_near(world.ran(deep_light), of_a.scale(2, 3).scale(335, 1359), Nanos::ms(20));
}

#[test]
fn slices_multiply_down_the_tree() {
    let mut world = World::new(1);
    let a = world.group(1024, GroupId::ROOT);
    let inside = world.hogs(2, within(a, nice(0)));
    let outside = world.hog(nice(0));
    world.settle();
    assert_eq!((world.inspect(inside[0], "slice"), world.inspect(outside, "slice")), (1_500_000, 3_000_000));
}

#[test]
fn a_group_on_one_cpu_has_its_full_weight_there_and_on_two_cpus_half_on_each() {
    for (inside, part) in [(vec![0], (1, 2)), (vec![0, 1], (1, 3))] {
        let mut world = World::new(2);
        let group = world.group(1024, GroupId::ROOT);
        let members: Vec<_> = inside.iter().map(|&cpu| world.hog(on(&[cpu], within(group, nice(0))))).collect();
        world.hog(on(&[0], nice(0)));
        world.hog(on(&[1], nice(0)));
        world.until_ms(10_000);
        let right = Nanos::s(10).scale(part.0, part.1);
        for e in members {
            assert_near(world.ran(e), right, Nanos::ms(30));
        }
    }
}

#[test]
fn a_group_whose_load_is_uneven_has_more_weight_where_there_is_more() {
    let mut world = World::new(2);
    let group = world.group(1024, GroupId::ROOT);
    let three = [0, 0, 0].map(|cpu| world.hog(on(&[cpu], within(group, nice(0)))));
    let one = world.hog(on(&[1], within(group, nice(0))));
    let [beside_three, beside_one] = [0, 1].map(|cpu| world.hog(on(&[cpu], nice(0))));
    world.until_ms(10_000);
    // Of the group's weight of 1024, 768 are on CPU 0 and 256 on CPU 1.
    assert_near(world.ran_all(&three), Nanos::s(10).scale(3, 7), Nanos::ms(30));
    assert_near(world.ran(beside_three), Nanos::s(10).scale(4, 7), Nanos::ms(30));
    assert_near(world.ran(one), Nanos::s(10).scale(1, 5), Nanos::ms(30));
    assert_near(world.ran(beside_one), Nanos::s(10).scale(4, 5), Nanos::ms(30));
}

#[test]
fn two_cpus_are_shared_by_group_weights_where_every_cpu_has_both() {
    let mut world = World::new(2);
    let (a, b) = (world.group(2048, GroupId::ROOT), world.group(1024, GroupId::ROOT));
    let heavy: Vec<_> = (0..4).map(|n| world.hog(on(&[n % 2], within(a, nice(0))))).collect();
    let light: Vec<_> = (0..2).map(|n| world.hog(on(&[n], within(b, nice(0))))).collect();
    world.until_ms(10_000);
    assert_near(world.ran_all(&heavy), Nanos::s(20).scale(2, 3), Nanos::ms(60));
    assert_near(world.ran_all(&light), Nanos::s(20).scale(1, 3), Nanos::ms(60));
}

#[test]
fn two_free_cpus_are_shared_by_group_weights_roughly() {
    let mut world = World::new(2);
    let (a, b) = (world.group(2048, GroupId::ROOT), world.group(1024, GroupId::ROOT));
    let heavy = world.hogs(4, within(a, nice(0)));
    let light = world.hogs(6, within(b, nice(0)));
    world.until_ms(20_000);
    assert_near(world.ran_all(&heavy), Nanos::s(40).scale(2, 3), Nanos::s(40).scale(5, 100));
    assert_near(world.ran_all(&light), Nanos::s(40).scale(1, 3), Nanos::s(40).scale(5, 100));
}

#[test]
fn wake_ups_are_compared_where_the_branches_meet() {
    // The wakee's own vruntime is far behind, but the vruntime of the wakee's group is not.
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let group = world.group(1024, GroupId::ROOT);
    let sleeper = world.scripted(within(group, nice(0)));
    let mate = world.hog(within(group, nice(0)));
    let outside = world.hog(nice(0));
    world.until_ms(1_000);
    // Runs until `outside` begins a time slice.
    for runs in [true, false] {
        while (world.running(0) == Some(outside)) == runs {
            world.host.run_until(world.host.now() + Nanos::us(100));
        }
    }
    world.wake(sleeper);
    world.settle();
    assert!(world.vruntime(sleeper) < world.vruntime(mate), "it is ahead of its mate");
    assert_eq!(world.running(0), Some(outside), "its group has just had its turn");
}

#[test]
fn a_group_with_a_blocked_member_continues_its_time_slice() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let group = world.group(1024, GroupId::ROOT);
    let sleeper = world.scripted(within(group, nice(0)));
    world.wake(sleeper);
    world.settle();
    let outside = world.hog(nice(0));
    let mate = world.hog(within(group, nice(0)));
    world.settle();
    assert_eq!(world.running(0), Some(sleeper));
    world.host.run_until(Instant::at_ns(500_000));
    world.host.block(CpuId::new(0));
    world.settle();
    // `outside` has not run yet, but the group is only half a millisecond ahead of it.
    assert_eq!(world.running(0), Some(mate));
    world.host.run_until(at_ms(10));
    assert!(world.ran(outside) > Nanos::ms(3));
}

#[test]
fn a_part_that_slept_has_no_more_credit_than_a_task() {
    // The group's entity on CPU 0 has been blocked for ten seconds when a member is moved to CPU 0.
    let mut world = World::new(2);
    let group = world.group(1024, GroupId::ROOT);
    let sleeper = world.scripted(on(&[0], within(group, nice(0))));
    world.wake(sleeper);
    world.until_ms(1);
    world.host.block(CpuId::new(0));
    let hog = world.hog(on(&[0], nice(0)));
    world.hog(on(&[1], nice(0)));
    let member = world.hog(on(&[1], within(group, nice(0))));
    world.until_ms(10_000);
    world.host.adjust(member, on(&[0], within(group, nice(0)))).unwrap();
    let before = (world.ran(hog), world.ran(member));
    world.until_ms(11_000);
    assert_near(world.ran(hog) - before.0, Nanos::ms(500), Nanos::ms(12));
    assert_near(world.ran(member) - before.1, Nanos::ms(500), Nanos::ms(12));
}

#[test]
fn a_new_group_weight_counts_at_once() {
    let mut world = World::new(1);
    let (a, b) = (world.group(1024, GroupId::ROOT), world.group(1024, GroupId::ROOT));
    let [in_a, in_b] = [a, b].map(|group| world.hog(within(group, nice(0))));
    world.until_ms(1_000);
    let heavier = GroupParams { weight: Weight::linux(4096).unwrap(), ..GroupParams::default() };
    world.host.adjust_group(a, heavier).unwrap();
    let before = (world.ran(in_a), world.ran(in_b));
    world.until_ms(11_000);
    assert_near(world.ran(in_a) - before.0, Nanos::s(8), Nanos::ms(12));
    assert_near(world.ran(in_b) - before.1, Nanos::s(2), Nanos::ms(12));
}

#[test]
fn a_group_of_the_least_weight_still_runs() {
    let mut world = World::new(1);
    let group = world.group(1, GroupId::ROOT);
    let light = world.hog(within(group, nice(0)));
    world.hog(nice(0));
    world.until_ms(30_000);
    // The minimum weight of a group is 2.
    assert_near(world.ran(light), Nanos::s(30).scale(2, 1026), Nanos::ms(8));
}

#[test]
fn a_removed_groups_index_starts_afresh() {
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let quota = Some(Quota::new(Nanos::ms(1), Nanos::ms(1_000)).unwrap());
    let limited = GroupParams { quota, ..GroupParams::default() };
    let old = machine.create_group(Instant::ZERO, limited, GroupId::ROOT).unwrap();
    let member = machine.attach(Instant::ZERO, within(old, nice(0))).unwrap();
    machine.input(Instant::ZERO, Input::Wake { entity: member, why: Wake::Timer });
    machine.settle(Instant::ZERO);
    // At this tick, the quota of 1 ms is used up.
    machine.input(at_ms(1), Input::Alarm { alarm: Alarm { owner: AlarmOwner::Cpu(CpuId::new(0)), slot: 0 } });
    machine.settle(at_ms(1));
    assert!(machine.is_held(member));
    machine.detach(at_ms(2), member);
    machine.remove_group(at_ms(2), old).unwrap();
    let new = machine.create_group(at_ms(2), GroupParams::default(), GroupId::ROOT).unwrap();
    assert_eq!((new.index(), new.generation()), (old.index(), old.generation() + 1));
    let member = machine.attach(at_ms(2), within(new, nice(0))).unwrap();
    machine.input(at_ms(2), Input::Wake { entity: member, why: Wake::Timer });
    machine.settle(at_ms(2));
    assert_eq!(machine.running(CpuId::new(0)), Some(member));
}
