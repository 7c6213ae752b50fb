//! Tests of the lag of sleepers.

use super::*;

/// Knobs of the worked examples: the time slice and the tick period are 3 ms, and a new task's first time slice is not
/// halved.
const WHOLE: [(&str, i64); 3] = [("base-slice", ms(3)), ("tick", ms(3)), ("place-deadline-initial", 0)];

#[test]
fn the_worked_example_of_a_sleeper_in_debt() {
    let knobs: Vec<_> = WHOLE.into_iter().chain([V6_6]).collect();
    let mut world = one(&knobs);
    let [a, b] = [(); 2].map(|()| world.scripted(nice(0)));
    world.wake(a);
    world.wake(b);
    world.until_ms(3);
    assert_eq!((world.running(0), world.inspect(b, "deadline")), (Some(a), ms(3)));
    // `a` has used up its time slice, and V is 1.5 ms. `a` blocks.
    world.host.block(CpuId::new(0));
    assert_eq!((world.vruntime(a), world.inspect(a, "deadline"), lag(&world, a)), (ms(3), ms(6), -us(1_500)));
    world.until_ms(6);
    assert_eq!(world.running(0), Some(b));
    world.wake(a);
    assert_eq!((world.vruntime(b), world.vruntime(a)), (ms(3), ms(6)));
    assert_eq!((world.inspect(a, "deadline"), lag(&world, a)), (ms(9), -us(1_500)));
}

#[test]
fn the_worked_example_with_delayed_dequeue() {
    let mut world = one(&WHOLE);
    let [a, b] = [(); 2].map(|()| world.scripted(nice(0)));
    world.wake(a);
    world.wake(b);
    world.until_ms(3);
    world.host.block(CpuId::new(0));
    assert_eq!((world.inspect(a, "delayed"), lag(&world, a)), (1, -us(1_500)), "it stays, and V is 1.5");
    world.until_ms(6);
    assert_eq!((world.running(0), world.inspect(a, "delayed")), (Some(b), 1));
    world.settle();
    // `b` has used up its time slice as well, and both deadlines are equal: `a` is picked, and is therefore dequeued.
    assert_eq!((world.running(0), world.inspect(a, "delayed"), lag(&world, a)), (Some(b), 0, 0));
    world.wake(a);
    assert_eq!(world.vruntime(a), world.vruntime(b), "not 3 ms behind: the debt is paid");
}

#[test]
fn a_task_that_sleeps_in_debt_and_wakes_soon_still_owes() {
    for (delay, version) in [(1, 0), (0, 0), (1, 1)] {
        let mut world = one(&[("delay-dequeue", delay), ("version", version), ("tick", ms(10))]);
        let a = world.scripted(nice(0));
        run_ahead(&mut world, a, Nanos::us(600), nice(0));
        block(&mut world);
        let owed = lag(&world, a);
        assert!((owed + us(300)).abs() < 10, "half of what it had: {owed}");
        let stays = delay == 1 && version == 0;
        assert_eq!(world.inspect(a, "delayed") == 1, stays);
        world.host.run_until(world.host.now() + Nanos::us(200));
        world.wake(a);
        // While the task was delayed, half of the 0.2 ms for which the other task ran was credited to it.
        let paid = if stays { us(100) } else { 0 };
        assert!((lag(&world, a) - owed - paid).abs() < 10, "{} was {owed}", lag(&world, a));
    }
}

/// Returns the lag of a task at its wake-up, and whether the task was picked while it slept. The task slept with a debt
/// of 0.3 ms, beside a hog. All time slices are `slice` long.
fn owed_after_paying(tick: Nanos, slice: Nanos, sleeps: Nanos, zero: i64) -> (i64, bool) {
    let times = [("tick", tick), ("base-slice", slice)].map(|(name, time)| (name, time.as_ns().cast_signed()));
    let mut world = one(&[("delay-zero", zero), times[0], times[1]]);
    let a = world.scripted(nice(0));
    run_ahead(&mut world, a, Nanos::us(600), nice(0));
    block(&mut world);
    assert_eq!(world.inspect(a, "delayed"), 1);
    world.host.run_until(world.host.now() + sleeps);
    let picked = world.inspect(a, "delayed") == 0;
    world.wake(a);
    (lag(&world, a), picked)
}

#[test]
fn a_task_that_paid_in_its_sleep_is_owed_nothing_unless_delay_zero_is_off() {
    let (tick, slice) = (Nanos::ms(1), Nanos::ms(2));
    let (owed, picked) = owed_after_paying(tick, slice, Nanos::ms(3), 1);
    assert!(picked && owed < us(100), "a tick ends the other's slice, and it is picked: {owed}");
    let (owed, picked) = owed_after_paying(tick, slice, Nanos::ms(3), 0);
    assert!(picked && owed > us(100), "{owed}");
}

#[test]
fn a_debt_that_no_tick_has_found_paid_is_paid_back() {
    let (slice, sleeps) = (Nanos::ms(10), Nanos::us(1_900));
    // At the tick at 2 ms, the other task has caught up; half of the 0.5 ms since then is owed to the woken task.
    assert!((owed_after_paying(Nanos::ms(1), slice, sleeps, 1).0 - us(250)).abs() < 10);
    assert!((owed_after_paying(Nanos::ms(1), slice, sleeps, 0).0 - us(650)).abs() < 10);
    // No tick charges the running task, and the wake-up does not charge it before the woken task is placed. So the
    // woken task is owed half of its sleep, less its debt.
    for zero in [1, 0] {
        assert_eq!(owed_after_paying(Nanos::ms(20), slice, sleeps, zero), (us(650), false));
    }
}

#[test]
fn what_a_sleeper_is_owed_is_kept_unless_place_lag_is_off() {
    for (kept, version) in [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1)] {
        let mut world = one(&[("place-lag", kept), ("version", version), ("tick", ms(10)), ("base-slice", ms(3))]);
        let hog = world.hog(nice(0));
        world.host.run_until(Instant::at_ns(1_000_000));
        let a = world.hog(nice(0));
        world.host.run_until(Instant::at_ns(1_500_000));
        assert_eq!(world.running(0), Some(hog));
        world.host.pause(a);
        let owed = lag(&world, a);
        assert!((owed - us(250)).abs() < 10, "half of what the other had: {owed}");
        world.until_ms(8);
        world.host.resume(a);
        world.settle();
        assert!((lag(&world, a) - if kept == 1 { owed } else { 0 }).abs() < 10, "{}", lag(&world, a));
    }
}

/// Returns the lag that a task keeps after it waited for 20 ms, while a hog ran, and then slept.
fn owed(knobs: &[(&str, i64)], params: Params) -> i64 {
    let knobs: Vec<_> = [("preempt-short", 0)].iter().chain(knobs).copied().collect();
    let mut world = one(&knobs);
    let e = world.scripted(params);
    let hog = world.hog(asking(Nanos::ms(100), nice(0)));
    world.until_ms(5);
    world.wake(e);
    world.until_ms(25);
    assert_eq!(world.running(0), Some(hog));
    world.host.pause(e);
    lag(&world, e)
}

#[test]
fn no_more_than_two_slices_are_owed_to_a_sleeper_or_a_tick() {
    assert_eq!(owed(&[], asking(Nanos::ms(2), nice(0))), ms(4));
    assert_eq!(owed(&[], asking(Nanos::ms(2), nice(5))), ms(4) * 1024 / 335, "on its clock");
    assert_eq!(owed(&[], asking(Nanos::ms(12), nice(0))), ms(10), "half of what the other had");
    assert_eq!(owed(&[("tick", ms(7))], asking(Nanos::ms(2), nice(0))), ms(7));
}

#[test]
fn a_cpu_with_none_but_delayed_sleepers_idles_and_forgets_them() {
    let mut world = one(&[]);
    let [a, b] = [(); 2].map(|()| world.scripted(nice(0)));
    world.wake(a);
    world.wake(b);
    world.until_ms(1);
    block(&mut world);
    assert_eq!(world.inspect(a, "delayed"), 1);
    block(&mut world);
    assert_eq!((world.running(0), world.inspect(a, "delayed"), world.inspect(b, "delayed")), (None, 0, 0));
    world.until_ms(50);
    assert_eq!(world.record.borrow().longest_idle, Nanos::ZERO);
    world.wake(a);
    world.settle();
    assert_eq!((world.running(0), lag(&world, a)), (Some(a), 0));
}

#[test]
fn a_group_all_of_whose_tasks_sleep_stays_as_well() {
    // A group that left in debt would be placed behind again; a delayed group has paid its debt.
    for delay in [1, 0] {
        let mut world = one(&[("delay-dequeue", delay)]);
        let group = world.group(1024, GroupId::ROOT);
        let inside = world.scripted(within(group, nice(0)));
        let outside = world.hog(nice(0));
        world.until_ms(10);
        world.wake(inside);
        until_running(&mut world, inside, true);
        world.host.run_until(world.host.now() + Nanos::us(900));
        assert_eq!(world.running(0), Some(inside));
        block(&mut world);
        assert_eq!(world.inspect(inside, "delayed"), 0, "alone in its group, it owes nothing there");
        world.host.run_until(world.host.now() + Nanos::ms(10));
        world.wake(inside);
        let start = world.host.now();
        until_running(&mut world, inside, true);
        let waited = world.host.now().since(start);
        if delay == 1 {
            assert!(waited <= Nanos::ms(1), "{waited}");
        } else {
            assert!(waited >= Nanos::us(1_000), "{waited}");
        }
        assert!(world.ran(outside) > Nanos::ms(15));
    }
}
