//! The supply of `rtds` and the supply-bound function of the periodic resource model (Shin and Lee 2003).
//!
//! A vCPU with budget `B` and period `P` that is always runnable receives `B` in every period, at any time within the
//! period. In any window of length `t`, it then receives at least `sbf(t)`: nothing during a gap of `2 · (P − B)`, and
//! afterwards `B` in every `P`. RTDS delivers the budgets if all vCPUs are always runnable and global EDF meets the
//! deadlines of jobs of `B` in every `P`. Each kind of set in [`Kind`] fulfils a condition under which EDF does.

use super::gfb::{H, UNIT, WORK_LEAST, admitted_set, room, share};
use super::{PERIODS, Runs, Task, first_seed, knobs, policy, split};
use fuzz::Dice;
use sched::{CpuId, CpuSet, Descriptor, Instant, Knobs, Limit, Nanos, Params, Reservation, Topology};
use sim::{Costs, Workload};

const SETS: u64 = 1_600;
/// Length of a run after the last first period.
const LENGTH: u64 = 2 * H;

/// The condition that a set fulfils.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// One CPU, ΣB/P from low up to exactly 1.
    OneCpu,
    /// The condition of Goossens, Funk and Baruah on several CPUs, below the bound or exactly on it.
    Global,
    /// Every vCPU is pinned to one CPU, and ΣB/P is up to exactly 1 on each CPU.
    Pinned,
    /// At most as many vCPUs as CPUs, with budgets up to the whole period.
    Few,
}

const KINDS: [Kind; 4] = [Kind::OneCpu, Kind::Global, Kind::Pinned, Kind::Few];

/// A vCPU: its server as a task with the budget as its work, and its CPU.
#[derive(Clone, Copy, Debug)]
struct Vcpu {
    server: Task,
    cpu: Option<usize>,
}

/// Returns the supply-bound function of the periodic resource model, definition 2 of Shin and Lee 2003. All times are in
/// nanoseconds.
fn supply_bound(budget: u64, period: u64, t: u64) -> u64 {
    let gap = period - budget;
    let k = t.saturating_sub(gap).div_ceil(period).max(1);
    let (begin, end) = (((k + 1) * period).saturating_sub(2 * budget), (k + 1) * period - budget);
    if (begin..=end).contains(&t) { t - (k + 1) * gap } else { (k - 1) * budget }
}

/// Returns servers on one CPU that use `thousandths` of it, exactly.
fn one_cpu(thousandths: u64, dice: &mut Dice) -> Vec<Task> {
    let total = H / 1_000 * thousandths;
    loop {
        let n = 1 + dice.below(5);
        let parts = split(total, n, dice);
        let mut server = |(at, part): (usize, u64)| {
            // The period of the first server is the hyperperiod, so that it can use what rounding leaves.
            let period = if at == 0 { H } else { UNIT * dice.choose(&PERIODS).expect("there are some") };
            Task { work: (part / (H / period)).max(WORK_LEAST), period, deadline: period, phase: 0 }
        };
        let mut servers: Vec<Task> = parts.into_iter().enumerate().map(&mut server).collect();
        let others: u64 = servers[1..].iter().map(share).sum();
        if others + WORK_LEAST <= total {
            servers[0].work = total - others;
            return servers;
        }
    }
}

/// Returns the thousandths of a CPU that a set uses; the whole CPU in every third set.
fn fraction(dice: &mut Dice) -> u64 {
    if dice.one_in(3) { 1_000 } else { 100 + dice.below(900) }
}

/// Returns the number of CPUs and the vCPUs of `seed`.
fn draw(seed: u64) -> (usize, Vec<Vcpu>) {
    let mut dice = Dice::new(seed);
    let kind = KINDS[usize::try_from(seed % 4).expect("small")];
    let cpus = if kind == Kind::OneCpu { 1 } else { usize::try_from(2 + dice.below(4)).expect("few") };
    let mut vcpus: Vec<Vcpu> = match kind {
        Kind::OneCpu => {
            one_cpu(fraction(&mut dice), &mut dice).into_iter().map(|server| Vcpu { server, cpu: None }).collect()
        }
        Kind::Global => {
            let on_bound = dice.one_in(2);
            let servers = admitted_set(cpus as u64, on_bound, &mut dice);
            assert!(room(cpus as u64, &servers) >= 0);
            servers.into_iter().map(|server| Vcpu { server, cpu: None }).collect()
        }
        Kind::Pinned => {
            let on = |cpu| {
                let servers = one_cpu(fraction(&mut dice), &mut dice);
                servers.into_iter().map(move |server| Vcpu { server, cpu: Some(cpu) })
            };
            (0..cpus).flat_map(on).collect()
        }
        Kind::Few => (0..cpus)
            .map(|_| {
                let period = UNIT * dice.choose(&PERIODS).expect("there are some");
                let work = if dice.one_in(3) { period } else { WORK_LEAST + dice.below(period - WORK_LEAST) };
                Vcpu { server: Task { work, period, deadline: period, phase: 0 }, cpu: None }
            })
            .collect(),
    };
    if dice.one_in(2) {
        vcpus.iter_mut().for_each(|vcpu| vcpu.server.phase = dice.below(vcpu.server.period));
    }
    (cpus, vcpus)
}

/// The comparison of a supply with the budgets and the bounds.
#[derive(Clone, Copy, Default, Debug)]
struct Verdict {
    /// Whole periods in which the supply was below the budget.
    short: u64,
    /// Windows in which the supply was below the bound.
    below: u64,
    windows: u64,
    /// Windows with the longest gap, or in which the supply was equal to a bound above zero.
    equal: u64,
}

/// Compares the supply in every window that matters with the bound. `runs` are the supply from `from` to `to`. The
/// difference between supply and bound decreases only while the vCPU does not run, and when the window begins while it
/// runs, so the windows from an end of supply to a begin of supply are sufficient.
fn compare(server: &Task, runs: &[(u64, u64)], from: u64, to: u64) -> Verdict {
    let mut verdict = Verdict::default();
    let runs: Vec<(u64, u64)> = runs.iter().filter(|run| run.1 > from).map(|run| (run.0.max(from), run.1)).collect();
    let before: Vec<u64> = std::iter::once(0)
        .chain(runs.iter().scan(0, |sum, run| {
            *sum += run.1 - run.0;
            Some(*sum)
        }))
        .collect();
    for first in 0..=runs.len() {
        let begin = if first == 0 { from } else { runs[first - 1].1 };
        for last in first..=runs.len() {
            let end = runs.get(last).map_or(to, |run| run.0);
            let (supply, length) = (before[last] - before[first], end - begin);
            let bound = supply_bound(server.work, server.period, length);
            verdict.windows += 1;
            verdict.below += u64::from(supply < bound);
            let gap = 2 * (server.period - server.work);
            verdict.equal += u64::from(supply == bound && (bound > 0 || (gap > 0 && length == gap)));
        }
    }
    let supply = |from: u64, to: u64| -> u64 {
        let first = runs.partition_point(|run| run.1 <= from);
        let overlap = runs[first..].iter().take_while(|run| run.0 < to);
        overlap.map(|run| run.1.min(to) - run.0.max(from)).sum()
    };
    let periods = (from..to).step_by(server.period as usize).take_while(|begin| begin + server.period <= to);
    verdict.short = periods.filter(|&begin| supply(begin, begin + server.period) < server.work).count() as u64;
    verdict
}

/// Runs always-runnable vCPUs, and compares their supply with their bounds.
fn run(policy: &'static Descriptor, knobs: &Knobs, limit: Limit, cpus: usize, vcpus: &[Vcpu]) -> Verdict {
    let mut runs = Runs::default();
    let mut host = sim::Driver::new(policy, Topology::new(cpus), knobs, Costs::NONE).expect("these knobs go together");
    host.watch(&mut runs);
    let attach = |vcpu: &Vcpu| {
        let server = &vcpu.server;
        let start = Some(Instant::ZERO + Nanos::ns(server.phase));
        let asked = Reservation::new(Nanos::ns(server.work), Nanos::ns(server.period));
        let affinity = vcpu.cpu.map_or(CpuSet::ALL, |cpu| CpuSet::one(CpuId::new(cpu)));
        let params = Params { reservation: Some(Reservation { start, limit, ..asked }), affinity, ..Params::default() };
        host.attach("vcpu", params, Workload::Hog).expect("nothing is refused without admission control")
    };
    let ids: Vec<_> = vcpus.iter().map(attach).collect();
    let to = LENGTH + vcpus.iter().map(|vcpu| vcpu.server.phase).max().expect("there are some");
    host.finish(Instant::ZERO + Nanos::ns(to));
    drop(host);
    let each = ids.iter().zip(vcpus).map(|(&id, Vcpu { server, .. })| compare(server, runs.of(id), server.phase, to));
    each.fold(Verdict::default(), |sum, one| Verdict {
        short: sum.short + one.short,
        below: sum.below + one.below,
        windows: sum.windows + one.windows,
        equal: sum.equal + one.equal,
    })
}

#[test]
fn rtds_never_supplies_less_than_its_supply_bound_function() {
    let rtds = policy("rtds");
    let (mut windows, mut attained, mut full) = (0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let (cpus, vcpus) = draw(seed);
        let limit = if seed % 8 < 4 { Limit::Hard } else { Limit::Soft };
        let verdict = run(rtds, &rtds.defaults(), limit, cpus, &vcpus);
        assert_eq!(
            (verdict.short, verdict.below),
            (0, 0),
            "seed {seed}, {cpus} CPUs, {limit:?}: {verdict:?}, {vcpus:?}"
        );
        windows += verdict.windows;
        attained += u64::from(verdict.equal > 0);
        let sum: u64 = vcpus.iter().map(|vcpu| share(&vcpu.server)).sum();
        full += u64::from(sum == cpus as u64 * H);
    }
    println!("{SETS} sets, {windows} windows; the bound is attained in {attained} sets; {full} sets use all CPUs");
    assert!(windows > SETS * 1_000, "{windows} windows say little");
    assert!(attained > SETS / 10, "the bound is attained in only {attained} sets");
    assert!(full > SETS / 20, "only {full} sets use all CPUs");
}

/// Checks that the comparison detects a lower supply: that of `credit`, and that of `rtds` beyond the conditions.
#[test]
fn other_policies_and_overloads_supply_less_than_the_bound() {
    const OTHERS: u64 = 400;
    let (credit, rtds) = (policy("credit"), policy("rtds"));
    let (mut without_budgets, mut overloaded, mut grown_by_half) = (0, 0, 0);
    for seed in (first_seed()..).take(OTHERS as usize) {
        let (cpus, mut vcpus) = draw(seed);
        without_budgets += u64::from(run(credit, &credit.defaults(), Limit::Soft, cpus, &vcpus).below > 0);
        // All budgets grow by half.
        let mut larger = vcpus.clone();
        larger.iter_mut().for_each(|Vcpu { server, .. }| server.work = (server.work * 3 / 2).min(server.period));
        grown_by_half += u64::from(run(rtds, &rtds.defaults(), Limit::Hard, cpus, &larger).below > 0);
        // The budget of one vCPU of full CPUs grows by a nanosecond.
        let sum: u64 = vcpus.iter().map(|vcpu| share(&vcpu.server)).sum();
        vcpus.iter_mut().for_each(|vcpu| vcpu.server.phase = 0);
        let mut smaller = vcpus.iter_mut().filter(|vcpu| vcpu.server.work < vcpu.server.period);
        let Some(grown) = smaller.next().filter(|_| sum == cpus as u64 * H) else { continue };
        grown.server.work += 1;
        let short = run(rtds, &rtds.defaults(), Limit::Hard, cpus, &vcpus).short;
        assert!(short > 0, "seed {seed}: every budget of an overloaded host is delivered; {vcpus:?}");
        overloaded += 1;
    }
    println!(
        "of {OTHERS} sets: {without_budgets} are below under credit, {grown_by_half} with larger budgets; {overloaded} sets are short by 1 ns"
    );
    assert!(without_budgets > OTHERS / 2 && grown_by_half > OTHERS / 10, "{without_budgets}, {grown_by_half}");
    assert!(overloaded > OTHERS / 40, "{overloaded}");
}

/// The supply-bound function equals the minimum over all windows of the worst pattern: a budget at the begin of its
/// period, followed by budgets at the ends of their periods.
#[test]
fn the_supply_bound_function_is_the_worst_supply() {
    for (budget, period) in [(1, 1), (1, 4), (2, 5), (3, 4), (4, 10), (9, 10)] {
        let begins = |n: u64| if n == 0 { 0 } else { (n + 1) * period - budget };
        let pattern: Vec<(u64, u64)> = (0..8).map(|n| (begins(n), begins(n) + budget)).collect();
        for t in 0..6 * period {
            let supply = |from: u64| -> u64 {
                pattern.iter().map(|run| run.1.min(from + t).saturating_sub(run.0.max(from))).sum()
            };
            let worst = (0..=period).map(supply).min().expect("there are some");
            assert_eq!(supply_bound(budget, period, t), worst, "budget {budget}, period {period}, window {t}");
        }
    }
}

#[test]
fn rtds_supplies_its_bound_with_ties_in_favour_of_the_running_vcpu() {
    let rtds = policy("rtds");
    let stay = knobs(rtds, &[("ties", "stay")]);
    for seed in (first_seed()..).take(SETS as usize / 4) {
        let (cpus, vcpus) = draw(seed);
        let verdict = run(rtds, &stay, Limit::Hard, cpus, &vcpus);
        assert_eq!((verdict.short, verdict.below), (0, 0), "seed {seed}, {cpus} CPUs: {verdict:?}, {vcpus:?}");
    }
}
