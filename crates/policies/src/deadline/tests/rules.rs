//! Tests of the wake-up rule, throttling, yields and ties: deadline.c, v5.13.

use super::*;
use sched::Input;

#[test]
fn the_example_of_the_essay() {
    let mut host = host(1, (&[("reclaim", "off")], &[("quantum", 1_000_000)]));
    let a = hog(&mut host, with(promise(2, 6)));
    let b = hog(&mut host, with(promise(3, 9)));
    let c = hog(&mut host, Params::default());
    let letters = gantt(&mut host, &[(a, 'a'), (b, 'b'), (c, 'c')], 36);
    assert!(POLICY.essay().contains(&letters), "{letters}");
}

/// Worked example: Q = 10 ms, D = P = 100 ms.
#[test]
fn a_rest_that_leaves_too_much_begins_a_new_instance() {
    for (wakes, kept) in [(20, true), (50, false)] {
        let mut host = host(1, PLAIN);
        let e = scripted(&mut host, promise(10, 100));
        wake(&mut host, e);
        run_through(&mut host, 0);
        assert_eq!(account(&host, e), (10, 100));
        host.run_until(at(4));
        host.block(CPU);
        host.run_until(at(wakes));
        assert_eq!(account(&host, e), (6, 100));
        wake(&mut host, e);
        run_through(&mut host, wakes);
        // At 20 ms, the slice is kept, because 6 · 100 ≤ 80 · 10. At 50 ms, the slice is renewed, because 6 · 100 >
        // 50 · 10.
        assert_eq!(account(&host, e), if kept { (6, 100) } else { (10, 150) });
        let (used_up, deadline) = if kept { (26, 100) } else { (60, 150) };
        run_through(&mut host, used_up);
        assert!(host.machine().is_held(e));
        host.run_until(at(deadline));
        assert!(host.machine().is_held(e) && running(&host, CPU).is_none());
        run_through(&mut host, deadline);
        assert_eq!((running(&host, CPU), account(&host, e).1), (Some(e), i64::try_from(deadline).unwrap() + 100));
    }
}

/// At the bound itself, the slice is kept: the comparison is exact.
#[test]
fn the_wake_up_rule_is_exact() {
    for (wakes, kept) in [(Nanos::ms(40), true), (Nanos::ms(40) + Nanos::ns(1), false)] {
        let mut host = host(1, PLAIN);
        let e = scripted(&mut host, promise(10, 100));
        wake(&mut host, e);
        host.run_until(at(4));
        host.block(CPU);
        host.run_until(Instant::ZERO + wakes);
        wake(&mut host, e);
        host.run_until(Instant::ZERO + wakes + Nanos::ns(1));
        assert_eq!(account(&host, e).1 == 100, kept, "6 · 100 against 60 · 10");
    }
}

#[test]
fn a_constrained_deadline_keeps_what_fits() {
    // Q = 10 ms, D = 40 ms, P = 100 ms. At 20 ms, 9 ms are left, and 9 · 40 > 20 · 10. So 10 / 40 · 20 = 5 ms fit.
    let mut host = host(1, PLAIN);
    let e = scripted(&mut host, due(10, 40, 100));
    wake(&mut host, e);
    host.run_until(at(1));
    host.block(CPU);
    host.run_until(at(20));
    wake(&mut host, e);
    run_through(&mut host, 20);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (5, 40)));
    // The slice is used up at 25 ms. The next period begins at 100 ms, and its deadline is 140 ms.
    run_through(&mut host, 25);
    assert!(host.machine().is_held(e));
    host.run_until(at(100));
    assert!(host.machine().is_held(e));
    run_through(&mut host, 100);
    assert_eq!((running(&host, CPU), account(&host, e).1), (Some(e), 140));
}

#[test]
fn between_a_constrained_deadline_and_the_next_period_no_task_runs() {
    let mut host = host(1, PLAIN);
    let e = scripted(&mut host, due(10, 40, 100));
    wake(&mut host, e);
    host.run_until(at(1));
    host.block(CPU);
    host.run_until(at(60));
    wake(&mut host, e);
    run_through(&mut host, 60);
    assert!(host.machine().is_held(e), "else it would have 10 ms in each of two spans of 40");
    run_through(&mut host, 100);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 140)));
    // The task blocks, and wakes after its next period could have begun. A new period begins at the wake-up.
    host.run_until(at(101));
    host.block(CPU);
    host.run_until(at(205));
    wake(&mut host, e);
    run_through(&mut host, 205);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 245)));
}

#[test]
fn a_yield_gives_up_the_slice_until_the_next_period() {
    let mut host = host(1, PLAIN);
    let e = hog(&mut host, with(promise(10, 100)));
    host.run_until(at(3));
    host.yield_now(CPU);
    host.run_until(at(100));
    assert_eq!((host.machine().is_held(e), host.machine().charged(e)), (true, Nanos::ms(3)));
    run_through(&mut host, 100);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 200)), "and nothing of it comes back");
}

#[test]
fn a_throttled_task_that_blocks_is_not_held_and_is_replenished_all_the_same() {
    let mut host = host(1, PLAIN);
    let e = scripted(&mut host, promise(10, 100));
    wake(&mut host, e);
    run_through(&mut host, 10);
    assert!(host.machine().is_held(e));
    host.run_until(at(20));
    host.pause(e);
    run_through(&mut host, 20);
    assert!(!host.machine().is_held(e));
    host.run_until(at(30));
    wake(&mut host, e);
    run_through(&mut host, 30);
    assert!(host.machine().is_held(e), "a rest does not end a throttling");
    host.pause(e);
    host.run_until(at(110));
    wake(&mut host, e);
    run_through(&mut host, 110);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 210)));
}

/// Q = 10 ms, D = 40 ms, P = 100 ms. The slice is used up at 10 ms. The task is blocked at 100 ms, when the next period
/// could begin.
#[test]
fn a_period_that_could_begin_during_a_rest_begins_after_it_or_as_in_the_kernel_then() {
    for (asleep, wakes, expected) in [
        ("lapse", 120, Some((10, 160))),
        ("lapse", 170, Some((10, 210))),
        ("renew", 120, Some((5, 140))),
        ("renew", 170, None),
    ] {
        let mut host = host(1, (&[("reclaim", "off"), ("asleep", asleep)], &[]));
        let e = scripted(&mut host, due(10, 40, 100));
        wake(&mut host, e);
        run_through(&mut host, 10);
        host.pause(e);
        host.run_until(at(wakes));
        wake(&mut host, e);
        run_through(&mut host, wakes);
        let ready = running(&host, CPU).map(|e| account(&host, e));
        assert_eq!(ready, expected, "{asleep}, at {wakes}");
    }
}

#[test]
fn an_overrun_is_paid_off_asleep_or_awake() {
    for asleep in ["lapse", "renew"] {
        let settings: Settings<'_> = (&[("reclaim", "off"), ("asleep", asleep)], &[]);
        let mut machine = fixture::machine(&POLICY, 1, &knobs(settings));
        let e = machine.attach(Instant::ZERO, with(promise(10, 100))).expect("accepted");
        machine.input(Instant::ZERO, Input::Wake { entity: e, why: Wake::Timer });
        machine.settle(Instant::ZERO);
        // The task has used 25 ms: 10 of the first slice, 10 of the second, 5 of the third.
        machine.input(at(25), Input::Block { cpu: CPU });
        machine.settle(at(25));
        let alarm = sched::Alarm { owner: sched::AlarmOwner::Entity(e), slot: 0 };
        for ms in [100, 200] {
            machine.input(at(ms), Input::Alarm { alarm });
            machine.settle(at(ms));
        }
        machine.input(at(200), Input::Wake { entity: e, why: Wake::Timer });
        machine.settle(at(200));
        assert_eq!((machine.until(CPU), machine.inspect(e, "deadline")), (at(205), Some(300_000_000)), "{asleep}");
    }
}

#[test]
fn an_overrun_is_paid_off_in_whole_periods() {
    let descriptor = &POLICY;
    let mut machine = fixture::machine(descriptor, 1, &knobs(PLAIN));
    let e = machine.attach(Instant::ZERO, with(promise(10, 100))).expect("accepted");
    machine.input(Instant::ZERO, Input::Wake { entity: e, why: Wake::Timer });
    machine.settle(Instant::ZERO);
    // The driver is late: 35 ms are used. At 100 ms, the deadline becomes 100 + 3 · 100 ms, and the remaining slice
    // becomes −25 + 3 · 10 ms.
    machine.input(at(35), Input::Expire { cpu: CPU });
    machine.settle(at(35));
    assert!(machine.is_held(e));
    let alarm = sched::Alarm { owner: sched::AlarmOwner::Entity(e), slot: 0 };
    machine.input(at(100), Input::Alarm { alarm });
    machine.settle(at(100));
    assert_eq!((machine.inspect(e, "remaining"), machine.inspect(e, "deadline")), (Some(5_000_000), Some(400_000_000)));
    assert_eq!((machine.running(CPU), machine.until(CPU)), (Some(e), at(105)));
    // The alarm at 1,000 ms is far too late: the period ended long ago, so a new period begins.
    machine.input(at(105), Input::Expire { cpu: CPU });
    machine.settle(at(105));
    machine.input(at(1_000), Input::Alarm { alarm });
    machine.settle(at(1_000));
    assert_eq!((machine.inspect(e, "remaining"), machine.until(CPU)), (Some(10_000_000), at(1_010)));
    assert_eq!(machine.inspect(e, "deadline"), Some(1_100_000_000));
}

#[test]
fn without_hrtick_a_slice_ends_at_the_tick_after() {
    let mut host = host(1, (&[("reclaim", "off")], &[("hrtick", 0), ("tick", 4_000_000)]));
    let e = hog(&mut host, with(promise(10, 100)));
    run_through(&mut host, 10);
    assert_eq!(running(&host, CPU), Some(e));
    run_through(&mut host, 12);
    assert_eq!((running(&host, CPU), host.machine().charged(e)), (None, Nanos::ms(12)));
    // The overrun of 2 ms is subtracted from the next slice.
    run_through(&mut host, 100);
    assert_eq!(account(&host, e), (8, 200));
    run_through(&mut host, 108);
    assert_eq!((running(&host, CPU), host.machine().charged(e)), (None, Nanos::ms(20)));
}

#[test]
fn the_earlier_deadline_preempts_and_an_equal_one_does_not() {
    let mut host = host(1, PLAIN);
    let first = hog(&mut host, with(promise(40, 100)));
    run_through(&mut host, 0);
    let equal = hog(&mut host, with(Reservation { period: Nanos::ns(99_999_999), ..promise(10, 100) }));
    run_through(&mut host, 0);
    assert_eq!(running(&host, CPU), Some(first), "1 ns later, and 1 ns shorter");
    let earlier = hog(&mut host, with(promise(5, 50)));
    run_through(&mut host, 4);
    assert_eq!(running(&host, CPU), Some(earlier));
    run_through(&mut host, 6);
    assert_eq!(running(&host, CPU), Some(first), "a preempted task is before its equals");
    run_through(&mut host, 46);
    assert_eq!(running(&host, CPU), Some(equal));
}

#[test]
fn a_start_that_was_asked_for_binds_the_periods() {
    let mut host = host(1, PLAIN);
    let asked = Reservation { start: Some(at(30)), ..promise(10, 100) };
    let e = scripted(&mut host, asked);
    wake(&mut host, e);
    host.run_until(at(30));
    assert!(host.machine().is_held(e));
    run_through(&mut host, 30);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 130)));
    host.run_until(at(31));
    host.block(CPU);
    // The middle of the period from 230 to 330 ms is 280 ms, so half of the slice fits.
    host.run_until(at(280));
    wake(&mut host, e);
    run_through(&mut host, 280);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (5, 330)));
    run_through(&mut host, 330);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 430)));
}

#[test]
fn a_changed_reservation_cuts_what_is_left_and_keeps_the_deadline() {
    let mut host = host(1, PLAIN);
    let e = hog(&mut host, with(promise(50, 100)));
    host.run_until(at(10));
    host.adjust(e, with(promise(5, 100))).expect("it is less");
    assert_eq!(account(&host, e), (5, 100));
    run_through(&mut host, 15);
    assert!(host.machine().is_held(e));
    // The larger slice takes effect at the next period.
    host.adjust(e, with(promise(80, 100))).expect("it fits");
    host.run_until(at(100));
    assert_eq!(host.machine().charged(e), Nanos::ms(15));
    run_through(&mut host, 180);
    assert_eq!((host.machine().is_held(e), host.machine().charged(e)), (true, Nanos::ms(95)));
}

#[test]
fn a_task_without_its_reservation_runs_round_robin_and_returns_with_its_rest() {
    let mut host = host(1, (&[("reclaim", "v6.5")], &[]));
    let e = hog(&mut host, with(promise(10, 100)));
    let other = hog(&mut host, Params::default());
    run_through(&mut host, 10);
    assert!(host.machine().is_held(e));
    host.adjust(e, Params::default()).expect("accepted");
    run_through(&mut host, 30);
    assert!(!host.machine().is_held(e));
    // A reservation that is requested again at 30 ms is not replenished, because its bandwidth is in use until 100 ms.
    host.adjust(e, with(promise(10, 100))).expect("it fits");
    run_through(&mut host, 31);
    assert_eq!((host.machine().is_held(e), running(&host, CPU)), (true, Some(other)));
    run_through(&mut host, 100);
    assert_eq!((running(&host, CPU), account(&host, e)), (Some(e), (10, 200)));
}
