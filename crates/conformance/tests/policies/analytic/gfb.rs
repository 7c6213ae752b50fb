//! Global EDF and the test of Goossens, Funk and Baruah (2003).
//!
//! Global EDF on `m` identical CPUs meets the deadlines of all jobs of periodic tasks with implicit deadlines if
//! `ΣU ≤ m − (m − 1) · Umax`. The releases of the tasks need not be aligned. The condition is sufficient, not necessary.

use super::{HYPERPERIOD, PERIODS, Task, first_miss, first_seed, knobs, policy, split};
use fuzz::Dice;
use sched::{Class, Descriptor, Instant, Knobs, Nanos, Params, Reservation, RtPriority};

const SETS: u64 = 1_800;
/// Unit of time of the sets, in nanoseconds. It exceeds the resolution, so utilisations are fine-grained.
pub(super) const UNIT: u64 = 1_000_000;
/// The shortest job, in nanoseconds: the smallest budget that `rtds` accepts.
pub(super) const WORK_LEAST: u64 = 10_000;
/// Hyperperiod of the sets, in nanoseconds. A utilisation of 1 is `H` nanoseconds of work in a hyperperiod.
pub(super) const H: u64 = HYPERPERIOD * UNIT;

/// Returns the work of `task` in a hyperperiod.
pub(super) fn share(task: &Task) -> u64 {
    H / task.period * task.work
}

/// Returns by how many nanoseconds in a hyperperiod the set stays below the bound; negative beyond the bound.
pub(super) fn room(cpus: u64, tasks: &[Task]) -> i64 {
    let most = tasks.iter().map(share).max().expect("there are some");
    let sum: u64 = tasks.iter().map(share).sum();
    (cpus * H).cast_signed() - ((cpus - 1) * most + sum).cast_signed()
}

/// Returns the largest utilisation, the sum of the others at the bound, and the number of the others.
fn shape(cpus: u64, dice: &mut Dice) -> (u64, u64, u64) {
    // The others share `m · (1 − Umax)`, none of them above Umax.
    let most = H / 8 + dice.below(H * 13 / 16);
    let others = cpus * (H - most);
    (most, others, others.div_ceil(most) + dice.below(cpus + 3))
}

fn task(share: u64, dice: &mut Dice) -> Task {
    let period = UNIT * dice.choose(&PERIODS).expect("there are some");
    let work = (share / (H / period)).max(WORK_LEAST);
    Task { work, period, deadline: period, phase: 0 }
}

/// Returns tasks on the bound of `cpus` CPUs, to the nanosecond, or below the bound.
pub(super) fn admitted_set(cpus: u64, on_bound: bool, dice: &mut Dice) -> Vec<Task> {
    loop {
        let (most, others, n) = shape(cpus, dice);
        let others = if on_bound { others } else { others * (500 + dice.below(500)) / 1_000 };
        let mut tasks = vec![task(most, dice)];
        // On the bound, a last task of the longest period uses this part, and what rounding leaves.
        let last = if on_bound { H / 1_000 } else { 0 };
        tasks.extend(split(others - last, n, dice).into_iter().map(|share| task(share, dice)));
        let left = room(cpus, &tasks);
        let most = tasks.iter().map(share).max().expect("there are some");
        if on_bound && (WORK_LEAST.cast_signed()..=most.cast_signed()).contains(&left) {
            tasks.push(Task { work: left.unsigned_abs(), period: H, deadline: H, phase: 0 });
        }
        if if on_bound { room(cpus, &tasks) == 0 } else { room(cpus, &tasks) > 0 } {
            return tasks;
        }
    }
}

/// Returns tasks beyond the bound of `cpus` CPUs, but with ΣU ≤ m and Umax ≤ 1.
fn set_beyond(cpus: u64, dice: &mut Dice) -> Vec<Task> {
    loop {
        let (most, others, n) = shape(cpus, dice);
        let room_above = (cpus - 1) * most;
        let others = others + dice.below(room_above.max(1));
        let mut tasks = vec![task(most, dice)];
        tasks.extend(split(others, n, dice).into_iter().map(|share| task(share, dice)));
        let sum: u64 = tasks.iter().map(share).sum();
        if room(cpus, &tasks) < 0 && sum <= cpus * H && tasks.iter().all(|task| task.work <= task.period) {
            return tasks;
        }
    }
}

/// Returns the effect of Dhall and Liu (1978) on `cpus` CPUs: `cpus` light tasks delay a task that needs its whole period.
fn dhall_set(cpus: u64) -> Vec<Task> {
    let light = Task { work: UNIT, period: 20 * UNIT, deadline: 20 * UNIT, phase: 0 };
    let heavy = Task { work: 24 * UNIT, period: 24 * UNIT, deadline: 24 * UNIT, phase: 0 };
    let mut tasks = vec![light; usize::try_from(cpus).expect("few")];
    tasks.push(heavy);
    tasks
}

/// Gives the tasks random first releases.
fn scatter(tasks: &mut [Task], dice: &mut Dice) {
    tasks.iter_mut().for_each(|task| task.phase = dice.below(task.period));
}

fn reserved(task: &Task) -> Params {
    let start = Some(Instant::ZERO + Nanos::ns(task.phase));
    let reservation = Reservation { start, ..Reservation::new(Nanos::ns(task.work), Nanos::ns(task.period)) };
    Params { reservation: Some(reservation), ..Params::default() }
}

/// Returns the policies that are global EDF, each with its knobs.
fn global_edf() -> [(&'static Descriptor, Knobs); 3] {
    let (edf, deadline, rtds) = (policy("edf"), policy("deadline"), policy("rtds"));
    let no_limits = [("rt-bandwidth", "100"), ("reclaim", "off")];
    [(edf, knobs(edf, &[("enforce", "none")])), (deadline, knobs(deadline, &no_limits)), (rtds, rtds.defaults())]
}

fn cpus_of(seed: u64) -> u64 {
    2 + seed % 7
}

fn misses(with: &(&'static Descriptor, Knobs), cpus: u64, tasks: &[Task]) -> bool {
    let phase = tasks.iter().map(|task| task.phase).max().expect("there are some");
    let cpus = usize::try_from(cpus).expect("few");
    first_miss(with.0, &with.1, cpus, tasks, reserved, phase + H).is_some()
}

#[test]
fn global_edf_misses_no_deadline_that_goossens_funk_and_baruah_admit() {
    let mut on_bound = 0;
    for seed in (first_seed()..).take(SETS as usize) {
        let (mut dice, cpus) = (Dice::new(seed), cpus_of(seed));
        let mut tasks = admitted_set(cpus, !seed.is_multiple_of(3), &mut dice);
        if seed.is_multiple_of(2) {
            scatter(&mut tasks, &mut dice);
        }
        for with in &global_edf() {
            assert!(!misses(with, cpus, &tasks), "seed {seed}, {}, {cpus} CPUs: {tasks:?}", with.0.name);
        }
        on_bound += u64::from(room(cpus, &tasks) == 0);
    }
    println!("{SETS} sets, {on_bound} of them exactly on the bound");
    assert!(on_bound > SETS / 2, "{on_bound} sets are on the bound");
}

/// Checks that the test above can fail. Beyond the bound, global EDF misses deadlines in some of the sets, and in every
/// set of Dhall and Liu.
#[test]
fn global_edf_misses_deadlines_beyond_the_bound_of_goossens_funk_and_baruah() {
    const BEYOND: u64 = 600;
    for with in &global_edf() {
        for cpus in 2..=8 {
            assert!(room(cpus, &dhall_set(cpus)) < 0);
            assert!(misses(with, cpus, &dhall_set(cpus)), "{}, {cpus} CPUs", with.0.name);
        }
        let late = (first_seed()..).take(BEYOND as usize).filter(|&seed| {
            let (mut dice, cpus) = (Dice::new(seed), cpus_of(seed));
            let mut tasks = set_beyond(cpus, &mut dice);
            scatter(&mut tasks, &mut dice);
            misses(with, cpus, &tasks)
        });
        let late = late.count();
        println!("{}: {late} of {BEYOND} sets beyond the bound miss a deadline", with.0.name);
        assert!(late > 10, "{}: {late} of {BEYOND} sets miss", with.0.name);
    }
}

/// Other orders miss deadlines of sets that the bound admits: FIFO and round robin.
#[test]
fn other_global_orders_miss_deadlines_that_goossens_funk_and_baruah_admit() {
    const ADMITTED: u64 = 600;
    let (rt, robin) = (policy("rt"), policy("round-robin"));
    let (unthrottled, defaults) = (knobs(rt, &[("rt-throttling", "0")]), robin.defaults());
    let (mut fifo, mut round_robin) = (0, 0);
    for seed in (first_seed()..).take(ADMITTED as usize) {
        let (mut dice, cpus) = (Dice::new(seed), cpus_of(seed));
        let tasks = admitted_set(cpus, true, &mut dice);
        let cpus = usize::try_from(cpus).expect("few");
        let flat = |_: &Task| Params { class: Class::Fifo(RtPriority::new(1).expect("valid")), ..Params::default() };
        fifo += u64::from(first_miss(rt, &unthrottled, cpus, &tasks, flat, H).is_some());
        let plain = |_: &Task| Params::default();
        round_robin += u64::from(first_miss(robin, &defaults, cpus, &tasks, plain, H).is_some());
    }
    println!("of {ADMITTED} sets on the bound miss: {fifo} FIFO, {round_robin} round robin");
    assert!(fifo > ADMITTED / 6 && round_robin > ADMITTED / 6, "{fifo} and {round_robin} sets miss");
}
