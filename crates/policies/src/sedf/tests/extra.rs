//! Tests of the shares of extra time and of their guarantee.

use super::*;
use sched::{Conserving, LoadBounds};

/// In extra time, the number of runs of a vCPU is proportional to its extra weight.
#[test]
fn vcpus_without_a_reservation_share_equally_or_by_weight() {
    for (unreserved, expected) in [(0, [333, 333, 333]), (1, [143, 286, 571])] {
        let mut host = host(1, &[("unreserved", unreserved)]);
        let all = [128, 256, 512].map(|weight| hog(&mut host, weighing(weight)));
        host.run_until(Instant::at_ns(Nanos::s(10).as_ns()));
        let shares = per_mille(&mut host, &all, Nanos::s(10));
        assert!(shares.iter().zip(expected).all(|(&got, due)| got.abs_diff(due) <= 1), "{shares:?}");
    }
}

/// vCPUs with reservations share extra time equally, or in proportion to their utilisation. By utilisation, a
/// reservation of a whole CPU equals an extra weight of 128.
#[test]
fn the_reserved_share_by_utilisation_or_equally() {
    for (equal, expected) in [(0, [30, 10]), (1, [20, 20])] {
        let mut host = host(1, &[("reserved-extra", equal)]);
        // Slices of 30 % and 10 % leave 60 % of the CPU as extra time. The vCPUs receive 45 % and 15 % of the CPU in
        // extra time, or 30 % each.
        let all = [hog(&mut host, soft(30_000, 100_000)), hog(&mut host, soft(10_000, 100_000))];
        host.run_until(Instant::at_ns(Nanos::s(20).as_ns()));
        let shares = per_mille(&mut host, &all, Nanos::s(20));
        let slices = [300, 100];
        let due = [0, 1].map(|n| slices[n] + 15 * expected[n]);
        assert!(shares.iter().zip(due).all(|(&got, due)| got.abs_diff(due) <= 10), "{shares:?}, due {due:?}");
    }
    // In extra time, a vCPU that reserves 25 % receives as much as 32 vCPUs without a reservation.
    let mut host = host(1, &[]);
    let all = [hog(&mut host, soft(25_000, 100_000)), hog(&mut host, Params::default())];
    host.run_until(Instant::at_ns(Nanos::s(40).as_ns()));
    let shares = per_mille(&mut host, &all, Nanos::s(40));
    assert!(shares[1].abs_diff(750 / 33) <= 2, "{shares:?}");
}

/// The cost of a run does not depend on its length. A vCPU that yields therefore receives less CPU time than an equal
/// vCPU that does not yield.
#[test]
fn a_turn_is_paid_for_in_full() {
    let mut host = host(1, &[]);
    let all = [hog(&mut host, Params::default()), hog(&mut host, Params::default())];
    for n in 0..200 {
        host.run_until(Instant::at_ns(n * 600_000 + 100_000));
        if runs(&host) == Some(all[0]) {
            host.yield_now(CPU);
        }
    }
    let used = all.map(|e| host.machine().charged(e));
    assert!(used[0].saturating_mul(3) < used[1].saturating_mul(2), "{used:?}");
}

/// Two vCPUs that block alternately starve a third vCPU that was charged for a run. The reason is that a vCPU that
/// blocks does not lower the scores of other vCPUs.
#[test]
fn a_block_does_not_advance_the_other_vcpus() {
    let mut host = host(1, &[("unreserved", 1)]);
    let light = hog(&mut host, weighing(64));
    let heavy = [0, 1].map(|_| scripted(&mut host, weighing(1024)));
    run_through(&mut host, 10_000);
    host.wake(heavy[0], Wake::Interrupt);
    run_through(&mut host, 12_000);
    let before = host.machine().charged(light);
    for n in 0..300 {
        let us = 12_100 + n * 100;
        run_through(&mut host, us);
        let Some(current) = runs(&host) else { continue };
        if current == light {
            continue;
        }
        let other = if current == heavy[0] { heavy[1] } else { heavy[0] };
        if host.machine().state(other) == State::Blocked {
            host.wake(other, Wake::Interrupt);
        }
        host.block(CPU);
    }
    run_through(&mut host, 42_200);
    assert!(host.machine().charged(light) - before <= Nanos::ms(1), "it is starved");
    // Without the heavy vCPUs, the light vCPU runs.
    heavy.into_iter().for_each(|e| host.pause(e));
    run_through(&mut host, 43_000);
    assert_eq!(runs(&host), Some(light));
}

/// If period starts are less than a quantum apart, no vCPU runs in extra time. The policy then states no bound.
#[test]
fn too_many_periods_leave_no_time() {
    let load = |entities, knobs| LoadBounds::of_hogs(&sched::Topology { cpus: 1, smt: 1, llc: 1 }, knobs, entities);
    let knobs = POLICY.defaults();
    assert_eq!((POLICY.conserving)(&load(9, &knobs)), Conserving::PerCpu { slack: Nanos::ms(5) });
    assert_eq!((POLICY.conserving)(&load(200, &knobs)), Conserving::Never);
    assert!((POLICY.starvation)(&load(199, &knobs)).is_some() && (POLICY.starvation)(&load(200, &knobs)).is_none());
    let mut host = host(1, &[]);
    let all: Vec<EntityId> = (0..250).map(|_| scripted(&mut host, Params::default())).collect();
    for (n, &e) in (0..).zip(&all) {
        wake_at(&mut host, n * 400, e);
    }
    run_through(&mut host, 100_000);
    let before: Vec<Nanos> = all.iter().map(|&e| host.machine().charged(e)).collect();
    host.run_until(Instant::at_ns(Nanos::s(2).as_ns()));
    assert_eq!((runs(&host), all.iter().map(|&e| host.machine().charged(e)).collect::<Vec<_>>()), (None, before));
}
