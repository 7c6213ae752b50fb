//! Tests of several CPUs: stealing, kicks of idle CPUs, moves to better CPUs, hand-off, affinity.

use super::*;

/// Returns a host of two CPUs, and its vCPUs `[x, y, z]`. On CPU 0, `x`, which is pinned and OVER, waits behind the
/// running entity. On CPU 1, a boosted entity runs, and the queue is `[y (BOOST), z (UNDER)]`.
fn example_4() -> (Driver<'static>, [EntityId; 3]) {
    let mut host = host(2);
    // A cap just below one CPU makes an entity OVER without parking it.
    let vm = group(&mut host, capped(90));
    let x = hog(&mut host, Params { group: vm, ..pinned(CPU) });
    let z = hog(&mut host, Params::default());
    let above = scripted(&mut host, pinned(CPU));
    let boosted = scripted(&mut host, pinned(OTHER));
    let y = scripted(&mut host, pinned(OTHER));
    host.adjust(y, Params::default()).expect("accepted");
    run_through(&mut host, 31);
    assert_eq!((running(&host, CPU), running(&host, OTHER)), (Some(x), Some(z)));
    for e in [above, boosted] {
        interrupt(&mut host, e);
    }
    run_through(&mut host, 31);
    interrupt(&mut host, y);
    run_through(&mut host, 32);
    assert_eq!((running(&host, CPU), running(&host, OTHER)), (Some(above), Some(boosted)));
    assert_eq!([x, y, z].map(|e| priority(&host, e)), [OVER, BOOST, UNDER]);
    (host, [x, y, z])
}

#[test]
fn example_4_a_cpu_with_an_over_head_takes_the_first_more_urgent_one() {
    let (mut host, [x, y, z]) = example_4();
    for expected in [y, z, x] {
        host.block(CPU);
        run_through(&mut host, 32);
        assert_eq!(running(&host, CPU), Some(expected));
    }
}

/// Returns a host on which each of `cpus` CPUs has run a pinned hog for 31 ms. Also returns the hogs.
fn busy<'a>(cpus: usize) -> (Driver<'a>, Vec<EntityId>) {
    let mut host = host(cpus);
    let hogs = (0..cpus).map(|cpu| hog(&mut host, pinned(CpuId::new(cpu)))).collect();
    run_through(&mut host, 31);
    (host, hogs)
}

/// Creates a blocked vCPU that may run anywhere and has its home on `cpu`.
fn living_on(host: &mut Driver<'_>, cpu: CpuId) -> EntityId {
    let e = scripted(host, pinned(cpu));
    host.adjust(e, Params::default()).expect("accepted");
    e
}

#[test]
fn a_cpu_that_runs_dry_looks_at_the_next_higher_number_first() {
    let (mut host, hogs) = busy(4);
    let waiting = [0, 1, 3].map(|cpu| living_on(&mut host, CpuId::new(cpu)));
    // Each vCPU of `waiting` wakes behind a boosted entity of its CPU, so that it waits there.
    for cpu in [0, 1, 3] {
        let boosted = scripted(&mut host, pinned(CpuId::new(cpu)));
        interrupt(&mut host, boosted);
    }
    run_through(&mut host, 31);
    for e in waiting {
        interrupt(&mut host, e);
    }
    run_through(&mut host, 32);
    let cpu = CpuId::new(2);
    assert_eq!(running(&host, cpu), Some(hogs[2]));
    host.pause(hogs[2]);
    run_through(&mut host, 32);
    assert_eq!(running(&host, cpu), Some(waiting[2]), "CPU 3 comes first");
    for expected in [waiting[0], waiting[1]] {
        host.block(cpu);
        run_through(&mut host, 32);
        assert_eq!(running(&host, cpu), Some(expected), "then CPU 0, then CPU 1");
    }
}

#[test]
fn an_idle_cpu_takes_over_work_too() {
    let (mut host, [x, y, z]) = example_4();
    // `x`, which is OVER, may now run on either CPU. CPU 1 then runs out of entities of its own.
    host.adjust(x, Params { affinity: CpuSet::ALL, ..*host.machine().params(x) }).expect("accepted");
    for e in [y, z] {
        host.pause(e);
    }
    host.block(OTHER);
    run_through(&mut host, 32);
    assert_eq!((running(&host, OTHER), priority(&host, x)), (Some(x), OVER));
}

#[test]
fn stealing_ends_at_the_first_that_is_not_more_urgent() {
    let (mut host, [x, y, z]) = example_4();
    // `y` and `z` may now run on CPU 1 only.
    for e in [y, z] {
        host.adjust(e, pinned(OTHER)).expect("accepted");
    }
    host.block(CPU);
    run_through(&mut host, 32);
    assert_eq!(running(&host, CPU), Some(x), "no vCPU may migrate here");
    assert_eq!([y, z].map(|e| host.machine().state(e)), [State::Waiting; 2]);
}

#[test]
fn a_wake_up_behind_its_equal_is_taken_by_an_idle_cpu_at_once() {
    let mut host = host(2);
    let first = scripted(&mut host, pinned(OTHER));
    let second = living_on(&mut host, OTHER);
    interrupt(&mut host, first);
    run_through(&mut host, 1);
    interrupt(&mut host, second);
    run_through(&mut host, 1);
    assert_eq!((running(&host, OTHER), running(&host, CPU)), (Some(first), Some(second)));
}

/// Returns a host of two CPUs, and a vCPU that may run anywhere. A woken vCPU, which is pinned to CPU 1, has preempted
/// this vCPU on CPU 1 while CPU 0 idled.
fn displaced_by_a_pinned_one<'a>(knobs: &[(&str, i64)]) -> (Driver<'a>, EntityId) {
    let mut host = host_of(sched::Topology::new(2), knobs);
    let free = living_on(&mut host, OTHER);
    let stays = scripted(&mut host, pinned(OTHER));
    interrupt(&mut host, free);
    run_through(&mut host, 21);
    interrupt(&mut host, stays);
    run_through(&mut host, 21);
    assert_eq!(running(&host, OTHER), Some(stays));
    (host, free)
}

#[test]
fn a_displaced_entity_goes_to_an_idle_cpu() {
    let (host, free) = displaced_by_a_pinned_one(&[]);
    assert_eq!(running(&host, CPU), Some(free));
    // In Xen 4.0.1, no tick moves the waiting entity to the idle CPU.
    let (mut host, free) = displaced_by_a_pinned_one(&[("hand-off", 0)]);
    host.run_until(at(45));
    assert_eq!((running(&host, CPU), host.machine().state(free)), (None, State::Waiting));
}

#[test]
fn two_wake_ups_on_an_idle_cpu_run_on_two() {
    for (knobs, both) in [(&[][..], true), (&[("hand-off", 0)][..], false)] {
        let mut host = host_of(sched::Topology::new(2), knobs);
        let pair = [(), ()].map(|()| living_on(&mut host, CPU));
        for e in pair {
            interrupt(&mut host, e);
        }
        run_through(&mut host, 5);
        assert_eq!(running(&host, CPU), Some(pair[0]));
        assert_eq!(running(&host, OTHER) == Some(pair[1]), both, "{knobs:?}");
    }
}

#[test]
fn no_cpu_steals_a_cache_hot_vcpu() {
    let delayed = [("migration-delay", 1_500_000)];
    let (mut host, free) = displaced_by_a_pinned_one(&delayed);
    assert_eq!(host.machine().state(free), State::Waiting, "it ran until just now");
    host.run_until(at(30));
    assert_eq!(running(&host, CPU), None);
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), Some(free), "the tick of its CPU offers it again");
}

#[test]
fn affinity_moves_waiting_running_and_sleeping_vcpus() {
    let (mut host, hogs) = busy(2);
    let waits = scripted(&mut host, pinned(CPU));
    interrupt(&mut host, waits);
    run_through(&mut host, 32);
    assert_eq!((running(&host, CPU), host.machine().state(hogs[0])), (Some(waits), State::Waiting));
    // `hogs[0]` waits on CPU 0. The new affinity moves it to CPU 1. It is boosted as after a wake-up, and preempts
    // `hogs[1]`.
    host.adjust(hogs[0], pinned(OTHER)).expect("accepted");
    run_through(&mut host, 32);
    assert_eq!((running(&host, OTHER), priority(&host, hogs[0])), (Some(hogs[0]), BOOST));
    // `waits` runs on CPU 0.
    host.adjust(waits, pinned(OTHER)).expect("accepted");
    run_through(&mut host, 32);
    assert_eq!((running(&host, CPU), host.machine().state(waits)), (None, State::Waiting));
    // `hogs[1]` is paused.
    host.pause(hogs[1]);
    host.adjust(hogs[1], pinned(CPU)).expect("accepted");
    host.resume(hogs[1]);
    run_through(&mut host, 33);
    assert_eq!(running(&host, CPU), Some(hogs[1]));
}

#[test]
fn a_wider_affinity_moves_a_waiting_vcpu_to_an_idle_cpu() {
    let mut host = host(2);
    let [a, b] = [(), ()].map(|()| hog(&mut host, pinned(OTHER)));
    run_through(&mut host, 5);
    assert_eq!((running(&host, OTHER), running(&host, CPU)), (Some(a), None));
    host.adjust(b, Params::default()).expect("accepted");
    run_through(&mut host, 5);
    assert_eq!(running(&host, CPU), Some(b));
}

#[test]
fn a_tick_moves_an_active_entity_where_more_neighbours_idle() {
    // The first topology has two threads per core, the second has two cores per cache.
    for shape in [sched::Topology { cpus: 4, smt: 2, llc: 4 }, sched::Topology { cpus: 4, smt: 1, llc: 2 }] {
        let mut host = host_of(shape, &[]);
        let pair = [CPU, OTHER].map(|cpu| living_on(&mut host, cpu));
        for e in pair {
            interrupt(&mut host, e);
        }
        run_through(&mut host, 19);
        assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), pair.map(Some), "the first tick makes them active");
        run_through(&mut host, 21);
        let place = |host: &Driver<'_>, e: EntityId| match host.machine().state(e) {
            State::Running(cpu) => cpu.index(),
            other => panic!("{e} is {other:?}"),
        };
        let places = pair.map(|e| place(&host, e));
        assert_ne!(places[0] / 2, places[1] / 2, "{shape:?}");
        host.run_until(at(1_000));
        assert_eq!(pair.map(|e| place(&host, e)), places, "and there they stay");
        assert_eq!(host.counts().migrations, 1);
    }
}

#[test]
fn new_entities_live_where_the_fewest_do() {
    let mut host = host(4);
    let hogs: Vec<EntityId> = (0..4).map(|_| hog(&mut host, Params::default())).collect();
    run_through(&mut host, 0);
    for (cpu, &e) in hogs.iter().enumerate() {
        assert_eq!(running(&host, CpuId::new(cpu)), Some(e));
    }
}
