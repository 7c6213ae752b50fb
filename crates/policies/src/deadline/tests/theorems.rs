//! Tests of the guarantees. On one CPU, no job within its reservation is late, regardless of the other tasks. On
//! several CPUs, no job is later than the tardiness bound.

use super::*;
use crate::fixture::Dice;
use sched::Instant;
use sim::auditor::{Auditor, Promises};
use sim::{Periodic, Workload};

const SEEDS: u64 = 150;

fn period(dice: &mut Dice) -> Nanos {
    Nanos::ms([2, 3, 4, 5, 7, 8, 10, 13, 20, 40][dice.index(10)])
}

/// Returns reservations that fill one CPU up to rounding. Each reservation is soft with a probability of one half. If
/// `constrained`, deadlines are shorter than periods.
fn full_cpu(dice: &mut Dice, constrained: bool) -> Vec<Reservation> {
    let parts: Vec<u64> = (0..2 + dice.below(4)).map(|_| 1 + dice.below(20)).collect();
    let sum: u64 = parts.iter().sum();
    let reservation = |&part: &u64| {
        let due = period(dice);
        let limit = if dice.below(2) == 0 { Limit::Soft } else { Limit::Hard };
        let longer = if constrained { period(dice) } else { Nanos::ZERO };
        let (slice, period) = (due.scale(part, sum), due + longer);
        Reservation { deadline: constrained.then_some(due), limit, ..Reservation::new(slice, period) }
    };
    parts.iter().map(reservation).collect()
}

/// Makes a random task of `all` block, yield or wake, or does nothing.
fn stir(host: &mut Driver<'_>, all: &[EntityId], dice: &mut Dice) {
    let Some(&e) = all.get(dice.index(all.len().max(1))) else { return };
    match host.machine().state(e) {
        State::Blocked => wake(host, e),
        State::Running(cpu) if dice.below(2) == 0 => host.block(cpu),
        State::Running(cpu) if dice.below(3) == 0 => host.yield_now(cpu),
        State::Waiting if dice.below(4) == 0 => host.pause(e),
        _ => {}
    }
}

/// Runs jobs within their reservations, beside arbitrary other tasks. Some jobs use their reservations in full. Returns
/// the number of completed jobs and the maximum lateness.
fn isolation(words: &[(&str, &str)], constrained: bool, seed: u64) -> (u64, Nanos) {
    let mut dice = Dice(seed);
    let mut auditor = Auditor::new(sched::Topology::new(1), Promises::NONE);
    let mut host = host(1, (words, &[("rt-bandwidth", 100)]));
    host.watch(&mut auditor);
    let (mut good, mut wild) = (Vec::new(), Vec::new());
    for (n, asked) in full_cpu(&mut dice, constrained).into_iter().enumerate() {
        if n > 0 && dice.below(2) == 0 {
            wild.extend(host.attach("wild", with(asked), Workload::Scripted));
            continue;
        }
        let spare = if dice.below(2) == 0 { Nanos::ZERO } else { Nanos::ns(dice.below(5_000_000)) };
        let less = dice.below(2) * dice.below(asked.slice.as_ns());
        let jobs = Periodic {
            phase: Nanos::us(dice.below(10_000)),
            deadline: asked.relative_deadline(),
            ..Periodic::new(asked.period + spare, asked.slice - Nanos::ns(less))
        };
        good.extend(host.attach("good", with(asked), Workload::Periodic(jobs)));
    }
    let end = Instant::ZERO + Nanos::ms(400);
    while host.now() < end {
        let next = host.now() + Nanos::ns(1 + dice.below(2_000_000));
        host.run_until(next.min(end));
        if host.now() < end {
            stir(&mut host, &wild, &mut dice);
        }
    }
    host.finish(end);
    drop(host);
    let counts: Vec<_> = good.iter().filter_map(|&e| auditor.jobs(e)).collect();
    let late = counts.iter().map(|counts| counts.tardiness).max().unwrap_or_default();
    (counts.iter().map(|counts| counts.completed).sum(), late)
}

#[test]
fn on_one_cpu_no_job_within_its_reservation_is_late() {
    for constrained in [false, true] {
        for reclaim in ["off", "v5.13", "v6.5"] {
            let mut done = 0;
            for seed in 1..=SEEDS {
                let (completed, late) = isolation(&[("reclaim", reclaim)], constrained, seed);
                assert_eq!(late, Nanos::ZERO, "reclaim {reclaim}, constrained {constrained}, seed {seed}");
                done += completed;
            }
            assert!(done > 5_000, "{done} jobs say little");
        }
    }
}

/// Shows that the previous test can fail: if a constrained deadline is admitted by slice/period, as in the kernel, some
/// jobs are late.
#[test]
fn the_kernels_admission_lets_constrained_deadlines_be_late() {
    let late = |seed| {
        let mut dice = Dice(seed);
        let mut auditor = Auditor::new(sched::Topology::new(1), Promises::NONE);
        let mut host = host(1, (&[("reclaim", "off"), ("admission", "bandwidth")], &[("rt-bandwidth", 100)]));
        host.watch(&mut auditor);
        let mut all = Vec::new();
        for mut asked in full_cpu(&mut dice, true) {
            asked.slice = asked.slice.scale(asked.period.as_ns(), asked.relative_deadline().as_ns());
            asked.slice = asked.slice.min(asked.relative_deadline());
            let jobs = Periodic { deadline: asked.relative_deadline(), ..Periodic::new(asked.period, asked.slice) };
            all.extend(host.attach("good", with(asked), Workload::Periodic(jobs)));
        }
        host.finish(at(200));
        drop(host);
        all.iter().any(|&e| auditor.jobs(e).is_some_and(|counts| counts.missed > 0))
    };
    assert!((1..=SEEDS).filter(|&seed| late(seed)).count() > 20);
}

/// Returns ((M−1)·Cmax − Cmin) / (M − (M−2)·Umax) + Cmax. Cmax and Cmin are the largest and the smallest job length,
/// which is the slice, and Umax is the largest utilisation.
fn tardiness_bound(cpus: u64, jobs: &[Periodic]) -> Nanos {
    let most = jobs.iter().map(|job| job.work).max().expect("there are some");
    let least = jobs.iter().map(|job| job.work).min().expect("there are some");
    let share = |job: &Periodic| job.work.scale(1_000_000, job.period.as_ns()).as_ns() + 1;
    let most_ppm = jobs.iter().map(share).max().expect("there are some");
    let free_ppm = cpus * 1_000_000 - (cpus - 2) * most_ppm;
    most + (most.saturating_mul(cpus - 1) - least).scale(1_000_000, free_ppm)
}

#[test]
fn on_several_cpus_no_job_is_later_than_the_bound() {
    let mut late_runs = 0;
    for seed in 1..=2 * SEEDS {
        let mut dice = Dice(seed);
        let cpus = 2 + dice.below(3);
        let (mut left_ppm, mut jobs) = (cpus * 1_000_000, Vec::new());
        while left_ppm >= 10_000 {
            let share = (50_000 + dice.below(900_000)).min(left_ppm);
            left_ppm -= share;
            let period = period(&mut dice);
            jobs.push(Periodic::new(period, period.scale(share, 1_000_000)));
        }
        let shape = sched::Topology::new(usize::try_from(cpus).expect("it is small"));
        let mut auditor = Auditor::new(shape, Promises::NONE);
        let catching_up: Settings<'_> = (&[("reclaim", "off"), ("lagging", "catch-up")], PLAIN.1);
        let mut host = host(shape.cpus, catching_up);
        host.watch(&mut auditor);
        let attach = |&job: &Periodic| {
            let asked = Reservation { limit: Limit::Hard, ..Reservation::new(job.work, job.period) };
            host.attach("task", with(asked), Workload::Periodic(job)).expect("it fits")
        };
        let all: Vec<_> = jobs.iter().map(attach).collect();
        host.finish(at(400));
        drop(host);
        let tardiness = all.iter().filter_map(|&e| auditor.jobs(e)).map(|counts| counts.tardiness).max();
        let (tardiness, bound) = (tardiness.unwrap_or_default(), tardiness_bound(cpus, &jobs));
        assert!(tardiness <= bound, "seed {seed}: {tardiness} late on {cpus} CPUs, {jobs:?}; the bound is {bound}");
        late_runs += u64::from(!tardiness.is_zero());
    }
    assert!(late_runs > SEEDS / 10, "only {late_runs} runs were late at all: they say little of a bound");
}
