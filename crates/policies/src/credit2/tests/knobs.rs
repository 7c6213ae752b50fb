//! Tests that each knob has its effect.

use super::*;

fn one<'a>(knobs: &[(&str, i64)]) -> Driver<'a> {
    host_of(sched::Topology::new(1), knobs)
}

#[test]
fn the_credit_knob_is_the_initial_credit_the_reset_and_the_longest_time_slice() {
    let mut host = one(&[("credit", 4_000_000)]);
    let e = hog(&mut host, Params::default());
    run_through(&mut host, 0);
    assert_eq!((credit(&host, e), host.machine().until(CPU)), (4_000, at(4_000)));
    run_through(&mut host, 4_000);
    assert_eq!((credit(&host, e), host.machine().until(CPU)), (4_000, at(8_000)));
}

#[test]
fn min_timer_is_the_shortest_turn() {
    for (knob, us) in [(500_000, 500), (2_000_000, 2_000)] {
        let mut host = one(&[("min-timer", knob), ("ratelimit", 0)]);
        let [_, second] = [(), ()].map(|()| hog(&mut host, Params::default()));
        run_through(&mut host, us - 1);
        assert_ne!(running(&host, CPU), Some(second));
        run_through(&mut host, us);
        assert_eq!(running(&host, CPU), Some(second));
    }
}

#[test]
fn carry_over_is_what_a_sleeper_keeps() {
    for (knob, kept) in [(0, 10_000), (3_000_000, 13_000)] {
        let mut host = one(&[("carry-over", knob)]);
        hog(&mut host, Params::default());
        let rests = scripted(&mut host, Params::default());
        run_through(&mut host, 10_000);
        assert_eq!(credit(&host, rests), kept);
    }
}

#[test]
fn ratelimit_is_how_long_a_turn_is_left_alone() {
    // A vCPU wakes 600 us into the time slice of a vCPU with less credit.
    for (knobs, preempts) in [
        (&[][..], false),
        (&[("ratelimit", 500_000)], true),
        (&[("ratelimit", 0)], true),
        (&[("ratelimit-tolerance", 500_000)], false),
    ] {
        let mut host = one(knobs);
        let [first, second] = [(), ()].map(|()| scripted(&mut host, Params::default()));
        interrupt(&mut host, first);
        run_through(&mut host, 600);
        interrupt(&mut host, second);
        run_through(&mut host, 600);
        assert_eq!(running(&host, CPU) == Some(second), preempts, "{knobs:?}");
        // With the higher tolerance, the CPU is kicked, so its time slice is computed again.
        let called = knobs.iter().any(|(name, _)| *name == "ratelimit-tolerance");
        assert_eq!(host.machine().until(CPU) < at(2_000), called, "{knobs:?}");
    }
}

#[test]
fn migrate_resist_and_compensation_are_the_price_of_a_move() {
    // Both CPUs are busy. The vCPU on CPU 0 has 1 ms less credit than the vCPU on CPU 1.
    for (resist, compensation, moves) in [(500_000, 50_000, true), (1_500_000, 50_000, false), (0, 0, true)] {
        let knobs = [("migrate-resist", resist), ("migrate-compensation", compensation)];
        let mut host = host_of(sched::Topology::new(2), &knobs);
        let [poor, fresh] = [CPU, OTHER].map(|cpu| scripted(&mut host, pinned(cpu)));
        let waits = living_on(&mut host, OTHER);
        interrupt(&mut host, poor);
        run_through(&mut host, 1_000);
        interrupt(&mut host, fresh);
        run_through(&mut host, 1_100);
        interrupt(&mut host, waits);
        run_through(&mut host, 1_100);
        assert_eq!(running(&host, CPU) == Some(waits), moves, "{resist}");
        let expected = 10_000_000 + if moves { compensation } else { 0 };
        assert_eq!(shows(&host, waits, "credit"), expected);
    }
}

#[test]
fn cap_period_is_how_often_a_pool_is_filled() {
    let mut host = one(&[("cap-period", 30_000_000)]);
    let vm = group(&mut host, capped(10));
    let e = hog(&mut host, member(vm));
    for (us, runs) in [(2_999, true), (3_000, false), (29_999, false), (30_000, true), (33_000, false)] {
        run_through(&mut host, us - 1);
        assert_eq!(running(&host, CPU) == Some(e), us == 3_000 || us == 33_000 || runs && us != 30_000, "{us}");
        run_through(&mut host, us);
        assert_eq!(running(&host, CPU) == Some(e), runs, "{us}");
    }
}

#[test]
fn load_window_and_precision_are_powers_of_two() {
    for (window, precision) in [(30, 18), (20, 18), (30, 6)] {
        let mut host = one(&[("load-window-shift", window), ("load-precision-shift", precision)]);
        let e = scripted(&mut host, Params::default());
        assert_eq!(shows(&host, e, "load"), 1 << (precision - 1));
        run_through(&mut host, 2_000);
        interrupt(&mut host, e);
        let expected = if window == 20 { 0 } else { (1 << (precision - 1)) - ((1 << (precision - 1)) * 2 / 1_074) };
        let off = (shows(&host, e, "load") - expected).abs();
        assert!(off <= 8, "{window} {precision}: {} {expected}", shows(&host, e, "load"));
    }
}

#[test]
fn balance_under_is_tolerated_while_cpus_are_spare() {
    // There are two run queues of two CPUs each. One queue has two hogs; the other has no entity.
    for (under, moves) in [(0, true), (1, false)] {
        let knobs = [("balance-under", under)];
        let mut host = host_of(sched::Topology { cpus: 4, smt: 1, llc: 2 }, &knobs);
        let hogs = [CPU, OTHER].map(|cpu| hog(&mut host, pinned(cpu)));
        host.run_until(at(1_500_000));
        for e in hogs {
            host.adjust(e, Params::default()).expect("accepted");
        }
        host.run_until(at(5_000_000));
        let queues = hogs.map(|e| shows(&host, e, "runqueue"));
        assert_eq!(queues[0] != queues[1], moves, "{under}");
    }
}
