//! Tests of SEDF against the rules of xen/common/sched_sedf.c (Xen 3.0.3 and 4.0.1) and a worked example, in virtual
//! time.

mod extra;
mod periods;
mod wakeups;

use super::POLICY;
use crate::fixture::{
    CPU, OTHER, hog, host_of_costs, host_under, host_with, knobs, reserving, run_through_us as run_through, running,
    scripted, shows, used, weighing,
};
use sched::{CpuSet, EntityId, Instant, Limit, Nanos, Params, State, Wake, Weight};
use sim::{Costs, Driver, Workload};

fn host<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, sched::Topology::new(cpus), knobs)
}

/// Returns a host of one CPU, with the knob `unblock` set to `word`.
fn host_that_unblocks<'a>(word: &str) -> Driver<'a> {
    host_with(&POLICY, sched::Topology::new(1), &knobs(&POLICY, &[("unblock", word)], &[]))
}

fn runs(host: &Driver<'_>) -> Option<EntityId> {
    running(host, CPU)
}

fn soft(slice_us: u64, period_us: u64) -> Params {
    reserving(Nanos::us(slice_us), Nanos::us(period_us), Limit::Soft)
}

fn hard(slice_us: u64, period_us: u64) -> Params {
    reserving(Nanos::us(slice_us), Nanos::us(period_us), Limit::Hard)
}

fn wake_at(host: &mut Driver<'_>, us: u64, e: EntityId) {
    run_through(host, us);
    host.wake(e, Wake::Interrupt);
}

fn block_at(host: &mut Driver<'_>, us: u64, e: EntityId) {
    run_through(host, us);
    assert_eq!(runs(host), Some(e), "it runs at {us} us");
    host.block(CPU);
}

/// Returns the time `name` from `inspect`, in whole microseconds.
fn shows_us(host: &Driver<'_>, e: EntityId, name: &str) -> i64 {
    shows(host, e, name) / 1_000
}

/// Returns the runs from now until `us`, as `(entity, from, to)`, in microseconds. The entity is `None` while the CPU
/// idles.
fn stretches(host: &mut Driver<'_>, us: u64) -> Vec<(Option<EntityId>, u64, u64)> {
    let mut all: Vec<(Option<EntityId>, u64, u64)> = Vec::new();
    let mut now = host.now().as_ns() / 1_000;
    while now < us {
        host.run_until(Instant::at_ns(now * 1_000 + 1_000));
        let runs = runs(host);
        match all.last_mut() {
            Some((entity, _, to)) if *entity == runs => *to = now + 1,
            _ => all.push((runs, now, now + 1)),
        }
        now += 1;
    }
    all
}

/// Returns the CPU time of each entity until now, in per mille of `of`.
fn per_mille(host: &mut Driver<'_>, all: &[EntityId], of: Nanos) -> Vec<u64> {
    all.iter().map(|&e| (used(host, e).as_ns() * 1_000 + of.as_ns() / 2) / of.as_ns()).collect()
}

/// A worked example. `d0` and `d1` have slices of 5 ms in periods of 10 ms, with extra time. `d1` is a hog from 0 on,
/// and `d0` has bursts of 200 us.
///
/// `d0` wakes at 1, 3, 7 and 12 ms. The burst at 3 ms moves the end of the last quantum of `d1` from 4.7 to 4.9 ms. The
/// scores of the example are those of `reserved-extra = equal`. In Xen's source, a vCPU with a slice and a period is
/// scored by utilisation, which changes no decision in the example.
#[test]
fn the_worked_example() {
    for (hack, scored_equally) in [(0, 1), (0, 0), (1, 1)] {
        let mut host = host(1, &[("l0-hack", hack), ("reserved-extra", scored_equally)]);
        let price = if scored_equally == 1 { 131_072 } else { 2_048 };
        let (d0, d1) = (scripted(&mut host, soft(5_000, 10_000)), hog(&mut host, soft(5_000, 10_000)));
        run_through(&mut host, 0);
        assert_eq!((shows_us(&host, d1, "deadline"), runs(&host)), (15_000, Some(d1)), "short, never blocked");
        assert_eq!(shows(&host, d1, "wants-penalty"), 0);
        wake_at(&mut host, 1_000, d0);
        assert_eq!((runs(&host), host.machine().until(CPU).as_ns()), (Some(d1), 1_500_000));
        run_through(&mut host, 1_499);
        assert_eq!((runs(&host), shows_us(&host, d0, "deadline")), (Some(d1), 16_000), "L1 does not preempt L1");
        run_through(&mut host, 1_500);
        assert_eq!(
            (runs(&host), shows(&host, d0, "extra-score"), shows(&host, d1, "extra-score")),
            (Some(d0), -price, price)
        );
        block_at(&mut host, 1_700, d0);
        run_through(&mut host, 1_701);
        assert_eq!((runs(&host), shows(&host, d0, "extra-score")), (Some(d1), price));
        wake_at(&mut host, 3_000, d0);
        block_at(&mut host, 3_400, d0);
        run_through(&mut host, 4_890);
        assert_eq!(runs(&host), Some(d1));
        run_through(&mut host, 4_901);
        assert_eq!(runs(&host), None, "0.1 ms to the next period are less than a quantum");
        run_through(&mut host, 5_000);
        assert_eq!((runs(&host), host.machine().until(CPU).as_ns()), (Some(d1), 10_000_000));
        wake_at(&mut host, 7_000, d0);
        run_through(&mut host, 9_999);
        assert_eq!((runs(&host), shows_us(&host, d0, "deadline")), (Some(d1), 26_000), "D1 runs in its slice");
        assert_eq!((shows(&host, d0, "penalty-score"), shows_us(&host, d0, "lost")), (2_048, 5_000));
        run_through(&mut host, 10_000);
        assert_eq!((runs(&host), shows_us(&host, d1, "deadline")), (Some(d0), 25_000), "compensated");
        block_at(&mut host, 10_200, d0);
        run_through(&mut host, 11_999);
        assert_eq!(runs(&host), Some(d1));
        wake_at(&mut host, 12_000, d0);
        run_through(&mut host, 12_001);
        if hack == 0 {
            assert_eq!((shows(&host, d0, "penalty-score"), runs(&host)), (2_133, Some(d0)), "at once");
        } else {
            assert_eq!((shows(&host, d0, "lost"), runs(&host)), (0, Some(d1)), "it has been compensated");
            run_through(&mut host, 12_500);
            assert_eq!(runs(&host), Some(d0), "within a quantum");
        }
    }
}

/// The schedule is the picture in the essay.
#[test]
fn the_essays_picture_is_true() {
    let mut host = host(1, &[]);
    let (a, b) = (hog(&mut host, hard(3_000, 10_000)), hog(&mut host, Params::default()));
    let mut line = String::new();
    for ms in 0..30 {
        host.run_until(Instant::at_ns(ms * 1_000_000 + 500_000));
        line.push(if runs(&host) == Some(a) { 'a' } else { 'b' });
    }
    assert_eq!(runs(&host), Some(b));
    assert!(POLICY.text.contains(&format!("//! {line}\n")), "{line}");
}

/// Slices of 3 ms in 10 ms and of 30 ms in 100 ms both give a share of 30 %.
#[test]
fn short_and_long_periods_give_the_same_share() {
    for other in [None, Some(Params::default())] {
        let mut host = host(1, &[]);
        let all = [hog(&mut host, hard(3_000, 10_000)), hog(&mut host, hard(30_000, 100_000))];
        let hogs: Vec<EntityId> = other.into_iter().map(|params| hog(&mut host, params)).collect();
        host.run_until(Instant::at_ns(Nanos::s(10).as_ns()));
        let shares = per_mille(&mut host, &all, Nanos::s(10));
        assert!(shares.iter().all(|share| (297..=300).contains(share)), "{shares:?}");
        let rest = per_mille(&mut host, &hogs, Nanos::s(10));
        assert!(rest.iter().all(|share| (370..=400).contains(share)), "{rest:?}");
    }
}

/// No vCPU migrates, so the two vCPUs that share a CPU receive 50 % each.
#[test]
fn three_on_two_cpus_get_100_50_and_50() {
    let mut host = host(2, &[]);
    let all: Vec<EntityId> = (0..3).map(|_| hog(&mut host, Params::default())).collect();
    host.run_until(Instant::ZERO + Nanos::s(4));
    let mut shares = per_mille(&mut host, &all, Nanos::s(4));
    shares.sort_unstable();
    assert_eq!(shares, [500, 500, 1_000]);
}

#[test]
fn the_first_entity_is_placed_on_the_first_cpu_it_may_run_on() {
    for (placement, busy) in [(0, true), (1, false)] {
        let mut host = host(2, &[("placement", placement)]);
        let all = [hog(&mut host, Params::default()), hog(&mut host, Params::default())];
        run_through(&mut host, 100);
        assert_eq!(host.machine().running(OTHER), busy.then_some(all[1]));
    }
}
