//! Tests of rules 1 to 10 of the essay, with worked examples.

use super::*;

/// Returns a host of four CPUs, with the tasks `a` and `b` on CPU 0. `b` has run alone until `slept_at` ms, then slept.
/// `a` has run until its vruntime was 100 ms. At that instant, `b` wakes.
fn wakes_at_100(b: Params, slept_at: u64) -> (World, EntityId, EntityId) {
    let mut world = World::with(Topology::new(4), &[("start-debit", 0)]);
    let b = world.scripted(on(&[0], b));
    world.wake(b);
    world.until_ms(slept_at);
    world.host.block(CpuId::new(0));
    let a = world.hog(on(&[0], nice(0)));
    world.settle();
    let behind = 100_000_000 - u64::try_from(world.vruntime(a)).unwrap();
    let wakes = at_ms(slept_at) + Nanos::ns(behind);
    world.host.run_until(wakes);
    world.wake(b);
    world.settle();
    (world, a, b)
}

#[test]
fn example_a1_slices_divide_the_round_by_weight() {
    let mut world = World::new(4);
    let a = world.hog(on(&[0], nice(0)));
    let b = world.hog(on(&[0], nice(5)));
    world.settle();
    assert_eq!((world.inspect(a, "slice"), world.inspect(b, "slice")), (13_562_913, 4_437_086));
    assert_eq!((world.inspect(a, "weight"), world.inspect(b, "weight")), (1024, 335));
}

#[test]
fn example_a1_rule_1_vruntime_is_cpu_time_by_weight() {
    let mut world = World::new(4);
    for (weight, virtual_ns) in [(0, 3_000_000), (5, 9_170_149)] {
        let e = world.scripted(on(&[0], nice(weight)));
        let before = world.vruntime(e);
        let start = world.host.now();
        world.host.wake(e, Wake::Timer);
        world.host.run_until(start + Nanos::ms(3));
        world.host.block(CpuId::new(0));
        world.settle();
        assert_eq!(world.vruntime(e) - before, virtual_ns);
        assert_eq!(world.inspect(e, "sum_exec"), 3_000_000);
    }
}

#[test]
fn example_a2_rule_4_a_long_sleeper_is_placed_half_a_round_ahead_and_preempts() {
    let (world, a, b) = wakes_at_100(nice(0), 50);
    assert_eq!(world.vruntime(b), ms(91));
    assert_eq!((world.vruntime(a), world.running(0)), (ms(100), Some(b)));
}

#[test]
fn example_a3_rule_7_light_wakees_preempt_less_easily_than_heavy_ones() {
    let (world, a, b) = wakes_at_100(nice(5), 10);
    assert_eq!((world.vruntime(b), world.running(0)), (ms(91), Some(a)), "9 ms is less than 9.170");
    let (world, _, b) = wakes_at_100(nice(-5), 50);
    assert_eq!((world.vruntime(b), world.running(0)), (ms(91), Some(b)), "9 ms is more than 0.984");
}

#[test]
fn example_a4_rule_4_a_short_sleeper_keeps_its_vruntime_and_does_not_preempt() {
    let (world, a, b) = wakes_at_100(nice(0), 98);
    assert_eq!((world.vruntime(b), world.running(0)), (ms(98), Some(a)));
}

#[test]
fn rule_2_three_hogs_get_their_weights_within_one_slice() {
    // Start debits differ between the tasks, so the debits are off.
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let hogs = [0, 5, -5].map(|n| world.hog(nice(n)));
    world.until_ms(10_000);
    for (e, weight) in hogs.into_iter().zip([1024, 335, 3121]) {
        // A time slice ends at the first tick after it is used up.
        let slice = Nanos::ns(world.inspect(e, "slice").unsigned_abs() + 1).round_up(Nanos::ms(1));
        assert_near(world.ran(e), Nanos::s(10).scale(weight, 4480), slice);
    }
}

#[test]
fn rule_2_more_than_eight_tasks_stretch_the_round() {
    let mut world = World::new(1);
    let hogs = world.hogs(8, nice(0));
    world.settle();
    assert_eq!(world.inspect(hogs[0], "slice"), 750_000);
    let more = world.hogs(4, nice(19));
    world.settle();
    assert_eq!(world.inspect(hogs[0], "slice"), 9_000_000 * 1024 / (8 * 1024 + 4 * 15));
    assert_eq!(world.inspect(more[0], "slice"), 750_000, "no slice is shorter than the minimum granularity");
}

#[test]
fn rule_3_a_forked_child_starts_a_slice_behind() {
    let mut world = World::new(1);
    let parent = world.hog(nice(0));
    world.until_ms(10);
    let child = world.scripted(nice(0));
    world.host.wake(child, Wake::New { parent: Some(parent) });
    world.settle();
    // The parent began with the debit of a lone task, 6 ms, and has run for 10 ms. The slices of two tasks are 3 ms
    // each.
    assert_eq!((world.vruntime(parent), world.vruntime(child)), (ms(16), ms(19)));
    assert_eq!(world.running(0), Some(parent));
    world.until_ms(13);
    assert_eq!(world.running(0), Some(parent), "no task is behind the parent yet");
    world.until_ms(14);
    assert_eq!(world.running(0), Some(child), "its clock shows 19 ms as well, and it has waited");
}

#[test]
fn rule_3_the_child_of_a_task_that_is_ahead_is_as_far_ahead() {
    for runs in [true, false] {
        let mut world = World::new(1);
        let parent = world.hog(nice(0));
        world.hog(nice(0));
        world.until_ms(1_000);
        let ahead = |world: &World| world.vruntime(parent) - world.inspect(parent, "min_vruntime");
        while ahead(&world) < ms(2) || (world.running(0) == Some(parent)) != runs {
            world.host.run_until(world.host.now() + Nanos::us(10));
        }
        // The child's own debit would be almost nothing.
        let child = world.scripted(nice(-20));
        world.host.wake(child, Wake::New { parent: Some(parent) });
        world.settle();
        assert_eq!(world.vruntime(child), world.vruntime(parent), "the parent runs: {runs}");
    }
}

#[test]
fn rule_3_an_orphan_starts_a_slice_behind_as_well() {
    let mut world = World::new(1);
    let first = world.hog(nice(0));
    world.until_ms(10);
    let orphan = world.hog(nice(5));
    world.settle();
    let slice = 6_000_000 * 335 / 1359;
    assert_eq!(world.vruntime(orphan), world.vruntime(first) + slice * 1024 / 335);
    assert_eq!(world.running(0), Some(first));
}

#[test]
fn rule_4_credit_does_not_grow_with_sleep() {
    let mut world = World::new(1);
    let hog = world.hog(nice(0));
    let sleeper = world.scripted(nice(0));
    for wakes in [1_000, 3_000] {
        world.until_ms(wakes);
        world.wake(sleeper);
        world.settle();
        assert_eq!(world.vruntime(sleeper), world.vruntime(hog) - ms(3), "half of 6 ms");
        assert_eq!(world.running(0), Some(sleeper));
        world.until_ms(wakes + 1);
        world.host.block(CpuId::new(0));
        world.settle();
    }
}

#[test]
fn rule_6_a_slice_ends_at_the_first_tick_after_it() {
    let mut world = World::new(1);
    let [a, b] = [0, 0].map(|n| world.hog(nice(n)));
    world.until_ms(40);
    let turns = world.record.borrow().turns.clone();
    let lengths: Vec<u64> = turns.iter().map(|turn| turn.to.since(turn.from).as_ns() / 1_000_000).collect();
    // A run of 3 ms does not exceed a slice of 3 ms; a run of 4 ms does.
    assert!(lengths.iter().all(|&length| length == 4), "{lengths:?}");
    assert!(turns.windows(2).all(|pair| pair[0].entity != pair[1].entity));
    assert_eq!(world.ran(a).as_ns().abs_diff(world.ran(b).as_ns()), 0);
}

#[test]
fn rule_6_a_task_a_time_slice_ahead_stops_before_its_own_is_over() {
    // When `a` begins a time slice of 3 ms, `b` wakes with a vruntime about 3 ms behind that of `a`. Wake-up preemption
    // is off.
    for (granularity, ran) in [(Nanos::us(750), 1), (Nanos::us(1_500), 2)] {
        let granularity = granularity.as_ns().cast_signed();
        let mut world = World::with(Topology::new(1), &[("wakeup-preemption", 0), ("min-granularity", granularity)]);
        let b = world.scripted(nice(0));
        let [a, c] = [0, 0].map(|n| world.hog(nice(n)));
        world.until_ms(1_000);
        while world.running(0) != Some(c) {
            world.host.run_until(world.host.now() + Nanos::us(10));
        }
        while world.running(0) != Some(a) {
            world.host.run_until(world.host.now() + Nanos::us(10));
        }
        let before = world.ran(a);
        world.host.pause(c);
        world.wake(b);
        world.settle();
        assert_eq!(world.running(0), Some(a));
        while world.running(0) == Some(a) {
            world.host.run_until(world.host.now() + Nanos::us(10));
        }
        assert_near(world.ran(a) - before, Nanos::ms(ran), Nanos::us(20));
    }
}

#[test]
fn rule_6_buddies_do_not_bring_back_a_task_after_its_time_slice() {
    // With this coarse granularity, every buddy is near enough to the first node to be picked.
    let mut world = World::with(Topology::new(1), &[("wakeup-granularity", ms(1_000)), ("start-debit", 0)]);
    let group = world.group(1024, GroupId::ROOT);
    let inside = world.hogs(2, within(group, nice(0)));
    let outside = world.hog(nice(0));
    world.until_ms(100);
    for runs in [false, true] {
        while (world.running(0) == Some(outside)) == runs {
            world.host.run_until(world.host.now() + Nanos::us(10));
        }
    }
    let start = world.host.now();
    // A waiting member of the group is paused. The group, which is running, becomes the next buddy.
    let waits = inside.into_iter().find(|&e| world.running(0) != Some(e)).unwrap();
    world.host.pause(waits);
    while world.running(0) != Some(outside) {
        world.host.run_until(world.host.now() + Nanos::us(10));
    }
    let turn = world.host.now().since(start);
    assert!(turn <= Nanos::ms(4), "the group's slice of 3 ms ends at the first tick after it: {turn}");
}

#[test]
fn rule_7_batch_and_idle_never_preempt_and_idle_always_gives_way() {
    for (wakee, running, preempts) in [
        (Class::Normal, Class::Normal, true),
        (Class::Batch, Class::Normal, false),
        (Class::Idle, Class::Normal, false),
        (Class::Normal, Class::Batch, true),
        (Class::Normal, Class::Idle, true),
        (Class::Batch, Class::Idle, true),
        (Class::Idle, Class::Idle, false),
    ] {
        let mut world = World::new(1);
        let e = world.scripted(class(wakee));
        world.hog(class(running));
        world.until_ms(100);
        world.wake(e);
        world.settle();
        assert_eq!(world.running(0) == Some(e), preempts, "{wakee:?} wakes while {running:?} runs");
    }
}

#[test]
fn rule_7_a_normal_wakee_preempts_an_idle_task_that_is_hardly_ahead() {
    for (running, preempts) in [(Class::Idle, true), (Class::Normal, false)] {
        let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
        let wakee = world.scripted(nice(0));
        world.wake(wakee);
        world.until_ms(1);
        world.host.block(CpuId::new(0));
        let other = world.hog(class(running));
        world.host.run_until(at_ms(1) + Nanos::us(2));
        world.wake(wakee);
        world.settle();
        let ahead = world.vruntime(other) - world.vruntime(wakee);
        assert!(0 < ahead && ahead < ms(1), "{ahead} is less than a wake-up granularity");
        assert_eq!(world.running(0) == Some(wakee), preempts, "{running:?} runs");
    }
}

#[test]
fn rule_8_a_preempting_task_runs_even_if_another_is_further_behind() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let [batch, wakee] = [class(Class::Batch), nice(0)].map(|params| world.scripted(params));
    let hog = world.hog(nice(0));
    world.until_ms(100);
    // Both tasks wake with the same credit. The batch task arrived first, but does not preempt.
    world.wake(batch);
    world.settle();
    assert_eq!(world.running(0), Some(hog));
    world.wake(wakee);
    world.settle();
    assert_eq!(world.vruntime(batch), world.vruntime(wakee));
    assert_eq!(world.running(0), Some(wakee));
}

#[test]
fn rule_8_the_first_of_two_that_wake_at_once_runs() {
    let mut world = World::new(1);
    let sleepers = [(); 2].map(|()| world.scripted(nice(0)));
    world.hog(nice(0));
    world.until_ms(100);
    sleepers.into_iter().for_each(|e| world.wake(e));
    world.settle();
    assert_eq!(world.running(0), Some(sleepers[0]), "its CPU was asked to pick again before the second woke");
}

#[test]
fn rule_1_min_vruntime_follows_the_tasks_that_are_left() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0), ("wakeup-preemption", 0)]);
    let sleeper = world.scripted(nice(0));
    let hog = world.hog(nice(0));
    world.until_ms(100);
    world.wake(sleeper);
    world.host.run_until(at_ms(102) + Nanos::ns(1));
    assert_eq!(world.running(0), Some(sleeper));
    assert!(world.inspect(hog, "min_vruntime") < world.vruntime(hog));
    world.host.block(CpuId::new(0));
    world.settle();
    assert_eq!(world.inspect(hog, "min_vruntime"), world.vruntime(hog));
}

#[test]
fn the_picture_in_the_essay_is_true() {
    let mut world = World::new(1);
    let a = world.hog(nice(0));
    world.hog(nice(5));
    world.until_ms(55);
    let letters = |turn: &Turn| {
        let length = turn.to.since(turn.from).as_ns() / 1_000_000;
        (0..length).map(|_| if turn.entity == a { 'a' } else { 'b' }).collect::<String>()
    };
    let picture: String = world.record.borrow().turns.iter().map(letters).collect();
    assert!(picture.len() >= 50 && POLICY.essay().contains(&picture), "{picture}");
}

#[test]
fn rule_9_a_yield_lets_the_second_go_but_not_one_far_ahead() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let [a, b] = [0, 0].map(|n| world.hog(nice(n)));
    world.settle();
    assert_eq!(world.running(0), Some(a), "equals go in order of arrival");
    world.host.run_until(Instant::at_ns(500_000));
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(b));
    world.host.run_until(Instant::at_ns(700_000));
    // `b` has run for 0.2 ms, `a` for 0.5 ms: `a` is less than 1 ms ahead.
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(a));
    world.host.run_until(Instant::at_ns(1_900_000));
    // `a` has run for 1.7 ms, `b` for 0.2 ms. When `a` yields, `b` runs. A yield of `b` then has no effect.
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(b));
    world.host.run_until(Instant::at_ns(1_950_000));
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(b), "a is more than 1 ms ahead of b");
}

#[test]
fn rule_9_a_light_yielder_lets_others_go_though_they_are_further_ahead() {
    // A run of 1 ms advances the clock by 3.057 ms at nice 5, and by 1 ms at nice 0.
    for (weight, lets) in [(5, true), (0, false)] {
        let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
        let yielder = world.scripted(nice(weight));
        world.wake(yielder);
        world.settle();
        world.host.block(CpuId::new(0));
        let hog = world.hog(nice(0));
        world.host.run_until(Instant::at_ns(1_500_000));
        world.host.pause(hog);
        world.wake(yielder);
        world.settle();
        world.host.resume(hog);
        world.settle();
        assert_eq!(world.running(0), Some(yielder));
        let ahead = world.vruntime(hog) - world.vruntime(yielder);
        assert!(ms(1) < ahead && ahead < 3_057_000, "{ahead}");
        world.host.yield_now(CpuId::new(0));
        world.settle();
        assert_eq!(world.running(0) == Some(hog), lets, "nice {weight}");
    }
}

#[test]
fn rule_9_a_yield_without_another_task_changes_nothing() {
    let mut world = World::new(1);
    let a = world.hog(nice(0));
    world.until_ms(1);
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(a));
    let b = world.hog(nice(0));
    world.until_ms(2);
    assert_eq!(world.running(0), Some(a), "no skip is left over for the time with another task: {b} owes a slice");
}

#[test]
fn rule_9_a_directed_yield_runs_the_other_if_it_is_not_far_ahead() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let [_, b, c] = [0, 0, 0].map(|n| world.hog(nice(n)));
    world.settle();
    world.host.run_until(Instant::at_ns(500_000));
    world.host.yield_to(CpuId::new(0), c);
    world.settle();
    assert_eq!(world.running(0), Some(c), "although b waits longer");
    world.host.run_until(Instant::at_ns(600_000));
    let sleeper = world.scripted(nice(0));
    world.host.yield_to(CpuId::new(0), sleeper);
    world.settle();
    assert_eq!(world.running(0), Some(c), "no task yields to a sleeper");
    world.host.run_until(Instant::at_ns(2_500_000));
    world.host.yield_now(CpuId::new(0));
    world.settle();
    assert_eq!(world.running(0), Some(b));
    world.host.yield_to(CpuId::new(0), c);
    world.settle();
    assert_ne!(world.running(0), Some(c), "c is 2 ms ahead of b");
}

#[test]
fn rule_9_a_directed_yield_reaches_another_cpu() {
    let mut world = World::with(Topology::new(2), &[("start-debit", 0)]);
    let here = world.hog(on(&[0], nice(0)));
    let [runs, waits] = [0, 0].map(|n| world.hog(on(&[1], nice(n))));
    world.settle();
    assert_eq!((world.running(0), world.running(1)), (Some(here), Some(runs)));
    world.host.run_until(Instant::at_ns(500_000));
    world.host.yield_to(CpuId::new(0), waits);
    world.settle();
    assert_eq!((world.running(0), world.running(1)), (Some(here), Some(waits)));
}

#[test]
fn rule_10_a_new_weight_counts_at_once_and_vruntime_stays() {
    let mut world = World::new(1);
    let [a, b] = [0, 0].map(|n| world.hog(nice(n)));
    world.until_ms(1_000);
    let before = world.vruntime(b);
    let running = world.running(0);
    world.host.adjust(b, nice(-5)).unwrap();
    if running != Some(b) {
        assert_eq!(world.vruntime(b), before);
    }
    let (ran_a, ran_b) = (world.ran(a), world.ran(b));
    world.until_ms(11_000);
    let slack = Nanos::ms(12);
    assert_near(world.ran(b) - ran_b, Nanos::s(10).scale(3121, 4145), slack);
    assert_near(world.ran(a) - ran_a, Nanos::s(10).scale(1024, 4145), slack);
}

#[test]
fn an_idle_task_gets_three_parts_in_1027() {
    let mut world = World::new(1);
    let idle = world.hog(class(Class::Idle));
    world.hog(nice(0));
    world.until_ms(1_000);
    let before = world.ran(idle);
    world.until_ms(61_000);
    assert_eq!(world.inspect(idle, "weight"), 3);
    assert_near(world.ran(idle) - before, Nanos::s(60).scale(3, 1027), Nanos::ms(3));
}
