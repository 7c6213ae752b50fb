//! Tests of the stop and deadline classes among the other classes.

use super::*;

const ALL: [fn() -> Params; 5] =
    [|| of(Class::Stop), || reserved(40, 100), || fifo(50), || round_robin(10), || nice(0)];

/// A task of a more urgent class preempts a task of a less urgent class at once. Another task of the less urgent class
/// then waits.
#[test]
fn every_class_preempts_those_below() {
    for (n, above) in ALL.iter().enumerate() {
        for below in &ALL[n + 1..] {
            let mut host = host(1);
            let low = hog(&mut host, below());
            host.run_until(at(5));
            let high = hog(&mut host, above());
            run_through(&mut host, 5);
            assert_eq!(running(&host, CPU), Some(high));
            let last = hog(&mut host, below());
            host.run_until(at(30));
            assert_eq!(running(&host, CPU), Some(high));
            host.pause(high);
            run_through(&mut host, 30);
            assert!([low, last].contains(&running(&host, CPU).expect("they wait")));
        }
    }
}

/// A task that is blocked, waiting, running or held can change between all classes, as with `sched_setscheduler`.
#[test]
fn a_task_changes_between_all_classes_in_every_state() {
    for (from, to) in ALL.iter().flat_map(|from| ALL.iter().map(move |to| (from, to))) {
        for state in 0..4 {
            let mut host = host(1);
            let other = hog(&mut host, nice(0));
            let e = scripted(&mut host, from());
            if state > 0 {
                wake(&mut host, e);
            }
            let blocker = scripted(&mut host, of(Class::Stop));
            match state {
                1 => host.run_until(at(10)), // The task runs unless its class is fair.
                2 => {
                    host.run_until(at(10));
                    wake(&mut host, blocker);
                    run_through(&mut host, 10);
                }
                3 => host.run_until(at(960)), // The task is held if its class is deadline or real-time.
                _ => {}
            }
            host.adjust(e, to()).expect("it fits");
            if state == 2 {
                run_through(&mut host, 11);
                host.pause(blocker);
            }
            if state == 0 {
                wake(&mut host, e);
            }
            // In the next two seconds, the CPU time of the task depends only on its new class.
            let (mine, others) = (used(&mut host, e), used(&mut host, other));
            let end = host.now() + Nanos::s(2);
            host.run_until(end);
            let (mine, others) = (used(&mut host, e) - mine, used(&mut host, other) - others);
            let class = to().class;
            let deadline = to().reservation.is_some();
            let (least, most) = match class {
                Class::Stop => (2_000, 2_000),
                _ if deadline => (760, 840),
                Class::Normal => (900, 1_100),
                _ => (1_850, 1_951),
            };
            assert!((Nanos::ms(least)..=Nanos::ms(most)).contains(&mine), "state {state}, to {class:?}: {mine}");
            assert_eq!(mine + others, Nanos::s(2), "nothing is lost");
        }
    }
}

#[test]
fn a_reservation_counts_for_normal_tasks_only() {
    let mut host = host(1);
    let batch = hog(&mut host, Params { class: Class::Batch, ..reserved(40, 100) });
    let urgent = scripted(&mut host, Params { class: fifo(1).class, ..reserved(90, 100) });
    let refused = host.attach("c", reserved(96, 100), Workload::Hog).expect_err("that is above 95 %");
    assert!(matches!(refused, Refused::Utilisation { free_ppm: 950_000, .. }));
    let e = hog(&mut host, reserved(95, 100));
    host.run_until(at(1_000));
    assert_eq!([e, batch, urgent].map(|e| used(&mut host, e)), [Nanos::ms(950), Nanos::ms(50), Nanos::ZERO]);
    // A task whose reservation is refused stays in its class.
    assert!(host.adjust(batch, reserved(1, 100)).is_err());
    assert_eq!(host.machine().inspect(batch, "weight"), Some(1024));
}

#[test]
fn a_soft_reservation_reclaims_and_a_hard_one_does_not() {
    let mut host = host(1);
    let mut soft = reserved(10, 100);
    soft.reservation = soft.reservation.map(|reservation| Reservation { limit: Limit::Soft, ..reservation });
    let fair = hog(&mut host, nice(0));
    let e = hog(&mut host, soft);
    host.run_until(at(1_000));
    // The task receives 10 ms / 0.15 of every 100 ms, rounded up to the next tick.
    assert_near(used(&mut host, e), Nanos::ms(667), Nanos::ms(1));
    assert_near(used(&mut host, fair), Nanos::ms(333), Nanos::ms(1));
}

#[test]
fn a_task_behind_a_more_urgent_class_migrates() {
    let mut host = host(2);
    let first = hog(&mut host, pinned(fifo(10), CPU));
    run_through(&mut host, 0);
    host.adjust(first, fifo(10)).expect("accepted");
    let deadline = hog(&mut host, pinned(reserved(40, 100), CPU));
    run_through(&mut host, 0);
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(deadline), Some(first)]);
    let stop = hog(&mut host, pinned(of(Class::Stop), CPU));
    host.adjust(deadline, reserved(40, 100)).expect("accepted");
    run_through(&mut host, 1);
    // The stop task preempts the deadline task, which migrates and preempts the real-time task.
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(stop), Some(deadline)]);
    host.pause(stop);
    run_through(&mut host, 2);
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(first), Some(deadline)]);
}

#[test]
fn deadline_tasks_use_real_time_tasks_time() {
    let mut host = host(1);
    let fair = hog(&mut host, nice(0));
    let urgent = hog(&mut host, fifo(10));
    let deadline = hog(&mut host, reserved(50, 100));
    host.run_until(at(10_000));
    assert_near(used(&mut host, deadline), Nanos::s(5), Nanos::ms(100));
    // `urgent` and `deadline` together receive 95 %. If the time of `deadline` did not count, `urgent` would never be
    // throttled at its 50 %, and fair tasks would starve.
    assert_near(used(&mut host, urgent), Nanos::ms(4_500), Nanos::ms(150));
    assert_near(used(&mut host, fair), Nanos::ms(500), Nanos::ms(100));
}

#[test]
fn stop_tasks_are_not_throttled_and_equals_go_in_order() {
    let mut host = host(1);
    let [a, b] = [(), ()].map(|()| hog(&mut host, of(Class::Stop)));
    host.run_until(at(3_000));
    assert_eq!([a, b].map(|e| used(&mut host, e)), [Nanos::s(3), Nanos::ZERO]);
    host.yield_now(CPU);
    run_through(&mut host, 3_000);
    assert_eq!(running(&host, CPU), Some(b));
}

/// The defaults are the kernel's, even where the defaults of `deadline` alone differ. Knobs with the same name have the
/// same meaning.
#[test]
fn the_defaults_are_the_kernels() {
    let knob = |name| POLICY.knobs.iter().find(|knob| knob.name == name).expect("a knob of linux");
    let word = |name| knob(name).show(knob(name).default);
    let kernel = [
        ("fair", "cfs"),
        ("admission", "bandwidth"),
        ("asleep", "renew"),
        ("hrtick", "off"),
        ("reclaim", "v5.13"),
        ("rt-throttling", "on"),
        ("rt-runtime-share", "off"),
        ("fair-server", "off"),
        ("tick", "1ms"),
    ];
    for (name, default) in kernel {
        assert_eq!(word(name), default, "{name}");
    }
    for class in [crate::deadline::KNOBS, crate::rt::KNOBS, crate::cfs::POLICY.knobs] {
        for there in class {
            let here = knob(there.name);
            assert_eq!(
                (here.unit, here.least, here.most, here.help),
                (there.unit, there.least, there.most, there.help)
            );
        }
    }
}

/// The fair class receives the values of the knobs of `linux`, under its own knob names.
#[test]
fn the_fair_class_is_a_choice_and_its_knobs_are_passed_on() {
    let built = |words: &[(&str, i64)], shown: &str| {
        let mut host = host_with(1, words, Costs::NONE);
        let [e, _] = [(), ()].map(|()| hog(&mut host, nice(0)));
        host.run_until(at(30));
        host.machine().inspect(e, shown)
    };
    assert!(built(&[], "min_vruntime").is_some());
    assert!(built(&[("fair", 1)], "lag").is_some(), "only eevdf shows a lag");
    assert_eq!(built(&[("fair", 0)], "lag"), None);
    let slice = |ns| built(&[("fair", 1), ("eevdf-base-slice", ns)], "slice");
    assert_eq!([slice(750_000), slice(5_000_000)], [Some(750_000), Some(5_000_000)]);
}

/// Under every fair class, a real-time task receives its demand at once, and two equal fair tasks share the rest.
#[test]
fn any_fair_class_shares_what_the_others_leave() {
    for (word, fair) in super::super::knobs::WORDS.iter().enumerate() {
        let mut host = host_with(1, &[("fair", i64::try_from(word).expect("few"))], Costs::NONE);
        let [a, b] = [(), ()].map(|()| hog(&mut host, nice(0)));
        let urgent = periodic(&mut host, fifo(1), Nanos::ms(10), Nanos::ms(4));
        host.run_until(at(3_000));
        assert_eq!(used(&mut host, urgent), Nanos::ms(1_200), "{fair}");
        assert_near(used(&mut host, a), Nanos::ms(900), Nanos::ms(35));
        assert_near(used(&mut host, b), Nanos::ms(900), Nanos::ms(35));
    }
}

/// A 6.12 kernel: no throttling, a fair server, EEVDF, and the corrected formula for reclaiming.
#[test]
fn the_knobs_of_a_6_12_kernel_go_together() {
    let modern = [("fair", 1), ("fair-server", 1), ("reclaim", 1)];
    let mut host = host_with(1, &modern, Costs::NONE);
    let [a, b] = [(), ()].map(|()| hog(&mut host, nice(0)));
    let urgent = hog(&mut host, fifo(1));
    let mut soft = reserved(10, 100);
    soft.reservation = soft.reservation.map(|reservation| Reservation { limit: Limit::Soft, ..reservation });
    let deadline = hog(&mut host, soft);
    host.run_until(at(10_000));
    // The slice of 10 ms per 100 ms is charged at the rate max(0.1, 0.95 − 0.80) / 0.95, because the server's 5 % are
    // reserved. The slice therefore lasts 63.3 ms, rounded up to the next tick.
    assert_near(used(&mut host, deadline), Nanos::ms(6_333), Nanos::ms(70));
    assert_near(used(&mut host, a) + used(&mut host, b), Nanos::ms(500), Nanos::ms(60));
    assert_near(used(&mut host, a), used(&mut host, b), Nanos::ms(10));
    assert!(!host.machine().is_held(urgent) && used(&mut host, urgent) > Nanos::s(3));
}
