//! Tests that each knob has its effect, and that the effect is absent without the knob.

use super::*;

fn slice(cpus: usize, knobs: &[(&str, i64)], params: Params) -> i64 {
    let mut world = several(cpus, knobs);
    let e = world.hog(params);
    world.inspect(e, "slice")
}

#[test]
fn base_slice_grows_with_the_cpus_and_depends_on_the_version() {
    for (cpus, factor) in [(1, 1), (2, 2), (3, 2), (4, 3), (8, 4), (16, 4)] {
        assert_eq!(slice(cpus, &[], nice(0)), us(750) * factor);
        assert_eq!(slice(cpus, &[V6_6], nice(0)), us(750) * factor);
        assert_eq!(slice(cpus, &[V6_17], nice(0)), us(700) * factor);
        assert_eq!(slice(cpus, &[V6_17, ("base-slice", ms(1))], nice(0)), ms(1) * factor);
    }
    assert_eq!(slice(4, &[("scaling", 1)], nice(0)), us(750));
    assert_eq!(slice(6, &[("scaling", 2)], nice(0)), us(750) * 6);
}

#[test]
fn slices_asked_for_are_held_between_a_tenth_and_a_hundred_milliseconds_and_not_heard_in_v6_6() {
    for (asked, given) in [(1, 100), (100, 100), (2_345, 2_345), (100_000, 100_000), (1_000_000, 100_000)] {
        let params = asking(Nanos::us(asked), nice(0));
        assert_eq!(slice(4, &[], params), us(given));
        assert_eq!(slice(4, &[V6_17], params), us(given));
        assert_eq!(slice(4, &[V6_6], params), us(750 * 3));
    }
}

#[test]
fn v6_6_has_none_of_what_came_later_whatever_the_knobs_say() {
    let on = |name| [V6_6, (name, 1)];
    // `preempt-short` has no effect.
    let mut world = one(&on("preempt-short"));
    let short = world.scripted(asking(Nanos::us(100), nice(0)));
    let hog = world.hog(nice(0));
    world.host.run_until(Instant::at_ns(100_000));
    world.wake(short);
    world.settle();
    assert_eq!(world.running(0), Some(hog));
    // `delay-dequeue` has no effect.
    let mut world = one(&on("delay-dequeue"));
    let e = world.scripted(nice(0));
    world.wake(e);
    world.hog(nice(0));
    world.host.run_until(Instant::at_ns(500_000));
    block(&mut world);
    assert_eq!(world.inspect(e, "delayed"), 0);
}

#[test]
fn place_deadline_initial_halves_a_new_tasks_first_slice() {
    for (initial, first) in [(1, us(375)), (0, us(750))] {
        let mut world = one(&[("place-deadline-initial", initial)]);
        world.hog(nice(0));
        world.until_ms(10);
        let parent = world.running(0);
        let child = world.scripted(nice(0));
        world.host.wake(child, Wake::New { parent });
        assert_eq!((left(&world, child), lag(&world, child)), (first, 0));
        let woken = world.scripted(nice(0));
        world.wake(woken);
        assert_eq!(left(&world, woken), us(750), "it is not forked");
    }
}

/// Returns two distances of a task from its deadline. The first is the distance at its preemption on CPU 0 after 0.4 ms
/// of its slice, the second after its migration to CPU 1.
fn moved(knobs: &[(&str, i64)]) -> (i64, i64) {
    let knobs: Vec<_> = [("run-to-parity", 0), ("scaling", 1)].iter().chain(knobs).copied().collect();
    let mut world = several(2, &knobs);
    let wakee = world.scripted(on(&[0], nice(-15)));
    let [moves, _] = [0, 1].map(|cpu| world.hog(on(&[cpu], nice(0))));
    world.until_ms(10);
    world.wake(wakee);
    world.settle();
    block(&mut world);
    world.host.run_until(at_ms(10) + Nanos::us(400));
    assert_eq!(world.running(0), Some(moves));
    world.wake(wakee);
    world.settle();
    assert_eq!(world.running(0), Some(wakee));
    let before = left(&world, moves);
    world.host.adjust(moves, on(&[1], nice(0))).unwrap();
    assert_eq!(world.cpu_of(moves), 1);
    (before, left(&world, moves))
}

#[test]
fn place_rel_deadline_keeps_the_distance_from_the_deadline_on_the_way() {
    let (before, after) = moved(&[]);
    assert!(before == after && (before - us(350)).abs() < 1_000, "{before} and {after}");
    for knob in [("place-rel-deadline", 0), V6_6] {
        let (before, after) = moved(&[knob]);
        assert!((before - us(350)).abs() < 1_000 && after == us(750), "{before} and {after}");
    }
}

#[test]
fn group_slices_let_a_group_ask_for_what_its_members_do() {
    for (knobs, preempts) in [(&[][..], true), (&[("group-slices", 0)], false), (&[V6_6], false)] {
        let knobs: Vec<_> = [("base-slice", ms(5)), ("tick", ms(20))].iter().chain(knobs).copied().collect();
        let mut world = one(&knobs);
        let group = world.group(1024, GroupId::ROOT);
        let patient = world.scripted(within(group, nice(0)));
        let hasty = world.scripted(asking(Nanos::us(300), within(group, nice(0))));
        world.hog(nice(0));
        world.host.run_until(Instant::at_ns(200_000));
        world.wake(patient);
        world.settle();
        assert_ne!(world.running(0), Some(patient), "it asks for no less than the hog");
        world.host.pause(patient);
        world.wake(hasty);
        world.settle();
        assert_eq!(world.running(0) == Some(hasty), preempts, "{knobs:?}");
    }
}

#[test]
fn protection_to_the_deadline_or_for_the_shortest_slice() {
    for (knobs, longest) in [(&[][..], 10), (&[("protection", 1)], 2), (&[V6_17], 2), (&[V6_6], 1)] {
        let mut world = one(knobs);
        let patient = world.hog(asking(Nanos::ms(10), nice(0)));
        world.hog(asking(Nanos::us(1_500), nice(0)));
        world.until_ms(500);
        let most = turns(&world, patient)[5..].iter().copied().max().unwrap();
        assert_eq!(most, Nanos::ms(longest), "{knobs:?}");
    }
}

#[test]
fn without_run_to_parity_v6_17_still_grants_a_base_slice() {
    // In v6.17, the protection lasts 0.7 ms on any number of CPUs. In v6.12, the knob removes the protection.
    for (version, ran, preempts) in [(2, 500, false), (2, 900, true), (0, 500, true)] {
        let mut world = several(8, &[("version", version), ("run-to-parity", 0), ("tick", ms(20))]);
        let wakee = world.scripted(on(&[0], nice(-15)));
        world.hog(on(&[0], nice(0)));
        world.host.run_until(Instant::at_ns(us(ran).unsigned_abs()));
        world.wake(wakee);
        world.settle();
        assert_eq!(world.running(0) == Some(wakee), preempts, "version {version}, after {ran} us");
    }
}

#[test]
fn a_short_request_behind_another_woken_task_shortens_the_protection() {
    // A batch task waits with the earliest deadline, but does not end the protection. Then a task that ends the
    // protection wakes.
    for (knobs, peace) in [(&[V6_17][..], 7), (&[], 1), (&[V6_17, ("preempt-short", 0)], 8)] {
        let knobs: Vec<_> =
            [("base-slice", ms(8)), ("place-deadline-initial", 0)].iter().chain(knobs).copied().collect();
        let mut world = one(&knobs);
        let batch = world.scripted(asking(Nanos::ms(6), class(Class::Batch)));
        let short = world.scripted(asking(Nanos::us(7_900), nice(0)));
        let hog = world.hog(nice(0));
        world.host.run_until(Instant::at_ns(50_000));
        world.wake(batch);
        world.wake(short);
        world.settle();
        assert_eq!(world.running(0), Some(hog));
        until_running(&mut world, hog, false);
        assert_eq!(world.running(0), Some(batch));
        assert_eq!(turns(&world, hog), [Nanos::ms(peace)], "{knobs:?}");
    }
}

#[test]
fn next_buddy_prefers_the_last_woken_task() {
    for (on, preempts) in [(0, false), (1, true)] {
        let mut world = one(&[("next-buddy", on), ("base-slice", ms(5)), ("tick", ms(20))]);
        let e = world.scripted(nice(10));
        let hog = world.hog(nice(0));
        world.host.run_until(Instant::at_ns(200_000));
        world.wake(e);
        world.settle();
        assert_eq!(world.running(0), Some(if preempts { e } else { hog }));
    }
}

#[test]
fn pick_buddy_lets_a_directed_yield_have_its_way() {
    for (knobs, obeys) in [(&[][..], false), (&[("pick-buddy", 1)], true), (&[V6_17], true)] {
        let knobs: Vec<_> = [("base-slice", ms(5)), ("tick", ms(20))].iter().chain(knobs).copied().collect();
        let mut world = one(&knobs);
        let [_, b, c] = [0, 0, 5].map(|n| world.hog(nice(n)));
        world.host.run_until(Instant::at_ns(500_000));
        world.host.yield_to(CpuId::new(0), c);
        world.settle();
        assert_eq!(world.running(0), Some(if obeys { c } else { b }), "c's deadline is later");
    }
}

#[test]
fn wakeup_preemption_can_be_switched_off() {
    for on in [1, 0] {
        let mut world = one(&[("wakeup-preemption", on), ("tick", ms(20))]);
        let e = world.scripted(asking(Nanos::us(100), nice(0)));
        world.hog(nice(0));
        world.host.run_until(Instant::at_ns(100_000));
        world.wake(e);
        world.settle();
        assert_eq!(world.running(0) == Some(e), on == 1);
    }
}

#[test]
fn tick_is_when_slices_end() {
    for tick in [1, 4, 10] {
        let mut world = one(&[("tick", ms(tick))]);
        let hogs = world.hogs(2, nice(0));
        world.until_ms(200);
        let length = Nanos::ms(tick.unsigned_abs());
        assert!(hogs.into_iter().flat_map(|e| turns(&world, e)).all(|turn| turn == length), "{length}");
    }
}

#[test]
fn every_knob_names_its_source() {
    let versions = ["v5.13", "v6.12", "v6.14", "v6.17"];
    assert!(POLICY.knobs.iter().all(|knob| versions.iter().any(|version| knob.source.contains(version))));
}
