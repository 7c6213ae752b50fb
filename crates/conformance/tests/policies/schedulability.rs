//! The theorem of Liu and Layland: on one CPU, an entity with a reservation receives its slice in every period
//! throughout which the entity is runnable. The theorem holds up to a total utilisation of 100 %, regardless of when
//! the other entities sleep and wake. The auditor checks the theorem for every policy that guarantees it.

use fuzz::Dice;
use measure::jobs::JobLog;
use sched::{Descriptor, EntityId, Instant, Knobs, LoadBounds, Nanos, Params, Reservation, State, Topology, Wake};
use sim::auditor::Promises;
use sim::{Auditor, Costs, JobEnd, Periodic, Workload};

const SEEDS: u64 = 400;
const LENGTH: Nanos = Nanos::ms(400);
/// Periods in milliseconds. Some pairs have a small least common multiple, other pairs a large one.
const PERIODS_MS: [u64; 10] = [2, 3, 4, 5, 7, 8, 10, 13, 20, 40];

/// Returns reservations that fill one CPU, except for rounding.
fn full_cpu(dice: &mut Dice) -> Vec<Reservation> {
    let parts: Vec<u64> = (0..2 + dice.below(4)).map(|_| 1 + dice.below(20)).collect();
    let sum: u64 = parts.iter().sum();
    let reservation = |&part: &u64| {
        let period = Nanos::ms(dice.choose(&PERIODS_MS).expect("there are some"));
        Reservation::new(period.scale(part, sum), period)
    };
    parts.iter().map(reservation).collect()
}

/// Returns knobs with admission control and without a reserve.
fn generous(policy: &Descriptor) -> Knobs {
    let mut knobs = policy.defaults();
    for (name, value) in [("reserve", 0), ("rt-bandwidth", 100), ("admission", 1)] {
        if policy.knobs.iter().any(|knob| knob.name == name) {
            knobs.set(name, value).expect("it is in range");
        }
    }
    knobs
}

fn load<'a>(host: &'a Topology, knobs: &'a Knobs, has_sleepers: bool) -> LoadBounds<'a> {
    LoadBounds { has_reservations: true, has_sleepers, ..LoadBounds::of_hogs(host, knobs, 6) }
}

/// Blocks or wakes a random entity, or does nothing.
fn stir(host: &mut sim::Driver<'_>, all: &[EntityId], dice: &mut Dice) {
    let e = dice.choose(all).expect("there are some");
    match host.machine().state(e) {
        State::Blocked => host.wake(e, Wake::Timer),
        State::Running(cpu) if dice.one_in(2) => host.block(cpu),
        _ => {}
    }
}

/// Runs entities with reservations that fill one CPU, under `policy`. Returns the number of evaluated periods, or the
/// findings of the auditor.
fn run(policy: &'static Descriptor, knobs: &Knobs, sleepers: bool, lacking: Nanos, seed: u64) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let mut auditor = Auditor::new(Topology::new(1), Promises { reservations: Some(lacking), ..Promises::NONE });
    let mut host = sim::Driver::new(policy, Topology::new(1), knobs, Costs::NONE).expect("these knobs go together");
    host.watch(&mut auditor);
    let mut all = Vec::new();
    for reservation in full_cpu(&mut dice) {
        let params = Params { reservation: Some(reservation), ..Params::default() };
        // An entity with a refused reservation is not attached.
        all.extend(host.attach("task", params, Workload::Scripted));
    }
    all.iter().for_each(|&e| host.wake(e, Wake::Timer));
    let end = Instant::ZERO + LENGTH;
    while host.now() < end {
        let next = host.now() + Nanos::us(1) + dice.span(Nanos::ms(3));
        host.run_until(next.min(end));
        if sleepers && host.now() < end {
            stir(&mut host, &all, &mut dice);
        }
    }
    host.finish(end);
    drop(host);
    let judged = all.iter().filter_map(|&e| auditor.periods(e)).map(|counts| counts.judged).sum();
    if auditor.verdict().is_clean() { Ok(judged) } else { Err(format!("seed {seed}: {}", auditor.verdict())) }
}

#[test]
fn an_admitted_reservation_is_kept_on_a_full_cpu() {
    let one = Topology::new(1);
    for policy in fuzz::chosen_policies() {
        let knobs = generous(policy);
        for sleepers in [false, true] {
            let Some(lacking) = (policy.guarantees.reservations)(&load(&one, &knobs, sleepers)) else { continue };
            let mut judged = 0;
            for seed in 0..SEEDS {
                let outcome = run(policy, &knobs, sleepers, lacking, seed);
                judged += outcome.unwrap_or_else(|what| panic!("{}, sleepers {sleepers}: {what}", policy.name));
            }
            println!("{}: {judged} periods, sleepers {sleepers}", policy.name);
            assert!(judged > SEEDS * 10, "{}: {judged} periods say little", policy.name);
        }
    }
}

/// EDF also keeps its guarantee with partitioned placement or hard enforcement.
#[test]
fn edf_keeps_its_promises_however_it_enforces_them() {
    let edf = policies::find("edf").expect("it is registered");
    for (placement, enforce, late) in
        [("partitioned", "soft", "renew"), ("global", "hard", "renew"), ("partitioned", "hard", "carry")]
    {
        let mut knobs = generous(edf);
        for (name, word) in [("placement", placement), ("enforce", enforce), ("late", late)] {
            knobs.set_word(name, word).expect("it is one of its words");
        }
        for seed in 0..SEEDS {
            let outcome = run(edf, &knobs, true, Nanos::ZERO, 1_000 + seed);
            outcome.unwrap_or_else(|what| panic!("{placement}, {enforce}, {late}: {what}"));
        }
    }
}

/// Checks that the test detects missed slices. Credit has no deadlines, and misses slices in most of the same runs.
#[test]
fn a_policy_without_deadlines_misses_slices() {
    let credit = policies::find("credit").expect("it is registered");
    let short = (0..SEEDS).filter(|&seed| run(credit, &credit.defaults(), true, Nanos::ZERO, seed).is_err()).count();
    assert!(short > SEEDS as usize / 2, "only {short} of {SEEDS} runs lacked a slice");
}

// ---- Global EDF ----

/// Returns periodic jobs that fill `cpus` CPUs, except for less than 1 % of one CPU. No job exceeds one CPU.
fn full_machine(cpus: usize, dice: &mut Dice) -> Vec<Periodic> {
    let mut left_ppm = cpus as u64 * 1_000_000;
    let mut jobs = Vec::new();
    while left_ppm >= 10_000 {
        let share = (50_000 + dice.below(900_000)).min(left_ppm);
        left_ppm -= share;
        let period = Nanos::ms(dice.choose(&PERIODS_MS).expect("there are some"));
        // With `Yield`, the driver reports the end of a job even if the next job follows at once. The next job then
        // receives its own deadline.
        jobs.push(Periodic { end: JobEnd::Yield, ..Periodic::new(period, period.scale(share, 1_000_000)) });
    }
    jobs
}

/// Returns ((M−1)·Cmax − Cmin) / (M − (M−2)·Umax) + Cmax (Devi and Anderson 2005; sched-deadline.rst).
fn tardiness_bound(cpus: usize, jobs: &[Periodic]) -> Nanos {
    let most = jobs.iter().map(|job| job.work).max().expect("there are some");
    let least = jobs.iter().map(|job| job.work).min().expect("there are some");
    let share = |job: &Periodic| job.work.scale(1_000_000, job.period.as_ns()).as_ns() + 1;
    let most_ppm = jobs.iter().map(share).max().expect("there are some");
    let m = cpus as u64;
    let free_ppm = m * 1_000_000 - (m.saturating_sub(2)) * most_ppm;
    most + (most.saturating_mul(m - 1) - least).scale(1_000_000, free_ppm)
}

#[test]
fn global_edf_is_late_by_no_more_than_the_bound() {
    let edf = policies::find("edf").expect("it is registered");
    let mut knobs = edf.defaults();
    knobs.set_word("enforce", "none").expect("it is one of its words");
    let mut late_runs = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let cpus = usize::try_from(2 + dice.below(3)).expect("it is small");
        let jobs = full_machine(cpus, &mut dice);
        let mut log = JobLog::default();
        let mut host =
            sim::Driver::new(edf, Topology::new(cpus), &knobs, Costs::NONE).expect("these knobs go together");
        host.watch(&mut log);
        for &job in &jobs {
            let params = Params { reservation: Some(Reservation::new(job.work, job.period)), ..Params::default() };
            host.attach("task", params, Workload::Periodic(job)).expect("nothing is refused without enforcement");
        }
        host.finish(Instant::ZERO + LENGTH);
        drop(host);
        let ended = log.into_jobs().into_iter().filter_map(|job| Some((job.completion_ns?, job.deadline_ns)));
        let tardiness = ended.map(|(end, deadline)| Nanos::ns(end.saturating_sub(deadline))).max().unwrap_or_default();
        let bound = tardiness_bound(cpus, &jobs);
        assert!(tardiness <= bound, "seed {seed}, {cpus} CPUs, {jobs:?}: {tardiness} late; the bound is {bound}");
        late_runs += u64::from(!tardiness.is_zero());
    }
    assert!(late_runs > SEEDS / 10, "only {late_runs} runs were late at all: they say little of a bound");
}
