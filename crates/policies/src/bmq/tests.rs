//! Tests of BMQ's rule: levels, boosts, versions, and a worked example.

use super::POLICY;
use super::rule::Bmq;
use crate::project_c::tests::{Lab, SLICE, class, nice};
use crate::project_c::{Kind, Rule, Task};
use sched::{Class, EntityId, Instant, LoadBounds, Nanos, Params};

fn rule(version: &str) -> Bmq {
    let mut knobs = POLICY.defaults();
    knobs.set_word("version", version).expect("it is a version");
    Bmq::new(&knobs)
}

/// Returns the level of this nice value and boost, in Project C's numbering.
fn level(rule: &Bmq, nice: i32, boost: i32) -> usize {
    let (slice, last_ran, home) = (SLICE, Instant::ZERO, sched::CpuId::new(0));
    rule.level(&Task { kind: Kind::Normal, nice, slice, last_ran, home, state: boost }, Instant::ZERO) - 1
}

/// Uses up this number of slices.
fn use_up(lab: &mut Lab, slices: usize) {
    (0..slices).for_each(|_| lab.end_slice(0));
}

/// Blocks `e` after a run of `run`, and wakes `e` after a sleep of `sleep`.
fn burst(lab: &mut Lab, e: EntityId, run: Nanos, sleep: Nanos) {
    lab.pass(run);
    lab.block(e);
    lab.pass(sleep);
    lab.wake(e);
}

#[test]
fn the_level_table() {
    let rule = rule("5.13");
    let boosts = [-7, -4, -2, -1, 0, 1, 2, 4, 7];
    // The level is 50 + ⌊(127 + nice + boost)/2⌋: 100 to 126.
    for (nice, levels) in [
        (-20, [100, 101, 102, 103, 103, 104, 104, 105, 107]),
        (-10, [105, 106, 107, 108, 108, 109, 109, 110, 112]),
        (-5, [107, 109, 110, 110, 111, 111, 112, 113, 114]),
        (0, [110, 111, 112, 113, 113, 114, 114, 115, 117]),
        (5, [112, 114, 115, 115, 116, 116, 117, 118, 119]),
        (10, [115, 116, 117, 118, 118, 119, 119, 120, 122]),
        (19, [119, 121, 122, 122, 123, 123, 124, 125, 126]),
    ] {
        assert_eq!(boosts.map(|boost| level(&rule, nice, boost)), levels, "nice {nice}");
    }
}

#[test]
fn the_level_table_of_linux_6() {
    for version in ["6.6", "6.12"] {
        let rule = rule(version);
        // The level is 32 + ⌊(32 + nice + boost)/2⌋: 32 to 63.
        let corners = [(-20, -12), (0, -12), (0, 0), (0, 12), (19, 12)];
        assert_eq!(corners.map(|(nice, boost)| level(&rule, nice, boost)), [32, 42, 48, 54, 63]);
    }
}

#[test]
fn the_thresholds_of_a_short_run() {
    let old = rule("5.13");
    let expected = [(-7, 128), (-4, 1_024), (-1, 8_192), (0, 16_384), (1, 32_768), (4, 262_144), (7, 2_097_152)];
    for (boost, ns) in expected {
        assert_eq!(old.short_run(boost), Nanos::ns(ns));
    }
    // The threshold is 2^22 ns >> ⌊(14 − b)/2⌋.
    let new = rule("6.6");
    for (boost, ns) in [(-12, 512), (-1, 32_768), (0, 32_768), (1, 65_536), (12, 2_097_152)] {
        assert_eq!(new.short_run(boost), Nanos::ns(ns));
    }
}

#[test]
fn the_worked_example_step_by_step() {
    // 1. The boost of a hog worsens by one with each time slice that it uses up, down to +7.
    let mut lab = Lab::bmq(1);
    let interactive = lab.attach(nice(0));
    let hog = lab.hog(nice(0));
    assert_eq!((lab.boost(hog), lab.level(hog)), (0, 113));
    use_up(&mut lab, 1);
    assert_eq!((lab.boost(hog), lab.level(hog)), (1, 114));
    use_up(&mut lab, 6);
    assert_eq!((lab.boost(hog), lab.level(hog)), (7, 117));
    use_up(&mut lab, 3);
    assert_eq!((lab.boost(hog), lab.level(hog)), (7, 117));
    // 2. A task that slept for longer than a time slice is boosted and preempts at once.
    lab.pass(Nanos::ms(1));
    lab.wake(interactive);
    assert_eq!((lab.boost(interactive), lab.level(interactive)), (-1, 113));
    assert_eq!(lab.running(0), Some(interactive));
    // 3. The task runs for 6 µs, less than 8.192 µs.
    lab.pass(Nanos::us(6));
    lab.block(interactive);
    assert_eq!(lab.boost(interactive), -2);
    assert_eq!(lab.running(0), Some(hog));
    // 4. A second hog of the same level waits for the end of the time slice. (The second hog runs for 3 ms and sleeps
    // for 1.2 ms: neither a short run nor a long sleep.)
    let second = lab.hog(nice(0));
    use_up(&mut lab, 7);
    assert_eq!((lab.running(0), lab.level(second)), (Some(hog), 117));
    use_up(&mut lab, 1);
    lab.pass(Nanos::ms(3));
    lab.block(second);
    lab.pass(SLICE - Nanos::ms(3));
    lab.wake(second);
    assert_eq!((lab.running(0), lab.level(second)), (Some(hog), 117));
    assert_eq!(lab.until(0), lab.now() + Nanos::ms(3));
    use_up(&mut lab, 1);
    assert_eq!((lab.running(0), lab.until(0)), (Some(second), lab.now() + (SLICE - Nanos::ms(3))));
    // 5. A yield sets the boost to +7, but does not change the position yet.
    lab.wake(interactive);
    assert_eq!((lab.running(0), lab.level(interactive)), (Some(interactive), 112));
    lab.yields(interactive);
    assert_eq!((lab.boost(interactive), lab.level(interactive)), (7, 112));
    assert_eq!(lab.running(0), Some(interactive));
    use_up(&mut lab, 1);
    assert_eq!(lab.level(interactive), 117);
    assert_eq!(lab.running(0), Some(second));
}

#[test]
fn a_longer_run_changes_nothing_and_a_long_sleep_boosts_by_one_step() {
    let mut lab = Lab::bmq(1);
    let e = lab.hog(nice(0));
    // The threshold at boost 0 is 16.384 µs. A run of exactly this length is not short.
    burst(&mut lab, e, Nanos::ns(16_384), SLICE);
    assert_eq!(lab.boost(e), 0);
    burst(&mut lab, e, Nanos::ns(16_383), SLICE);
    assert_eq!(lab.boost(e), -1);
    burst(&mut lab, e, Nanos::us(20), SLICE + Nanos::ns(1));
    assert_eq!(lab.boost(e), -2);
    burst(&mut lab, e, Nanos::us(20), Nanos::s(10));
    assert_eq!(lab.boost(e), -3, "however long");
}

#[test]
fn a_run_is_counted_from_when_the_cpu_switched_to_it() {
    let mut lab = Lab::bmq(1);
    let (e, urgent) = (lab.hog(nice(0)), lab.attach(nice(-10)));
    lab.pass(Nanos::ms(1));
    lab.wake(urgent);
    lab.pass(Nanos::ms(1));
    lab.block(urgent);
    burst(&mut lab, e, Nanos::us(10), Nanos::us(1));
    assert_eq!(lab.boost(e), -1, "10 us, not 1.01 ms");
    // Consecutive time slices of a task count as one run.
    let mut lab = Lab::bmq(1);
    let e = lab.hog(nice(0));
    use_up(&mut lab, 1);
    burst(&mut lab, e, Nanos::us(10), Nanos::us(1));
    assert_eq!(lab.boost(e), 1);
}

#[test]
fn an_interactive_tasks_boost_falls_to_the_least_and_is_reported() {
    let mut lab = Lab::bmq(1);
    let e = lab.hog(nice(0));
    let mut told = Vec::new();
    for _ in 0..9 {
        burst(&mut lab, e, Nanos::ns(100), Nanos::ms(10));
        told.push((lab.boost(e), lab.host.machine().interactive(e)));
    }
    // Each burst gains two steps: one for the short run and one for the long sleep.
    assert_eq!(told[..4], [(-2, true), (-4, true), (-6, true), (-7, true)]);
    assert_eq!(told[8], (-7, true));
    // The boost worsens by one step with each time slice used up.
    use_up(&mut lab, 5);
    assert_eq!((lab.boost(e), lab.host.machine().interactive(e)), (-2, true));
    use_up(&mut lab, 1);
    assert_eq!((lab.boost(e), lab.host.machine().interactive(e)), (-1, false));
}

#[test]
fn the_cut_of_the_interactive_is_a_knob() {
    for (cut, expected) in [("-2", true), ("-3", false), ("0", true)] {
        let mut lab = Lab::bmq_with(1, &[("interactive-boost", cut)]);
        let e = lab.hog(nice(0));
        burst(&mut lab, e, Nanos::ns(100), Nanos::ms(10));
        assert_eq!((lab.boost(e), lab.host.machine().interactive(e)), (-2, expected));
    }
}

#[test]
fn the_best_boost_depends_on_class_and_knob() {
    let best = |knobs: &[(&str, &str)], params: Params| {
        let mut lab = Lab::bmq_with(1, knobs);
        let e = lab.hog(params);
        (0..20).for_each(|_| burst(&mut lab, e, Nanos::ns(1), Nanos::ms(10)));
        lab.boost(e)
    };
    let of = |class| Params { class, ..Params::default() };
    assert_eq!([of(Class::Normal), of(Class::Batch), of(Class::Idle)].map(|params| best(&[], params)), [-7, 0, 0]);
    assert_eq!(best(&[], of(Class::Isochronous)), -7, "as a normal one");
    assert_eq!(best(&[("min-boost", "0")], nice(0)), 0, "the thesis: it does not go negative");
    assert_eq!(best(&[("min-boost", "-3")], nice(0)), -3);
    assert_eq!(best(&[("version", "6.12")], nice(0)), -12);
}

#[test]
fn batch_and_idle_sink_as_others_do_and_climb_to_zero_only() {
    let mut lab = Lab::bmq(1);
    let (batch, idle) = (lab.hog(class(Class::Batch)), lab.hog(class(Class::Idle)));
    use_up(&mut lab, 14);
    assert_eq!((lab.boost(batch), lab.boost(idle)), (7, 7));
    lab.block(lab.running(0).expect("a task runs"));
    lab.block(lab.running(0).expect("a task runs"));
    assert_eq!((lab.boost(batch), lab.boost(idle)), (6, 6), "a run of no time at all is short");
}

#[test]
fn a_child_begins_at_seven_above_a_boosted_parent() {
    let mut lab = Lab::bmq(2);
    let parent = lab.hog(nice(0));
    assert_eq!(lab.boost(parent), 0);
    let child = lab.fork(parent);
    assert_eq!(lab.boost(child), 7);
    burst(&mut lab, parent, Nanos::ns(1), Nanos::ms(10));
    assert_eq!(lab.boost(parent), -2);
    let child = lab.fork(parent);
    assert_eq!(lab.boost(child), 5);
}

// ---- Versions ----

#[test]
fn children_of_the_versions() {
    for (version, unboosted, boosted) in [("5.12", 7, 5), ("5.13", 7, 5), ("6.6", 12, 12)] {
        let mut lab = Lab::bmq_with(1, &[("version", version)]);
        let parent = lab.hog(nice(0));
        let child = lab.fork(parent);
        assert_eq!(lab.boost(child), unboosted, "{version}");
        burst(&mut lab, parent, Nanos::ns(1), Nanos::ms(10));
        assert_eq!(lab.boost(parent), -2);
        let child = lab.fork(parent);
        assert_eq!(lab.boost(child), boosted, "{version}");
    }
    let mut lab = Lab::bmq_with(1, &[("version", "6.12")]);
    let parent = lab.hog(nice(0));
    burst(&mut lab, parent, Nanos::ns(1), Nanos::ms(10));
    let child = lab.fork(parent);
    assert_eq!((lab.boost(parent), lab.boost(child)), (-1, -1), "6.12: it is inherited");
}

#[test]
fn version_6_6_reaches_12_and_lowers_a_task_that_blocks_after_more_than_a_time_slice() {
    let mut lab = Lab::bmq_with(1, &[("version", "6.6")]);
    let e = lab.hog(nice(0));
    use_up(&mut lab, 20);
    assert_eq!((lab.boost(e), lab.level(e)), (12, 54));
    let mut lab = Lab::bmq_with(1, &[("version", "6.6")]);
    let e = lab.hog(nice(0));
    use_up(&mut lab, 1);
    burst(&mut lab, e, Nanos::ns(1), Nanos::us(1));
    assert_eq!(lab.boost(e), 2, "one step for the slice, one for blocking after it");
    let mut lab = Lab::bmq(1);
    let e = lab.hog(nice(0));
    use_up(&mut lab, 1);
    burst(&mut lab, e, Nanos::ns(1), Nanos::us(1));
    assert_eq!(lab.boost(e), 1);
}

#[test]
fn from_6_6_on_four_real_time_priorities_share_a_level() {
    for (version, shared) in [("5.13", false), ("6.6", true), ("6.12", true)] {
        let mut lab = Lab::bmq_with(1, &[("version", version)]);
        let low = lab.hog(crate::project_c::tests::fifo(8));
        let high = lab.hog(crate::project_c::tests::fifo(11));
        assert_eq!(lab.running(0), Some(if shared { low } else { high }), "{version}");
    }
}

#[test]
fn version_6_12_boosts_at_every_block_and_by_the_length_of_the_sleep_only_if_mended() {
    for (knob, boost) in [("on", -1), ("off", -3)] {
        let mut lab = Lab::bmq_with(1, &[("version", "6.12"), ("sleep-is-bool", knob)]);
        let e = lab.hog(nice(0));
        // The block improves the boost by one step. Without `sleep-is-bool`, the sleep improves it by two: 10 ms is
        // more than twice 2^22 ns.
        burst(&mut lab, e, Nanos::ms(4), Nanos::ms(10));
        assert_eq!(lab.boost(e), boost, "sleep-is-bool {knob}");
    }
    // A task of the idle class is never boosted.
    let mut lab = Lab::bmq_with(1, &[("version", "6.12")]);
    let e = lab.hog(class(Class::Idle));
    use_up(&mut lab, 3);
    burst(&mut lab, e, Nanos::ns(1), Nanos::ms(10));
    assert_eq!(lab.boost(e), 3);
}

#[test]
fn version_6_12_sends_a_yielder_to_the_tail() {
    for (version, stays) in [("5.13", true), ("6.12", false)] {
        let mut lab = Lab::bmq_with(1, &[("version", version)]);
        let first = lab.hog(nice(0));
        let second = lab.hog(nice(0));
        lab.yields(first);
        assert_eq!(lab.running(0), Some(if stays { first } else { second }), "{version}");
    }
}

// ---- Bounds ----

#[test]
fn equals_that_never_sleep_wait_no_longer_than_stated() {
    let knobs = POLICY.defaults();
    let host = sched::Topology::new(1);
    let load = LoadBounds::of_hogs(&host, &knobs, 4);
    let bound = (POLICY.starvation)(&load).expect("equals are sure of their turns");
    assert_eq!((POLICY.starvation)(&LoadBounds { weight_least: 820, ..load }), None, "levels are strict");
    let mut lab = Lab::bmq(1);
    let oldest = lab.hog(nice(0));
    use_up(&mut lab, 7);
    // Three tasks with better levels keep the oldest task waiting until their boosts have worsened to +7.
    for _ in 0..3 {
        lab.hog(nice(0));
    }
    let since = lab.now();
    while lab.running(0) != Some(oldest) {
        lab.end_slice(0);
    }
    let waited = lab.now().since(since);
    assert!(waited <= bound, "{waited} of {bound}");
    assert!(waited.saturating_mul(2) > bound, "the bound is not far off: {waited} of {bound}");
}

#[test]
fn a_better_level_starves_a_worse_one() {
    let mut lab = Lab::bmq(1);
    let worse = lab.hog(nice(2));
    lab.hog(nice(0));
    use_up(&mut lab, 20);
    let before = lab.host.machine().charged(worse);
    use_up(&mut lab, 200);
    assert_eq!(lab.host.machine().charged(worse), before);
}

/// A letter stands for a quarter of a time slice. `i` wakes at every twelfth letter, first at the seventh, and runs for
/// one letter.
#[test]
fn the_essays_picture_is_true() {
    let mut lab = Lab::of(&POLICY, sched::Topology::new(1), &[]);
    let (a, b, i) = (lab.hog(nice(0)), lab.hog(nice(0)), lab.attach(nice(0)));
    use_up(&mut lab, 14);
    let mut picture = String::from("//! ");
    for letter in 0..36 {
        if letter % 12 == 6 {
            lab.wake(i);
        }
        let running = lab.running(0).expect("a task runs");
        picture.push(if running == a {
            'a'
        } else if running == b {
            'b'
        } else {
            'i'
        });
        lab.pass(Nanos::ns(SLICE.as_ns() / 4));
        if running == i {
            lab.block(i);
        }
    }
    assert!(POLICY.text.contains(&picture), "the picture is {picture}");
}
