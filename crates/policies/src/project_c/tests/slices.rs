//! Tests of time slices, preemption, real-time levels, forks and yields: alt_core.c, Project C v5.13-r3.

use super::*;

const US: Nanos = Nanos::us(1);

#[test]
fn an_equal_task_waits_and_a_better_one_runs_at_once() {
    let mut lab = Lab::bmq(1);
    let first = lab.hog(nice(0));
    lab.pass(Nanos::ms(1));
    let equal = lab.hog(nice(0));
    assert_eq!(lab.running(0), Some(first));
    // A task of nice −1 is at level 50 + ⌊126/2⌋ = 113, like a task of nice 0. A task of nice −2 is at level 112.
    lab.hog(nice(-1));
    assert_eq!(lab.running(0), Some(first));
    let better = lab.hog(nice(-2));
    assert_eq!(lab.running(0), Some(better));
    lab.block(better);
    // The preempted task is still first, with the remainder of its time slice.
    assert_eq!(lab.running(0), Some(first));
    assert_eq!(lab.until(0), lab.now() + (SLICE - Nanos::ms(1)));
    lab.end_slice(0);
    assert_eq!(lab.running(0), Some(equal));
}

#[test]
fn less_than_102_us_left_is_as_good_as_nothing() {
    for (left, boost) in [(102_400, 0), (102_399, 1)] {
        let mut lab = Lab::bmq(1);
        let (hog, better) = (lab.hog(nice(0)), lab.attach(nice(-10)));
        lab.pass(SLICE - Nanos::ns(left));
        lab.wake(better);
        assert_eq!((lab.running(0), lab.boost(hog)), (Some(better), boost));
        let expected = if boost == 0 { Nanos::ns(left) } else { SLICE };
        assert_eq!(lab.slice(hog), expected);
    }
}

#[test]
fn a_block_with_almost_nothing_left_refills_the_slice_without_penalty() {
    let mut lab = Lab::bmq(1);
    let e = lab.hog(nice(0));
    lab.pass(SLICE - Nanos::us(50));
    lab.block(e);
    assert_eq!((lab.boost(e), lab.slice(e)), (0, SLICE));
}

#[test]
fn a_tick_ends_a_slice_of_which_next_to_nothing_is_left() {
    let turns = |tick: &str| {
        let mut lab = Lab::bmq_with(1, &[("tick", tick)]);
        lab.pass(US.saturating_mul(100));
        let e = lab.hog(nice(0));
        (lab.until(0).as_ns(), lab.boost(e))
    };
    assert_eq!(turns("0").0, 100_000 + 4_194_304);
    assert_eq!(turns("1000000").0, 100_000 + 4_194_304, "at 4 ms, 294 us are left");
    assert_eq!(turns("4200000").0, 4_200_000, "94 us are left");
    assert_eq!(turns("4190000").0, 100_000 + 4_194_304, "104 us are left");
    let mut lab = Lab::bmq_with(1, &[("tick", "4200000")]);
    lab.pass(US.saturating_mul(100));
    let e = lab.hog(nice(0));
    lab.end_slice(0);
    assert_eq!((lab.now().as_ns(), lab.boost(e)), (4_200_000, 1), "it counts as used up");
}

#[test]
fn the_slice_is_4_or_2_ms_of_two_to_the_20() {
    for (knobs, expected) in [
        (vec![], 4_194_304),
        (vec![("slice", "2ms")], 2_097_152),
        (vec![("version", "5.12")], 4_000_000),
        (vec![("version", "5.12"), ("slice", "2ms")], 2_000_000),
    ] {
        let mut lab = Lab::bmq_with(1, &knobs);
        lab.hog(nice(0));
        assert_eq!(lab.until(0).as_ns(), expected);
    }
    let mut lab = Lab::pds_with(1, &[("slice", "2ms")]);
    lab.hog(nice(0));
    assert_eq!(lab.until(0).as_ns(), 2_097_152);
}

#[test]
fn up_to_5_12_as_good_as_nothing_is_100_us() {
    let mut lab = Lab::bmq_with(1, &[("version", "5.12")]);
    let (hog, better) = (lab.hog(nice(0)), lab.attach(nice(-10)));
    lab.pass(Nanos::us(3_900));
    lab.wake(better);
    assert_eq!((lab.boost(hog), lab.slice(hog)), (0, Nanos::us(100)));
}

// ---- Classes ----

#[test]
fn fifo_keeps_its_place_when_its_slice_ends_and_round_robin_goes_last() {
    for (both, next) in [(fifo(10), 0), (round_robin(10), 1)] {
        for mut lab in [Lab::bmq(1), Lab::pds(1)] {
            let tasks = [lab.hog(both), lab.hog(both)];
            lab.end_slice(0);
            assert_eq!(lab.running(0), Some(tasks[next]));
            assert_eq!(lab.until(0), lab.now() + SLICE);
        }
    }
}

#[test]
fn real_time_levels_are_99_minus_the_priority_and_stoppers_come_before_all() {
    for mut lab in [Lab::bmq(1), Lab::pds(1)] {
        let low = lab.hog(fifo(1));
        let high = lab.hog(fifo(99));
        assert_eq!((lab.level(low), lab.level(high)), (98, 0));
        assert_eq!(lab.running(0), Some(high));
        let stopper = lab.hog(class(Class::Stop));
        assert_eq!(lab.running(0), Some(stopper), "a stopper does not wait for priority 99");
        let best = lab.hog(nice(-20));
        lab.end_slice(0);
        assert_eq!(lab.running(0), Some(stopper), "it runs until it blocks");
        lab.block(stopper);
        lab.block(high);
        assert_eq!(lab.running(0), Some(low));
        assert!(lab.level(best) > 99);
    }
}

#[test]
fn a_reservation_makes_fifo_99_unless_it_is_ignored() {
    let reserved =
        Params { reservation: Some(sched::Reservation::new(Nanos::ms(1), Nanos::ms(10))), ..Params::default() };
    for (knob, preempts) in [("on", true), ("off", false)] {
        for policy in [&bmq::POLICY, &pds::POLICY] {
            let mut lab = Lab::of(policy, sched::Topology::new(1), &[("tick", "0"), ("deadline-is-fifo", knob)]);
            let rt = lab.hog(fifo(98));
            let e = lab.hog(reserved);
            assert_eq!(lab.running(0) == Some(e), preempts);
            assert_eq!(lab.running(0) == Some(rt), !preempts);
        }
    }
}

// ---- Forks ----

#[test]
fn a_fork_halves_what_is_left_of_the_slice() {
    for mut lab in [Lab::bmq(1), Lab::pds(1)] {
        let parent = lab.hog(nice(0));
        lab.pass(Nanos::ns(194_304));
        let child = lab.fork(parent);
        assert_eq!((lab.slice(parent), lab.slice(child)), (Nanos::ms(2), Nanos::ms(2)));
        assert_eq!(lab.until(0), lab.now() + Nanos::ms(2));
        lab.end_slice(0);
        assert_eq!((lab.slice(parent), lab.slice(child)), (SLICE, Nanos::ms(2)));
        // With PDS, the new deadline of the parent is after the deadline of the child. With BMQ, the parent stays ahead
        // of the child.
        if lab.running(0) == Some(parent) {
            lab.block(parent);
        }
        assert_eq!((lab.running(0), lab.until(0)), (Some(child), lab.now() + Nanos::ms(2)));
    }
}

#[test]
fn too_little_to_halve_gives_the_child_a_whole_slice_and_ends_the_parents() {
    let mut lab = Lab::bmq(1);
    let parent = lab.hog(nice(0));
    // Half of 204,798 ns is 102,399 ns, which counts as used up.
    lab.pass(SLICE - Nanos::ns(204_798));
    let child = lab.fork(parent);
    assert_eq!(lab.slice(child), SLICE);
    assert_eq!((lab.boost(parent), lab.slice(parent)), (1, SLICE));
    assert_eq!(lab.level(child), 117, "the child of a parent without boost begins at +7");
    assert_eq!(lab.running(0), Some(parent));
}

// ---- Yields ----

#[test]
fn a_yield_can_be_ignored_or_let_the_next_one_run_once() {
    for policy in [&bmq::POLICY, &pds::POLICY] {
        let knobs = |word| [("tick", "0"), ("yield", word)];
        let mut lab = Lab::of(policy, sched::Topology::new(1), &knobs("ignored"));
        let tasks = [lab.hog(nice(0)), lab.hog(nice(0))];
        lab.pass(Nanos::ms(1));
        lab.yields(tasks[0]);
        assert_eq!(lab.running(0), Some(tasks[0]));
        assert_eq!(lab.until(0).as_ns(), SLICE.as_ns());

        let mut lab = Lab::of(policy, sched::Topology::new(1), &knobs("skip"));
        let tasks = [lab.hog(nice(0)), lab.hog(nice(0))];
        lab.pass(Nanos::ms(1));
        lab.yields(tasks[0]);
        assert_eq!(lab.running(0), Some(tasks[1]));
        // The task is skipped once, and is then first again.
        lab.block(tasks[1]);
        assert_eq!(lab.running(0), Some(tasks[0]));
        lab.yields(tasks[0]);
        assert_eq!(lab.running(0), Some(tasks[0]), "there is no other task");
    }
}

#[test]
fn no_timer_is_set_for_less_than_10_us() {
    // An ignored yield does not end a time slice, even if little of the slice remains.
    let mut lab = Lab::bmq_with(1, &[("yield", "ignored")]);
    let e = lab.hog(nice(0));
    lab.pass(SLICE - Nanos::us(3));
    lab.yields(e);
    assert_eq!((lab.boost(e), lab.until(0)), (0, lab.now() + Nanos::us(10)));
    lab.end_slice(0);
    assert_eq!((lab.boost(e), lab.slice(e)), (1, SLICE));
}

#[test]
fn a_real_time_yield_changes_nothing() {
    for mut lab in [Lab::bmq(1), Lab::pds(1)] {
        let tasks = [lab.hog(round_robin(5)), lab.hog(round_robin(5))];
        lab.yields(tasks[0]);
        assert_eq!(lab.running(0), Some(tasks[0]));
    }
}

// ---- Changes ----

#[test]
fn a_new_level_means_its_tail_and_the_same_level_the_same_place() {
    let mut lab = Lab::bmq(1);
    let [a, b, c] = [lab.hog(nice(0)), lab.hog(nice(0)), lab.hog(nice(0))];
    lab.adjust(a, nice(-1)); // The level is still 113.
    assert_eq!(lab.running(0), Some(a));
    lab.adjust(c, nice(-2));
    assert_eq!(lab.running(0), Some(c), "a better level preempts at once");
    lab.adjust(c, nice(0));
    assert_eq!(lab.running(0), Some(a), "back at the tail");
    lab.adjust(a, nice(5));
    assert_eq!(lab.running(0), Some(b));
}
