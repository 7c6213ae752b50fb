//! Tests of several CPUs: run queues, kicks, migration resistance, loads and load balancing.

use super::*;
use crate::credit2::runqueue::{Load, partition};
use crate::credit2::settings::Settings;
use sched::Topology as Shape;

/// Returns the CPUs of each run queue.
fn queues(shape: Shape, share: &str, most: i64) -> Vec<Vec<usize>> {
    let mut knobs = POLICY.defaults();
    knobs.set_word("runqueue", share).expect("a choice");
    knobs.set("runqueue-cpus", most).expect("in range");
    let queues = partition(&shape, &Settings::read(&knobs));
    queues.iter().map(|queue| queue.cpus.iter().map(CpuId::index).collect()).collect()
}

#[test]
fn cpus_share_run_queues_as_is_asked() {
    let shape = Shape { cpus: 8, smt: 2, llc: 4 };
    assert_eq!(queues(shape, "socket", 16), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!(queues(shape, "cpu", 16).len(), 8);
    assert_eq!(queues(shape, "core", 16), [vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]]);
    assert_eq!(queues(shape, "all", 16), [(0..8).collect::<Vec<_>>()]);
}

#[test]
fn no_run_queue_is_too_large_and_no_core_is_parted() {
    let wide = Shape { cpus: 24, smt: 1, llc: 24 };
    // The 24 CPUs have two run queues, of 12 CPUs each.
    assert_eq!(queues(wide, "socket", 16), [(0..12).collect::<Vec<_>>(), (12..24).collect()]);
    assert_eq!(queues(Shape { cpus: 6, smt: 2, llc: 6 }, "all", 4), [vec![0, 1], vec![2, 3], vec![4, 5]]);
    assert_eq!(queues(Shape { cpus: 4, smt: 2, llc: 4 }, "all", 1), [vec![0, 1], vec![2, 3]]);
}

#[test]
fn one_run_queue_serves_all_its_cpus() {
    let mut host = host(2);
    let hogs: Vec<(EntityId, u64)> = (0..3).map(|_| (hog(&mut host, Params::default()), 1)).collect();
    host.run_until(at(6_000_000));
    assert_shares(&mut host, &hogs, Nanos::s(12), Nanos::ms(40));
}

#[test]
fn a_whole_idle_core_comes_before_an_idle_thread() {
    let mut host = host_of(Shape { cpus: 4, smt: 2, llc: 4 }, &[]);
    let pair = [CPU, OTHER].map(|cpu| living_on(&mut host, cpu));
    for e in pair {
        interrupt(&mut host, e);
        run_through(&mut host, 10);
    }
    assert_eq!(pair.map(|e| place(&host, e)), [0, 2], "not the other thread of the busy core");
    // No core is wholly idle now, so the third vCPU runs on its home, an idle thread.
    let third = living_on(&mut host, CpuId::new(3));
    interrupt(&mut host, third);
    run_through(&mut host, 20);
    assert_eq!(place(&host, third), 3);
}

#[test]
fn the_last_cpu_is_preferred_and_else_the_greatest_advantage() {
    let mut host = host(3);
    let cpus = [0, 1, 2].map(CpuId::new);
    let runners = cpus.map(|cpu| scripted(&mut host, pinned(cpu)));
    // At 8 ms, the vCPUs have run for 8, 6 and 2 ms.
    for (e, us) in [(runners[0], 0), (runners[1], 2_000), (runners[2], 6_000)] {
        run_through(&mut host, us);
        interrupt(&mut host, e);
    }
    run_through(&mut host, 8_000);
    let home = living_on(&mut host, cpus[2]);
    interrupt(&mut host, home);
    run_through(&mut host, 8_000);
    assert_eq!(place(&host, home), 2, "10 against 8 is enough at home");
    // The running vCPU on CPU 2, the home of `abroad`, has no less credit than `abroad`. So the wake-up kicks the CPU
    // whose running vCPU has the least credit: CPU 0, not CPU 1.
    let abroad = living_on(&mut host, cpus[2]);
    interrupt(&mut host, abroad);
    run_through(&mut host, 8_010);
    assert_eq!(place(&host, abroad), 0, "CPU 2 has just begun");
}

#[test]
fn an_idle_cpu_takes_a_vcpu_with_hardly_any_credit() {
    // `light`, whose credit is clipped at −10 ms, is preempted on CPU 1 while CPU 0 idles.
    for (hand_off, moves) in [(1, true), (0, false)] {
        let mut host = host_of(Shape::new(2), &[("hand-off", hand_off)]);
        let light = scripted(&mut host, Params { affinity: CpuSet::one(OTHER), ..weighing(16) });
        let heavy = scripted(&mut host, Params { affinity: CpuSet::one(OTHER), ..weighing(1024) });
        interrupt(&mut host, light);
        run_through(&mut host, 1_400);
        host.adjust(light, weighing(16)).expect("accepted");
        interrupt(&mut host, heavy);
        run_through(&mut host, 1_400);
        assert_eq!(running(&host, OTHER), Some(heavy));
        // An idle CPU that picks a vCPU without credit resets the queue. The vCPU receives 20 ms of credit, and 50 us
        // for the migration.
        assert_eq!(credit(&host, light), if moves { 10_050 } else { -10_000 });
        assert_eq!(running(&host, CPU) == Some(light), moves, "hand-off {hand_off}");
    }
}

#[test]
fn newcomers_go_where_least_load_is_expected() {
    let mut host = host_of(Shape { cpus: 4, smt: 1, llc: 2 }, &[]);
    let hogs: Vec<EntityId> = (0..4).map(|_| hog(&mut host, Params::default())).collect();
    run_through(&mut host, 0);
    let mut places: Vec<usize> = hogs.iter().map(|&e| place(&host, e)).collect();
    assert_eq!(hogs.iter().map(|&e| shows(&host, e, "runqueue")).collect::<Vec<_>>(), [0, 1, 0, 1]);
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3]);
}

#[test]
fn loads_are_averages_of_the_runnable_vcpus() {
    let knobs = POLICY.defaults();
    let settings = Settings::read(&knobs);
    let (whole, window) = (1_i64 << 18, 1_u64 << 20);
    let mut load = Load::of_newcomer(0, &settings);
    let mut planned = 0;
    assert_eq!(load.average, whole / 2);
    load.now = 1;
    load.update(&mut planned, window / 2, &settings);
    assert_eq!((load.average, planned), (whole / 2 + whole / 4, whole / 2));
    load.now = 0;
    load.update(&mut planned, window / 2 + window / 4, &settings);
    assert_eq!((load.average, planned), (whole / 16 * 9, whole / 8 * 3));
    load.now = 3;
    load.update(&mut planned, 4 * window, &settings);
    assert_eq!((load.average, planned), (3 * whole, 3 * whole), "nothing older than the window counts");
}

/// Returns the number of hogs on CPU 0 ten seconds after the affinities are removed, and the number of migrations in
/// the last five seconds. Each of two run queues has one CPU. `ours` hogs start on CPU 0 and `theirs` on CPU 1.
fn evened_out(ours: usize, theirs: usize, knobs: &[(&str, i64)]) -> (usize, u64) {
    let mut host = host_of(Shape { cpus: 2, smt: 1, llc: 1 }, knobs);
    let on = [vec![CPU; ours], vec![OTHER; theirs]].concat();
    let hogs: Vec<EntityId> = on.into_iter().map(|cpu| hog(&mut host, pinned(cpu))).collect();
    host.run_until(at(2_000_000));
    for &e in &hogs {
        host.adjust(e, Params::default()).expect("accepted");
    }
    host.run_until(at(7_000_000));
    let before = host.counts().migrations;
    host.run_until(at(12_000_000));
    let here = hogs.iter().filter(|&&e| shows(&host, e, "runqueue") == 0).count();
    (here, host.counts().migrations - before)
}

#[test]
fn loads_are_evened_out_and_then_left_alone() {
    assert_eq!(evened_out(4, 0, &[]), (2, 0));
    assert_eq!(evened_out(6, 2, &[]), (4, 0));
    assert_eq!(evened_out(0, 3, &[]).0, 1);
}

#[test]
fn small_differences_are_tolerated() {
    // CPU 0 has two hogs and CPU 1 has one. The load exceeds the number of CPUs, but a migration only reverses the
    // difference.
    assert_eq!(evened_out(2, 1, &[]), (2, 0));
    // With a tolerance of four entities, no entity is moved at all.
    assert_eq!(evened_out(4, 1, &[("balance-over", 2)]), (4, 0));
    assert_eq!(evened_out(4, 1, &[]).0, 3.min(evened_out(4, 1, &[]).0));
}

#[test]
fn affinity_moves_waiting_running_and_sleeping_vcpus() {
    let mut host = host_of(Shape { cpus: 2, smt: 1, llc: 1 }, &[]);
    let runs = hog(&mut host, pinned(CPU));
    let waits = hog(&mut host, pinned(CPU));
    let sleeps = scripted(&mut host, pinned(CPU));
    run_through(&mut host, 500);
    host.adjust(waits, pinned(OTHER)).expect("accepted");
    run_through(&mut host, 500);
    assert_eq!(place(&host, waits), 1);
    host.adjust(runs, pinned(OTHER)).expect("accepted");
    host.adjust(sleeps, pinned(OTHER)).expect("accepted");
    run_through(&mut host, 600);
    assert_eq!((running(&host, CPU), shows(&host, runs, "runqueue")), (None, 1));
    host.adjust(waits, pinned(CPU)).expect("accepted");
    run_through(&mut host, 700);
    assert_eq!((place(&host, waits), place(&host, runs)), (0, 1));
    interrupt(&mut host, sleeps);
    host.run_until(at(20_000));
    assert!(used(&mut host, sleeps) > Nanos::ms(5));
}
