//! Tests of PDS's rule: deadlines and rotating levels (pds.h, Project C v5.13-r3).

use super::POLICY;
use crate::project_c::tests::{Lab, SLICE, fifo, nice};
use sched::{LoadBounds, Nanos};

/// Returns the length of `n` slots of 2^22 ns.
fn slots(n: u64) -> Nanos {
    SLICE.saturating_mul(n)
}

/// First level that is not real-time, as shown by `inspect`. In Project C, this level is 128.
const FIRST_LEVEL: i64 = 100;

#[test]
fn a_deadline_is_the_slot_that_has_begun_and_the_nice_value_from_0_to_39() {
    let mut lab = Lab::pds(1);
    lab.pass(slots(5) + Nanos::ns(1));
    for (value, deadline) in [(-20, 5), (0, 25), (19, 44)] {
        let e = lab.hog(nice(value));
        assert_eq!(lab.shows(e, "deadline"), deadline);
        // The level of a new task is 24 + nice + 20.
        assert_eq!(lab.level(e), FIRST_LEVEL + deadline - 5 + 24);
    }
}

#[test]
fn with_2_ms_slices_slots_are_half_as_long() {
    let mut lab = Lab::pds_with(1, &[("slice", "2ms")]);
    lab.pass(slots(5));
    let e = lab.hog(nice(-20));
    assert_eq!(lab.shows(e, "deadline"), 10);
}

#[test]
fn a_waiting_task_rises_a_level_with_each_slot_up_to_the_first() {
    let mut lab = Lab::pds(1);
    let rt = lab.hog(fifo(1));
    let e = lab.hog(nice(-20));
    let mut levels = Vec::new();
    for _ in 0..4 {
        lab.pass(slots(10));
        // Every access to the queue rotates its levels.
        lab.yields(rt);
        levels.push(lab.level(e) - FIRST_LEVEL);
    }
    assert_eq!(levels, [14, 4, 0, 0]);
}

#[test]
fn a_deadline_is_renewed_by_using_a_slice_up_by_yielding_and_not_by_blocking() {
    let mut lab = Lab::pds(1);
    let e = lab.hog(nice(0));
    let deadline = |lab: &Lab| lab.shows(e, "deadline");
    lab.pass(slots(1) - Nanos::us(200));
    lab.block(e);
    lab.pass(slots(9) + Nanos::us(200));
    assert_eq!(deadline(&lab), 20);
    lab.wake(e);
    assert_eq!((deadline(&lab), lab.slice(e)), (20, Nanos::us(200)), "it keeps what it had left, too");
    lab.end_slice(0);
    assert_eq!(deadline(&lab), 30);
    lab.pass(slots(1) - Nanos::us(300));
    lab.yields(e);
    assert_eq!((deadline(&lab), lab.slice(e)), (30, SLICE));
    lab.pass(slots(1) - Nanos::us(100));
    lab.block(e);
    assert_eq!(
        (deadline(&lab), lab.slice(e)),
        (31, SLICE),
        "almost nothing left counts as nothing, also for a task that blocks"
    );
}

#[test]
fn a_yield_goes_behind_the_tasks_of_its_new_level() {
    let mut lab = Lab::pds(1);
    let [first, second] = [lab.hog(nice(0)), lab.hog(nice(0))];
    lab.yields(first);
    assert_eq!(lab.running(0), Some(second));
}

#[test]
fn a_task_that_slept_past_its_deadline_preempts_at_once() {
    let mut lab = Lab::pds(1);
    let sleeper = lab.hog(nice(10));
    lab.block(sleeper);
    let hog = lab.hog(nice(-20));
    lab.pass(slots(5));
    lab.wake(sleeper);
    // The deadline of `sleeper`, of nice 10, was set in slot 0. `sleeper` is due at slot 30. In slot 5, it is
    // at level 49. The hog, whose deadline was set in slot 5, is at level 24.
    assert_eq!((lab.running(0), lab.level(sleeper)), (Some(hog), FIRST_LEVEL + 49));
    lab.block(hog);
    lab.block(sleeper);
    lab.wake(hog);
    lab.pass(slots(30));
    lab.wake(sleeper);
    assert_eq!((lab.running(0), lab.level(sleeper)), (Some(sleeper), FIRST_LEVEL + 19));
}

#[test]
fn overdue_tasks_keep_their_order_before_new_ones() {
    let mut lab = Lab::pds(1);
    let late = lab.hog(nice(0));
    lab.block(late);
    let rt = lab.hog(fifo(1));
    let third = lab.hog(nice(-18));
    let first = lab.hog(nice(-20));
    let second = lab.hog(nice(-19));
    lab.pass(slots(100));
    lab.wake(late);
    assert!([first, second, third, late].iter().all(|&e| lab.level(e) == FIRST_LEVEL));
    for e in [first, second, third, late] {
        lab.block(lab.running(0).expect("a task runs"));
        assert_eq!(lab.running(0), Some(e));
    }
    assert_eq!(lab.host.machine().state(rt), sched::State::Blocked);
}

#[test]
fn a_new_nice_value_counts_from_the_next_deadline_on() {
    let mut lab = Lab::pds(1);
    let (e, other) = (lab.hog(nice(0)), lab.hog(nice(0)));
    lab.adjust(other, nice(-20));
    assert_eq!((lab.running(0), lab.shows(other, "deadline")), (Some(e), 20));
    lab.end_slice(0);
    lab.end_slice(0);
    assert_eq!((lab.running(0), lab.shows(other, "deadline")), (Some(other), 2));
}

#[test]
fn a_childs_deadline_is_its_own() {
    let mut lab = Lab::pds(1);
    let parent = lab.hog(nice(-20));
    lab.pass(slots(7) + Nanos::us(1));
    let child = lab.fork(parent);
    assert_eq!(lab.shows(child, "deadline"), 27);
    assert_eq!(lab.running(0), Some(parent));
}

#[test]
fn no_task_counts_as_interactive() {
    let mut lab = Lab::pds(1);
    let e = lab.hog(nice(0));
    assert!(!lab.host.machine().interactive(e));
}

#[test]
fn no_task_waits_longer_than_stated() {
    let knobs = POLICY.defaults();
    let host = sched::Topology::new(1);
    let load = LoadBounds {
        weight_least: 15,
        weight_most: 88_761,
        has_sleepers: true,
        ..LoadBounds::of_hogs(&host, &knobs, 21)
    };
    let bound = (POLICY.starvation)(&load).expect("waiting makes urgent");
    let mut lab = Lab::pds(1);
    let others: Vec<_> = (0..20).map(|_| lab.hog(nice(-20))).collect();
    let patient = lab.hog(nice(19));
    while lab.running(0) != Some(patient) {
        lab.end_slice(0);
    }
    let waited = lab.now().since(sched::Instant::ZERO);
    assert!(waited > slots(39), "first come those of 39 slots: {waited}");
    assert!(waited <= bound && waited.saturating_mul(2) > bound, "{waited} of {bound}");
    assert_eq!(others.len(), 20);
}

/// Each letter of the picture stands for a time slice.
#[test]
fn the_essays_picture_is_true() {
    let mut lab = Lab::of(&POLICY, sched::Topology::new(1), &[]);
    let (a, b) = (lab.hog(nice(0)), lab.hog(nice(3)));
    let mut picture = String::from("//! ");
    for _ in 0..20 {
        let running = lab.running(0).expect("a task runs");
        picture.push(if running == a { 'a' } else { 'b' });
        assert!(running == a || running == b);
        lab.end_slice(0);
    }
    assert!(POLICY.text.contains(&picture), "the picture is {picture}");
}
