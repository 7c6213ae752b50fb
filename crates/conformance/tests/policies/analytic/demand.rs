//! Uniprocessor EDF and the processor-demand test.
//!
//! Periodic tasks with relative deadlines of at most their periods are released together at 0. EDF on one CPU meets all
//! deadlines exactly if, for every absolute deadline `t` up to the hyperperiod, the jobs due by `t` need at most `t` of
//! CPU time (Baruah, Rosier and Howell 1990). Up to the hyperperiod `H` is far enough: the demand of `t + H` is the
//! demand of `t` plus `U · H`, and with `U > 1` the demand of `H` itself is above `H`.

use super::{HYPERPERIOD, PERIODS, Task, first_miss, first_seed, knobs, policy, split};
use fuzz::Dice;
use sched::{Class, Descriptor, Knobs, Nanos, Params, Reservation, RtPriority};
use std::collections::BTreeSet;

const SETS: u64 = 3_000;
/// Units of time of the sets, in nanoseconds.
const UNITS: [u64; 4] = [1, 7, 1_000, 100_000];

/// A set of tasks, all released at 0.
#[derive(Clone, Debug)]
struct Set {
    tasks: Vec<Task>,
    hyperperiod: u64,
}

impl Set {
    /// Returns the CPU time of the jobs that are due by `t`.
    fn demand(&self, t: u64) -> u64 {
        self.tasks.iter().map(|task| (t + task.period - task.deadline) / task.period * task.work).sum()
    }

    /// Returns all absolute deadlines through the hyperperiod.
    fn deadlines(&self) -> BTreeSet<u64> {
        let of =
            |task: &Task| (0..self.hyperperiod).step_by(task.period as usize).zip(std::iter::repeat(task.deadline));
        self.tasks.iter().flat_map(of).map(|(release, deadline)| release + deadline).collect()
    }

    /// The processor-demand test.
    fn is_feasible(&self) -> bool {
        self.deadlines().into_iter().all(|t| self.demand(t) <= t)
    }

    /// Returns whether the jobs due by some deadline need exactly the time until that deadline.
    fn is_tight(&self) -> bool {
        self.deadlines().into_iter().any(|t| self.demand(t) == t)
    }

    /// Returns Σ C · H / T, which is H for a utilisation of 1.
    fn load(&self) -> u64 {
        self.tasks.iter().map(|task| self.hyperperiod / task.period * task.work).sum()
    }

    fn is_implicit(&self) -> bool {
        self.tasks.iter().all(|task| task.deadline == task.period)
    }
}

/// Returns a random set of a utilisation from about 0.5 to 1.1.
fn random_set(dice: &mut Dice) -> Set {
    let unit = dice.choose(&UNITS).expect("there are some");
    let n = 1 + dice.below(6);
    let implicit = dice.one_in(3);
    let utilisation = 500 + dice.below(600);
    let tasks = split(utilisation, n, dice).into_iter().map(|share| {
        let period = unit * dice.choose(&PERIODS).expect("there are some");
        let work = (period * share / 1_000).max(1);
        let deadline =
            if implicit { period } else { period - dice.below((period / 2).min(period - work.min(period)) + 1) };
        Task { work, period, deadline, phase: 0 }
    });
    Set { tasks: tasks.collect(), hyperperiod: unit * HYPERPERIOD }
}

/// Sets the work of a random task to the largest value with which the set is feasible, plus `beyond`. Leaves the set
/// unchanged if the set is infeasible without the work of this task.
fn to_boundary(set: &mut Set, beyond: u64, dice: &mut Dice) {
    let at = usize::try_from(dice.below(set.tasks.len() as u64)).expect("it is small");
    let drawn = set.tasks[at].work;
    let mut feasible = |work| {
        set.tasks[at].work = work;
        set.is_feasible()
    };
    let (mut least, mut most) = (0, HYPERPERIOD * UNITS[UNITS.len() - 1]);
    if !feasible(1) {
        set.tasks[at].work = drawn;
        return;
    }
    while least + 1 < most {
        let middle = u64::midpoint(least, most);
        if feasible(middle) { least = middle } else { most = middle }
    }
    set.tasks[at].work = least + beyond;
}

/// Returns a set with implicit deadlines and a utilisation of exactly 1, plus `beyond` nanoseconds in a hyperperiod.
fn full_set(beyond: u64, dice: &mut Dice) -> Set {
    loop {
        let mut set = random_set(dice);
        set.tasks.iter_mut().for_each(|task| task.deadline = task.period);
        if set.load() < set.hyperperiod {
            let (work, period) = (set.hyperperiod - set.load() + beyond, set.hyperperiod);
            set.tasks.push(Task { work, period, deadline: period, phase: 0 });
            return set;
        }
    }
}

/// Returns the set of `seed`: random, or on or next to a boundary.
fn draw(seed: u64) -> Set {
    let mut dice = Dice::new(seed);
    match seed % 6 {
        2 => full_set(0, &mut dice),
        3 => full_set(1, &mut dice),
        kind => {
            let mut set = random_set(&mut dice);
            if let Some(beyond) = kind.checked_sub(4) {
                to_boundary(&mut set, beyond, &mut dice);
            }
            set
        }
    }
}

/// Returns the parameters of a job under `edf` without enforcement: the deadline of a job is its release plus the
/// period of the reservation.
fn job(task: &Task) -> Params {
    let within = Nanos::ns(task.deadline);
    Params { reservation: Some(Reservation::new(Nanos::ns(task.work).min(within), within)), ..Params::default() }
}

fn edf_misses(set: &Set, changes: &[(&str, &str)]) -> bool {
    let edf = policy("edf");
    let mut all = vec![("enforce", "none"), ("reserve", "0")];
    all.extend(changes);
    first_miss(edf, &knobs(edf, &all), 1, &set.tasks, job, set.hyperperiod).is_some()
}

#[test]
fn edf_on_one_cpu_misses_exactly_where_the_processor_demand_is_too_high() {
    let (mut feasible, mut infeasible, mut tight, mut full, mut just_beyond) = (0, 0, 0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let set = draw(seed);
        let admits = set.is_feasible();
        assert_eq!(!edf_misses(&set, &[]), admits, "seed {seed}: the test admits the set: {admits}; {set:?}");
        if admits && set.is_implicit() {
            assert!(!edf_misses(&set, &[("placement", "partitioned")]), "seed {seed}, partitioned: {set:?}");
        }
        feasible += u64::from(admits);
        infeasible += u64::from(!admits);
        tight += u64::from(admits && set.is_tight());
        full += u64::from(admits && set.load() == set.hyperperiod);
        let excess = set.deadlines().into_iter().map(|t| set.demand(t).saturating_sub(t)).max();
        just_beyond += u64::from(excess == Some(1));
    }
    println!(
        "{feasible} feasible, {tight} of them tight, {full} with U = 1; {infeasible} infeasible, {just_beyond} by 1 ns"
    );
    assert!(feasible > SETS / 4 && infeasible > SETS / 4, "{feasible} feasible, {infeasible} infeasible");
    assert!(tight > SETS / 6 && full > SETS / 12 && just_beyond > SETS / 12, "{tight}, {full} and {just_beyond} sets");
}

/// The test is sufficient for jobs that are not released together: no set that it admits misses a deadline.
#[test]
fn edf_on_one_cpu_meets_all_deadlines_of_a_feasible_set_with_any_phases() {
    let edf = policy("edf");
    let knobs = knobs(edf, &[("enforce", "none")]);
    let mut judged = 0;
    for seed in (first_seed()..).take(SETS as usize) {
        let mut set = draw(seed);
        if !set.is_feasible() {
            continue;
        }
        let mut dice = Dice::new(seed);
        set.tasks.iter_mut().for_each(|task| task.phase = dice.below(task.period));
        let missed = first_miss(edf, &knobs, 1, &set.tasks, job, 2 * set.hyperperiod);
        assert_eq!(missed, None, "seed {seed}: {set:?}");
        judged += 1;
    }
    assert!(judged > SETS / 4, "{judged} feasible sets say little");
}

/// `deadline` receives the relative deadline itself. The policy admits by bandwidth, so it also runs sets that the
/// processor-demand test rejects.
#[test]
fn sched_deadline_on_one_cpu_misses_exactly_where_the_processor_demand_is_too_high() {
    let deadline = policy("deadline");
    let knobs = knobs(
        deadline,
        &[("rt-bandwidth", "100"), ("admission", "bandwidth"), ("reclaim", "off"), ("period-least", "1000")],
    );
    let params = |task: &Task| {
        let whole = Reservation::new(Nanos::ns(task.work), Nanos::ns(task.period));
        Params {
            reservation: Some(Reservation { deadline: Some(Nanos::ns(task.deadline)), ..whole }),
            ..Params::default()
        }
    };
    let (mut feasible, mut infeasible) = (0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let set = draw(seed);
        let is_offered = set.tasks.iter().all(|task| task.period >= 1_000 && task.work <= task.deadline);
        if !is_offered || set.load() > set.hyperperiod {
            continue;
        }
        let missed = first_miss(deadline, &knobs, 1, &set.tasks, params, set.hyperperiod).is_some();
        let admits = set.is_feasible();
        assert_eq!(!missed, admits, "seed {seed}: the test admits the set: {admits}; {set:?}");
        feasible += u64::from(admits);
        infeasible += u64::from(!admits);
    }
    println!("{feasible} feasible, {infeasible} infeasible");
    assert!(feasible > SETS / 10 && infeasible > SETS / 20, "{feasible} feasible, {infeasible} infeasible");
}

/// Returns knobs of `rt` without throttling.
fn unthrottled() -> (&'static Descriptor, Knobs) {
    let rt = policy("rt");
    (rt, knobs(rt, &[("rt-throttling", "0")]))
}

/// Checks that the comparison detects another order. Fixed priorities by deadline (optimal among fixed priorities),
/// FIFO and round robin miss deadlines in sets that the processor-demand test admits.
#[test]
fn other_orders_miss_deadlines_that_the_processor_demand_admits() {
    let (rt, unthrottled) = unthrottled();
    let robin = policy("round-robin");
    let (mut by_deadline, mut fifo, mut round_robin, mut feasible) = (0, 0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize / 3) {
        let set = draw(seed);
        if !set.is_feasible() {
            continue;
        }
        feasible += 1;
        let shorter = |task: &Task| set.tasks.iter().filter(|other| other.deadline < task.deadline).count();
        let class = |above: usize| Class::Fifo(RtPriority::new(u8::try_from(90 - above).expect("few")).expect("valid"));
        let ranked = |task: &Task| Params { class: class(shorter(task)), ..Params::default() };
        let flat = |_: &Task| Params { class: class(0), ..Params::default() };
        by_deadline += u64::from(first_miss(rt, &unthrottled, 1, &set.tasks, ranked, set.hyperperiod).is_some());
        fifo += u64::from(first_miss(rt, &unthrottled, 1, &set.tasks, flat, set.hyperperiod).is_some());
        let plain = |_: &Task| Params::default();
        let defaults = robin.defaults();
        round_robin += u64::from(first_miss(robin, &defaults, 1, &set.tasks, plain, set.hyperperiod).is_some());
    }
    println!("of {feasible} feasible sets miss: {by_deadline} by deadline, {fifo} FIFO, {round_robin} round robin");
    assert!(by_deadline > feasible / 20, "only {by_deadline} of {feasible} miss under fixed priorities");
    assert!(fifo > feasible / 3 && round_robin > feasible / 3, "{fifo} and {round_robin} of {feasible} miss");
}

/// Sets whose feasibility is known from a calculation on paper.
#[test]
fn the_processor_demand_test_is_right_on_known_sets() {
    let set = |tasks: &[(u64, u64, u64)]| Set {
        tasks: tasks.iter().map(|&(work, deadline, period)| Task { work, period, deadline, phase: 0 }).collect(),
        hyperperiod: HYPERPERIOD,
    };
    // By 3, three units are due.
    assert!(set(&[(1, 2, 4), (2, 3, 6)]).is_feasible() && set(&[(1, 2, 4), (2, 3, 6)]).is_tight());
    assert!(!set(&[(1, 2, 4), (3, 3, 6)]).is_feasible());
    assert!(set(&[(2, 4, 4), (3, 6, 6)]).is_feasible(), "U = 1");
    assert!(!set(&[(2, 2, 4), (3, 5, 6)]).is_feasible(), "U = 1, but by 6, seven units are due");
}
