//! Tests of the CPUs on which tasks wake and start.

use super::*;

/// Creates a waker that always runs on `cpu`.
pub(super) fn waker_on(world: &mut World, cpu: usize) -> EntityId {
    let waker = world.hog(on(&[cpu], nice(0)));
    world.settle();
    assert_eq!(world.running(cpu), Some(waker));
    waker
}

pub(super) fn wakers_on(world: &mut World, cpus: &[usize]) {
    for &cpu in cpus {
        waker_on(world, cpu);
    }
}

/// Creates an entity that last ran on `cpu` and sleeps.
pub(super) fn sleeper_of(world: &mut World, cpu: usize) -> EntityId {
    let e = world.scripted(on(&[cpu], nice(0)));
    world.wake(e);
    world.settle();
    assert_eq!(world.running(cpu), Some(e));
    world.host.block(CpuId::new(cpu));
    world.settle();
    world.host.adjust(e, nice(0)).unwrap();
    e
}

pub(super) fn wake_by(world: &mut World, e: EntityId, waker: EntityId, sync: bool) {
    world.host.wake(e, Wake::By { waker, sync });
    world.settle();
}

#[test]
fn a_woken_task_returns_to_its_cpu_if_that_idles() {
    let mut world = World::new(4);
    let waker = waker_on(&mut world, 0);
    let e = sleeper_of(&mut world, 2);
    wake_by(&mut world, e, waker, false);
    assert_eq!(world.running(2), Some(e));
}

#[test]
fn a_wakee_whose_cpu_is_busy_finds_an_idle_one_behind_its_target() {
    let mut world = World::new(4);
    let e = sleeper_of(&mut world, 2);
    let hogs = [0, 2].map(|cpu| waker_on(&mut world, cpu));
    world.wake(e);
    world.settle();
    assert_eq!(world.running(3), Some(e), "scanning from 2");
    assert_eq!(hogs.map(|hog| world.cpu_of(hog)), [0, 2]);
}

#[test]
fn a_wakee_under_another_cache_stays_there() {
    let mut world = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
    let e = sleeper_of(&mut world, 3);
    wakers_on(&mut world, &[2, 3]);
    world.wake(e);
    world.settle();
    assert_eq!(world.cpu_of(e), 3, "the idle CPUs are under the other cache");
}

#[test]
fn a_wakee_prefers_a_whole_idle_core() {
    let mut world = World::with(Topology { cpus: 6, smt: 2, llc: 6 }, &[]);
    let e = sleeper_of(&mut world, 0);
    wakers_on(&mut world, &[0, 2]);
    world.wake(e);
    world.settle();
    assert_eq!(world.running(4), Some(e), "CPU 1 is nearer, but its core is busy");
}

#[test]
fn a_synchronous_waker_that_runs_alone_draws_the_wakee_to_its_cpu() {
    for (sync, cpu) in [(true, 0), (false, 2)] {
        let mut world = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
        let e = sleeper_of(&mut world, 3);
        let waker = waker_on(&mut world, 0);
        // Only CPU 2 idles now. It shares a cache with CPU 3, where `e` last ran, but not with CPU 0, where the waker
        // runs.
        wakers_on(&mut world, &[1, 3]);
        wake_by(&mut world, e, waker, sync);
        assert_eq!(world.cpu_of(e), cpu, "sync {sync}");
    }
}

#[test]
fn a_woken_task_runs_on_the_less_loaded_of_two_busy_cpus() {
    // Both CPUs are busy, so their loads decide. Each CPU has its own cache, and CPU 1 has `there` hogs.
    for (there, cpu) in [(1, 1), (3, 0)] {
        let mut world = World::with(Topology { cpus: 2, smt: 1, llc: 1 }, &[]);
        let e = sleeper_of(&mut world, 1);
        let waker = waker_on(&mut world, 0);
        for _ in 0..there {
            world.hog(on(&[1], nice(0)));
        }
        world.settle();
        wake_by(&mut world, e, waker, false);
        assert_eq!(world.cpu_of(e), cpu, "{there} hogs there");
    }
}

#[test]
fn a_waker_of_many_leaves_them_where_they_are() {
    // Two CPUs share each cache. The partner count of a task grows each time the task wakes a task other than the task
    // that it woke last.
    let partners = 12;
    let mut world = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
    let waker = waker_on(&mut world, 0);
    let e = sleeper_of(&mut world, 3);
    wakers_on(&mut world, &[2, 3]);
    for n in 0..partners {
        let other = world.scripted(on(&[1], nice(0)));
        wake_by(&mut world, other, if n % 3 == 0 { e } else { waker }, false);
        world.host.detach(other);
        world.settle();
    }
    // The wake-up counts as wide. The partner counts are 8 + 1 = 9 and 4, and 9 is at least 4 · 2, for 2 CPUs per
    // cache. CPU 1 idles and shares the waker's cache.
    wake_by(&mut world, e, waker, true);
    assert_eq!(world.cpu_of(e), 3);
    let mut narrow = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
    let waker = waker_on(&mut narrow, 0);
    let e = sleeper_of(&mut narrow, 3);
    wakers_on(&mut narrow, &[2, 3]);
    wake_by(&mut narrow, e, waker, true);
    assert_eq!(narrow.cpu_of(e), 1, "a waker of one draws it near");
}

#[test]
fn partners_are_forgotten_by_half_every_second() {
    let mut world = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
    let waker = waker_on(&mut world, 0);
    let e = sleeper_of(&mut world, 3);
    wakers_on(&mut world, &[2, 3]);
    for n in 0..12 {
        let other = world.scripted(on(&[1], nice(0)));
        wake_by(&mut world, other, if n % 3 == 0 { e } else { waker }, false);
        world.host.detach(other);
        world.settle();
    }
    world.until_ms(2_100);
    // The wake-up is not wide. The partner counts are 8 / 2 + 1 = 5 and 4, and 5 is less than 4 · 2, for 2 CPUs per
    // cache.
    wake_by(&mut world, e, waker, true);
    assert_eq!(world.cpu_of(e), 1);
}

#[test]
fn a_cpu_with_idle_tasks_only_counts_as_idle() {
    let mut world = World::new(2);
    let e = sleeper_of(&mut world, 0);
    waker_on(&mut world, 0);
    let background = world.hog(on(&[1], class(Class::Idle)));
    world.until_ms(10);
    assert_eq!(world.running(1), Some(background));
    world.wake(e);
    world.settle();
    assert_eq!(world.running(1), Some(e));
}

#[test]
fn the_cpu_it_woke_others_from_is_looked_at_before_the_rest() {
    let mut world = World::new(6);
    let e = sleeper_of(&mut world, 0);
    world.host.adjust(e, on(&[5], nice(0))).unwrap();
    let other = sleeper_of(&mut world, 5);
    world.wake(e);
    world.settle();
    wake_by(&mut world, other, e, false);
    world.host.block(CpuId::new(5));
    // The new affinity moves `e` to CPU 2, so its last CPU is no longer CPU 5, from which it woke `other`.
    world.host.adjust(e, on(&[2], nice(0))).unwrap();
    world.wake(e);
    world.settle();
    assert_eq!(world.running(2), Some(e));
    world.host.block(CpuId::new(2));
    world.host.adjust(e, nice(0)).unwrap();
    world.host.pause(other);
    waker_on(&mut world, 2);
    world.wake(e);
    world.settle();
    assert_eq!(world.running(5), Some(e), "3 is nearer to 2, and 0 is where it began");
}

#[test]
fn forked_tasks_spread_over_idle_cpus_then_over_the_least_loaded() {
    let mut world = World::with(Topology { cpus: 4, smt: 1, llc: 2 }, &[]);
    let parent = world.hog(nice(0));
    world.settle();
    assert_eq!(world.cpu_of(parent), 0);
    let mut cpus = Vec::new();
    for _ in 0..3 {
        let child = world.scripted(nice(0));
        world.host.wake(child, Wake::New { parent: Some(parent) });
        world.settle();
        cpus.push(world.cpu_of(child));
    }
    // The cache with more idle CPUs is preferred. If both caches have equally many, the parent's cache is preferred.
    assert_eq!(cpus, [2, 1, 3]);
    let heavy = world.scripted(nice(-5));
    world.host.wake(heavy, Wake::New { parent: Some(parent) });
    world.settle();
    assert_eq!(world.cpu_of(heavy), 0, "all are equally loaded: at home");
    let child = world.scripted(nice(0));
    world.host.wake(child, Wake::New { parent: Some(parent) });
    world.settle();
    assert_eq!(world.cpu_of(child), 2, "the least loaded CPU of the less loaded cache");
}

#[test]
fn a_forked_task_takes_the_cpu_that_became_idle_last() {
    let mut world = World::new(4);
    let parent = waker_on(&mut world, 0);
    for cpu in [3, 1, 2] {
        sleeper_of(&mut world, cpu);
        world.host.run_until(world.host.now() + Nanos::ms(1));
    }
    let child = world.scripted(nice(0));
    world.host.wake(child, Wake::New { parent: Some(parent) });
    world.settle();
    assert_eq!(world.cpu_of(child), 2);
}

#[test]
fn a_migrated_task_keeps_its_distance_from_its_queue() {
    // Each CPU runs one task of nice 0 for a second, so both clocks are at about 1 s.
    let mut world = World::with(Topology::new(2), &[("start-debit", 0)]);
    let moved = world.scripted(on(&[0], nice(0)));
    world.wake(moved);
    let there = world.hog(on(&[1], nice(0)));
    world.until_ms(1_000);
    world.host.block(CpuId::new(0));
    let here = world.hog(on(&[0], nice(0)));
    world.host.run_until(at_ms(1_000) + Nanos::us(1_200));
    world.settle();
    let behind = world.inspect(here, "min_vruntime") - world.vruntime(moved);
    let of_there = world.inspect(there, "min_vruntime");
    world.host.adjust(moved, on(&[1], nice(0))).unwrap();
    world.wake(moved);
    world.settle();
    let now_there = world.inspect(there, "min_vruntime");
    assert!(now_there >= of_there);
    // `moved` is as far behind `min_vruntime` as it was on CPU 0, except for its brief run since.
    assert!((now_there - world.vruntime(moved) - behind).abs() <= 2_000_000, "{behind}");
}

#[test]
fn a_task_moved_while_it_waits_keeps_its_distance_from_its_queue() {
    // The clock of CPU 1 runs much faster than that of CPU 0: the hog of CPU 1 is light.
    let mut world = World::with(Topology::new(2), &[("start-debit", 0)]);
    let moved = world.hogs(2, on(&[0], nice(0)));
    let there = world.hog(on(&[1], nice(15)));
    world.until_ms(1_000);
    let waits = moved.into_iter().find(|&e| world.running(0) != Some(e)).unwrap();
    let distance = world.vruntime(waits) - world.inspect(waits, "min_vruntime");
    world.host.adjust(waits, on(&[1], nice(0))).unwrap();
    world.settle();
    assert_eq!(world.cpu_of(waits), 1);
    assert!((world.vruntime(waits) - world.vruntime(there)).abs() <= distance.abs() + ms(40), "{distance}");
    world.until_ms(1_100);
    let before = world.ran(waits);
    world.until_ms(6_100);
    assert_near(world.ran(waits) - before, Nanos::s(5).scale(1024, 1060), Nanos::ms(30));
}
