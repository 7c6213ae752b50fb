//! Tests of several CPUs: alt_core.c, Project C v5.13-r3.

use super::*;

fn shape(cpus: usize, smt: usize, llc: usize) -> sched::Topology {
    sched::Topology { cpus, smt, llc }
}

fn lab(shape: sched::Topology, knobs: &[(&str, &str)]) -> Lab {
    Lab::of(&bmq::POLICY, shape, &[&[("tick", "0")], knobs].concat())
}

/// Returns a hog of this nice value, pinned to `cpu`.
fn pinned(lab: &mut Lab, cpu: usize, value: i32) -> EntityId {
    lab.hog(Params { weight: nice(value).weight, ..on(&[cpu], Params::default()) })
}

#[test]
fn an_idle_core_comes_before_an_idle_thread_before_a_less_urgent_one() {
    let mut lab = lab(shape(4, 2, 4), &[]);
    let wanderer = lab.attach(nice(0));
    pinned(&mut lab, 0, 0);
    lab.wake(wanderer);
    assert_eq!(lab.cpu(wanderer), 2, "its last CPU is busy, the other core idles");
    lab.block(wanderer);
    pinned(&mut lab, 3, 0);
    lab.wake(wanderer);
    assert_eq!(lab.cpu(wanderer), 2, "no core idles, the last CPU does");
    lab.block(wanderer);
    pinned(&mut lab, 2, 10);
    pinned(&mut lab, 1, -10);
    lab.wake(wanderer);
    assert_eq!(lab.cpu(wanderer), 2, "no CPU idles, nice 10 is less urgent");
    assert_eq!(lab.running(2), Some(wanderer));
}

#[test]
fn of_equals_the_nearest_cpu_is_chosen() {
    let mut lab = lab(shape(8, 2, 4), &[]);
    let e = lab.hog(on(&[5], Params::default()));
    lab.adjust(e, nice(0));
    lab.block(e);
    // The home is CPU 5, in core {4, 5} and cache {4..7}. If all CPUs idle, the task wakes on its home.
    lab.wake(e);
    assert_eq!(lab.cpu(e), 5);
    lab.block(e);
    // One thread of each core is busy, so no core idles. The tasks are placed first on the sibling thread, then on a
    // CPU of the same cache, then on the other CPUs.
    for cpu in [0, 2, 5, 6] {
        pinned(&mut lab, cpu, -20);
    }
    let mut chosen = Vec::new();
    for _ in 0..4 {
        let e = lab.attach(on(&[5], Params::default()));
        lab.adjust(e, nice(-15));
        lab.wake(e);
        chosen.push(lab.cpu(e));
    }
    assert_eq!(chosen, [4, 7, 1, 3]);
}

#[test]
fn a_cpu_one_level_better_counts_as_less_urgent_as_coded() {
    // CPU 0, the home, runs a task of nice −10 (level 108). CPU 1 runs a task of nice −2 (level 112), one level better
    // than the woken task (level 113).
    for (knob, cpu) in [("on", 1), ("off", 0)] {
        let mut lab = lab(shape(2, 1, 2), &[("place-one-better", knob)]);
        let e = lab.attach(nice(0));
        pinned(&mut lab, 0, -10);
        pinned(&mut lab, 1, -2);
        lab.wake(e);
        assert_eq!((lab.cpu(e), lab.running(1) == Some(e)), (cpu, false));
    }
    // As the source is coded, the same level is sufficient. According to the probable intention of the source, it is
    // not.
    for (knob, cpu) in [("on", 1), ("off", 0)] {
        let mut lab = lab(shape(2, 1, 2), &[("place-one-better", knob)]);
        let e = lab.attach(nice(0));
        pinned(&mut lab, 0, -10);
        pinned(&mut lab, 1, 0);
        lab.wake(e);
        assert_eq!(lab.cpu(e), cpu);
    }
}

#[test]
fn a_cpu_that_goes_idle_takes_half_of_the_nearest_queue() {
    let mut lab = lab(shape(2, 1, 2), &[]);
    let tasks: Vec<_> = (0..6).map(|_| lab.hog(on(&[0], Params::default()))).collect();
    let other = lab.hog(on(&[1], Params::default()));
    tasks.iter().for_each(|&e| lab.adjust(e, nice(0)));
    // The queue contains six tasks, including the running task. CPU 1 examines the next three tasks, in order.
    lab.block(other);
    let cpus: Vec<_> = tasks.iter().map(|&e| lab.cpu(e)).collect();
    assert_eq!(cpus, [0, 1, 1, 1, 0, 0]);
    assert_eq!(lab.running(1), Some(tasks[1]));
    assert!(tasks.iter().all(|&e| lab.level(e) == 113), "levels move along");
}

#[test]
fn a_cpu_that_goes_idle_looks_at_32_at_most_and_not_beyond_those_it_may_not_run() {
    let mut lab = lab(shape(2, 1, 2), &[]);
    let other = lab.hog(on(&[1], Params::default()));
    let tasks: Vec<_> = (0..80).map(|_| lab.hog(on(&[0], Params::default()))).collect();
    tasks.iter().for_each(|&e| lab.adjust(e, nice(0)));
    lab.block(other);
    assert_eq!(tasks.iter().filter(|&&e| lab.cpu(e) == 1).count(), 32);

    let mut lab = self::lab(shape(2, 1, 2), &[]);
    let other = lab.hog(on(&[1], Params::default()));
    let tasks: Vec<_> = (0..4).map(|_| lab.hog(on(&[0], Params::default()))).collect();
    lab.adjust(tasks[3], nice(0));
    lab.block(other);
    assert_eq!(lab.running(1), None, "two of four are looked at, and both are pinned");
}

#[test]
fn a_near_queue_is_robbed_before_a_far_one() {
    let mut lab = lab(shape(4, 1, 2), &[]);
    let waiting = |lab: &mut Lab, cpu: usize| {
        let pair = [lab.hog(on(&[cpu], Params::default())), lab.hog(on(&[cpu], Params::default()))];
        pair[1]
    };
    let (near, far) = (waiting(&mut lab, 2), waiting(&mut lab, 0));
    pinned(&mut lab, 1, 0);
    let e = lab.hog(on(&[3], Params::default()));
    lab.adjust(near, nice(0));
    lab.adjust(far, nice(0));
    lab.block(e);
    assert_eq!((lab.running(3), lab.cpu(far)), (Some(near), 0));
}

#[test]
fn an_idle_core_takes_a_thread_from_a_core_whose_threads_are_both_busy() {
    let mut lab = lab(shape(4, 2, 4), &[]);
    let tasks = [lab.hog(on(&[2], Params::default())), lab.hog(on(&[3], Params::default()))];
    tasks.iter().for_each(|&e| lab.adjust(e, nice(0)));
    let other = lab.hog(on(&[0], Params::default()));
    assert_eq!([lab.cpu(tasks[0]), lab.cpu(tasks[1])], [2, 3]);
    lab.block(other);
    // The search starts at the idle CPU, so CPU 2 is found first.
    assert_eq!([lab.cpu(tasks[0]), lab.cpu(tasks[1])], [0, 3]);
    assert_eq!((lab.running(0), lab.running(2)), (Some(tasks[0]), None));
    // No task moves if the other thread of its core has no task, or has two tasks. No task moves on a host without
    // sibling threads.
    for on_the_other in 0..=2 {
        let mut crowded = self::lab(shape(4, 2, 4), &[]);
        let e = crowded.hog(on(&[2], Params::default()));
        crowded.adjust(e, nice(0));
        (0..on_the_other).for_each(|_| assert!(pinned(&mut crowded, 3, 0) != e));
        let other = crowded.hog(on(&[0], Params::default()));
        crowded.block(other);
        assert_eq!(crowded.cpu(e), if on_the_other == 1 { 0 } else { 2 });
    }
    let mut flat = self::lab(shape(4, 1, 4), &[]);
    let tasks = [flat.hog(on(&[2], Params::default())), flat.hog(on(&[3], Params::default()))];
    tasks.iter().for_each(|&e| flat.adjust(e, nice(0)));
    let other = flat.hog(on(&[0], Params::default()));
    flat.block(other);
    assert_eq!([flat.cpu(tasks[0]), flat.cpu(tasks[1])], [2, 3]);
}

#[test]
fn a_task_missed_in_a_race_is_found() {
    // CPU 0 becomes idle at the instant at which `better` preempts `there` on CPU 1. CPU 0 picks first.
    let mut lab = lab(shape(2, 1, 2), &[]);
    let here = lab.hog(on(&[0], Params::default()));
    let there = lab.hog(on(&[1], Params::default()));
    lab.adjust(there, nice(0));
    let better = lab.attach(Params { weight: nice(-10).weight, ..on(&[1], Params::default()) });
    lab.host.wake(better, Wake::Interrupt);
    lab.host.block(CpuId::new(0));
    lab.settle();
    assert_eq!((lab.running(0), lab.running(1)), (Some(there), Some(better)));
    assert_eq!(lab.host.machine().state(here), sched::State::Blocked);
}

#[test]
fn a_task_that_may_not_stay_moves_to_its_first_allowed_cpu() {
    for policy in [&bmq::POLICY, &pds::POLICY] {
        let mut lab = Lab::of(policy, sched::Topology::new(4), &[("tick", "0")]);
        let [running, waiting] = [lab.hog(on(&[0], Params::default())), lab.hog(on(&[0], Params::default()))];
        lab.adjust(waiting, on(&[2, 3], Params::default()));
        assert_eq!(lab.running(2), Some(waiting));
        lab.adjust(running, on(&[1, 3], Params::default()));
        assert_eq!((lab.running(1), lab.running(0)), (Some(running), None));
    }
}
