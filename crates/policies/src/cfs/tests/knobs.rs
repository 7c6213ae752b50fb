//! Tests that each knob has its effect, and that the effect is absent without the knob.

use super::*;

pub(super) fn slices(cpus: usize, knobs: &[(&str, i64)], weights: &[i32]) -> Vec<i64> {
    let mut world = World::with(Topology::new(cpus), knobs);
    let hogs: Vec<_> = weights.iter().map(|&n| world.hog(on(&[0], nice(n)))).collect();
    world.settle();
    hogs.into_iter().map(|e| world.inspect(e, "slice")).collect()
}

#[test]
fn scaling_is_logarithmic_linear_or_none() {
    for (cpus, log, linear) in [(1, 1, 1), (2, 2, 2), (3, 2, 3), (4, 3, 4), (7, 3, 7), (8, 4, 8), (16, 4, 16)] {
        for (scaling, factor) in [log, 1, linear].into_iter().enumerate() {
            let scaling = i64::try_from(scaling).unwrap();
            assert_eq!(slices(cpus, &[("scaling", scaling)], &[0, 0]), [ms(3) * factor; 2], "{cpus} CPUs, {scaling}");
        }
    }
}

#[test]
fn latency_is_the_length_of_the_round_and_min_granularity_of_the_least_slice() {
    assert_eq!(slices(1, &[("latency", ms(20))], &[0, 0]), [ms(10); 2]);
    assert_eq!(slices(1, &[("min-granularity", ms(4))], &[0]), [ms(6)], "a round of 6 ms holds one of 4");
    assert_eq!(slices(1, &[("min-granularity", ms(4))], &[0; 4]), [ms(4); 4], "and is stretched for four");
}

#[test]
fn base_slice_is_a_floor() {
    for (on, slice) in [(1, 750_000), (0, 6_000_000 * 15 / 1039)] {
        assert_eq!(slices(1, &[("base-slice", on)], &[0, 19])[1], slice);
    }
}

#[test]
fn alt_period_counts_all_tasks_of_the_cpu() {
    for (on, tasks) in [(1, 13), (0, 2)] {
        let mut world = World::with(Topology::new(1), &[("alt-period", on)]);
        let group = world.group(1024, GroupId::ROOT);
        world.hogs(12, within(group, nice(0)));
        let outside = world.hog(nice(0));
        world.settle();
        let round = if tasks > 8 { tasks * 750_000 } else { ms(6) };
        assert_eq!(world.inspect(outside, "slice"), round / 2);
    }
}

#[test]
fn tick_is_when_slices_end() {
    for (tick, turn) in [(1, 4), (4, 4), (10, 10)] {
        let mut world = World::with(Topology::new(1), &[("tick", ms(tick)), ("start-debit", 0)]);
        world.hogs(2, nice(0));
        world.until_ms(50);
        let first = world.record.borrow().turns[0];
        assert_eq!(first.to, at_ms(turn), "with a tick of {tick} ms");
    }
}

/// Returns whether a wakee preempts the running hog if the wakee's vruntime is earlier by `behind`.
fn preempts(knobs: &[(&str, i64)], behind: Nanos) -> bool {
    let knobs: Vec<_> = [("start-debit", 0)].iter().chain(knobs).copied().collect();
    let mut world = World::with(Topology::new(1), &knobs);
    let e = world.scripted(nice(0));
    world.wake(e);
    world.until_ms(1);
    world.host.block(CpuId::new(0));
    world.hog(nice(0));
    world.host.run_until(at_ms(1) + behind);
    world.wake(e);
    world.settle();
    world.running(0) == Some(e)
}

#[test]
fn wakeup_granularity_is_how_far_behind_a_wakee_must_be() {
    assert!(preempts(&[], Nanos::us(1_100)) && !preempts(&[], Nanos::us(900)));
    let coarse = [("wakeup-granularity", ms(2))];
    assert!(preempts(&coarse, Nanos::us(2_100)) && !preempts(&coarse, Nanos::us(1_900)));
}

#[test]
fn wakeup_preemption_can_be_switched_off() {
    assert!(preempts(&[], Nanos::ms(3)) && !preempts(&[("wakeup-preemption", 0)], Nanos::ms(3)));
}

#[test]
fn gentle_fair_sleepers_halve_the_credit() {
    for (on, credit) in [(1, 3), (0, 6)] {
        let mut world = World::with(Topology::new(1), &[("gentle-fair-sleepers", on)]);
        let e = world.scripted(nice(0));
        let hog = world.hog(nice(0));
        world.until_ms(100);
        world.wake(e);
        world.settle();
        assert_eq!(world.vruntime(hog) - world.vruntime(e), ms(credit));
    }
}

#[test]
fn start_debit_is_a_slice() {
    for (on, debit) in [(1, 3), (0, 0)] {
        let mut world = World::with(Topology::new(1), &[("start-debit", on)]);
        let hog = world.hog(nice(0));
        world.until_ms(100);
        let new = world.hog(nice(0));
        world.settle();
        assert_eq!(world.vruntime(new) - world.vruntime(hog), ms(debit));
    }
}

#[test]
fn child_runs_first_changes_places() {
    for on in [0, 1] {
        let mut world = World::with(Topology::new(1), &[("child-runs-first", on)]);
        let parent = world.hog(nice(0));
        world.until_ms(2);
        let child = world.scripted(nice(0));
        world.host.wake(child, Wake::New { parent: Some(parent) });
        world.settle();
        assert_eq!(world.running(0), Some(if on == 1 { child } else { parent }));
        assert_eq!((world.vruntime(parent) - world.vruntime(child)).abs(), ms(3));
    }
}

/// Returns a host with nine hogs and three tasks that slept for a second: two SCHED_BATCH, one normal. One hog is at
/// the start of its time slice.
fn crowd(knobs: &[(&str, i64)]) -> (World, [EntityId; 2], EntityId) {
    let knobs: Vec<_> = [("start-debit", 0)].iter().chain(knobs).copied().collect();
    let mut world = World::with(Topology::new(1), &knobs);
    let batch = [(); 2].map(|()| world.scripted(class(Class::Batch)));
    let wakee = world.scripted(nice(0));
    world.hogs(9, nice(0));
    world.until_ms(1_000);
    let before = world.running(0);
    while world.running(0) == before {
        world.host.run_until(world.host.now() + Nanos::us(10));
    }
    (world, batch, wakee)
}

#[test]
fn in_a_long_queue_the_last_buddy_runs_after_the_woken_task() {
    for on in [1, 0] {
        let (mut world, _, wakee) = crowd(&[("last-buddy", on)]);
        let running = world.running(0);
        // The running hog first runs for 300 us. If it were not the last buddy, the queue would pick another hog next.
        world.host.run_until(world.host.now() + Nanos::us(300));
        assert_eq!(world.running(0), running);
        world.wake(wakee);
        world.settle();
        assert_eq!(world.running(0), Some(wakee));
        world.host.run_until(world.host.now() + Nanos::us(50));
        world.host.block(CpuId::new(0));
        world.settle();
        assert_eq!(world.running(0) == running, on == 1);
    }
}

#[test]
fn in_a_long_queue_the_last_woken_task_runs_next_without_preempting() {
    for on in [1, 0] {
        let (mut world, [first, second], wakee) = crowd(&[("next-buddy", on)]);
        world.wake(wakee);
        world.settle();
        assert_eq!(world.running(0), Some(wakee));
        world.wake(first);
        world.wake(second);
        world.settle();
        assert_eq!(world.running(0), Some(wakee), "batch tasks do not preempt");
        world.host.block(CpuId::new(0));
        world.settle();
        assert_eq!(world.running(0), Some(if on == 1 { second } else { first }));
    }
}

/// Returns whether CPU 0 pulls a hog at once when the task of CPU 0 blocks. CPU 1 has two hogs that may run on both
/// CPUs. The waiting hog last ran `since` ago.
fn pulls(knobs: &[(&str, i64)], since: Nanos) -> bool {
    let knobs: Vec<_> = [("start-debit", 0)].iter().chain(knobs).copied().collect();
    let mut world = World::with(Topology::new(2), &knobs);
    let blocker = world.scripted(on(&[0], nice(0)));
    world.wake(blocker);
    let hogs = [0, 0].map(|n| world.hog(on(&[1], nice(n))));
    world.settle();
    let first = world.running(1);
    while world.running(1) == first {
        world.host.run_until(world.host.now() + Nanos::us(10));
    }
    hogs.into_iter().for_each(|hog| world.host.adjust(hog, nice(0)).unwrap());
    world.host.run_until(world.host.now() + since);
    world.host.block(CpuId::new(0));
    world.settle();
    world.running(0).is_some()
}

#[test]
fn migration_cost_is_how_long_a_cache_stays_hot() {
    assert!(!pulls(&[], Nanos::us(400)) && pulls(&[], Nanos::us(600)));
    assert!(pulls(&[("migration-cost", 0)], Nanos::us(10)));
    assert!(!pulls(&[("migration-cost", ms(2))], Nanos::us(600)));
}

#[test]
fn bandwidth_slice_is_a_bite() {
    for (bite, rest) in [(5, 25), (50, 0)] {
        let mut world = World::with(Topology::new(2), &[("bandwidth-slice", ms(bite))]);
        let group = world.limited_group(Nanos::ms(50), Nanos::ms(100), GroupId::ROOT);
        let hogs = [0, 1].map(|cpu| world.hog(on(&[cpu], within(group, nice(0)))));
        world.until_ms(99);
        assert_eq!(world.ran(hogs[1]), Nanos::ms(rest), "of what CPU 0 leaves");
    }
}

#[test]
fn imbalance_is_what_a_busy_cpu_puts_up_with() {
    // CPU 0 has five hogs, CPU 1 has four: the ratio of the loads is 125 to 100.
    for (imbalance, moves) in [(117, true), (130, false)] {
        let mut world = World::with(Topology::new(2), &[("imbalance", imbalance)]);
        let many = world.hogs(5, on(&[0], nice(0)));
        world.hogs(4, on(&[1], nice(0)));
        world.until_ms(10);
        many.iter().for_each(|&e| world.host.adjust(e, nice(0)).unwrap());
        world.until_ms(2_000);
        let moved =
            world.record.borrow().turns.iter().any(|turn| many.contains(&turn.entity) && turn.cpu == CpuId::new(1));
        assert_eq!(moved, moves);
    }
}

#[test]
fn cache_hot_buddies_stay_behind() {
    // CPU 0 has seventeen tasks, of which only the last buddy may migrate. CPU 1 is busy with a lower load.
    for on in [1, 0] {
        let mut world = World::with(Topology::new(2), &[("cache-hot-buddy", on), ("migration-cost", 0)]);
        let buddy = last_buddy_of_a_long_queue(&mut world);
        world.until_ms(1_040);
        let moved = world.record.borrow().turns.iter().any(|turn| turn.entity == buddy && turn.cpu == CpuId::new(1));
        assert_eq!(moved || world.cpu_of(buddy) == 1, on == 0);
    }
}

/// Creates seventeen tasks on CPU 0 and one on CPU 1. Returns the last buddy of CPU 0, which alone may migrate.
fn last_buddy_of_a_long_queue(world: &mut World) -> EntityId {
    let wakee = world.scripted(on(&[0], nice(-10)));
    let hogs = world.hogs(16, on(&[0], nice(0)));
    world.hog(on(&[1], nice(0)));
    world.until_ms(991);
    let buddy = world.running(0).unwrap();
    assert!(hogs.contains(&buddy));
    world.wake(wakee);
    world.settle();
    assert_eq!(world.running(0), Some(wakee));
    world.host.adjust(buddy, nice(0)).unwrap();
    buddy
}

/// Returns the CPU on which a task that last ran on CPU 1 wakes. Its waker runs on CPU 0. Each CPU has its own cache,
/// and CPU 1 runs a hog of nice `there`.
pub(super) fn wakes_on(knobs: &[(&str, i64)], sync: bool, there: i32) -> i64 {
    let mut world = World::with(Topology { cpus: 2, smt: 1, llc: 1 }, knobs);
    let e = world.scripted(on(&[1], nice(0)));
    world.wake(e);
    world.settle();
    world.host.block(CpuId::new(1));
    world.settle();
    world.host.adjust(e, nice(0)).unwrap();
    let waker = world.hog(on(&[0], nice(0)));
    world.hog(on(&[1], nice(there)));
    world.settle();
    world.host.wake(e, Wake::By { waker, sync });
    world.settle();
    world.cpu_of(e)
}

#[test]
fn wake_affine_idle_draws_a_wakee_to_a_synchronous_waker() {
    let weight_off = ("wake-affine-weight", 0);
    assert_eq!(wakes_on(&[weight_off], true, 0), 0);
    assert_eq!(wakes_on(&[weight_off, ("wake-affine-idle", 0)], true, 0), 1);
}

#[test]
fn wake_affine_weight_draws_a_wakee_to_the_less_loaded_cpu() {
    assert_eq!(wakes_on(&[], false, -5), 0, "1024 + 1024 against 3121");
    assert_eq!(wakes_on(&[("wake-affine-weight", 0)], false, -5), 1);
}

#[test]
fn wake_affine_bias_prefers_the_wakers_cpu() {
    // The load of the waker's CPU, including the wakee, is 2048. The load of the wakee's CPU is 1991 (nice -3). The
    // wakee moves if the load of its own CPU is increased by 8 % for the comparison.
    assert_eq!(wakes_on(&[], false, -3), 0);
    assert_eq!(wakes_on(&[("wake-affine-bias", 0)], false, -3), 1);
}

#[test]
fn every_knob_names_its_source() {
    assert!(POLICY.knobs.iter().all(|knob| knob.source.contains("v5.13")));
}
