//! Parallel programs in VMs whose siblings may run at different times. The tests cover the effect of gang policies, of
//! guests that report their spinning to the host, and of pause-loop exits.

use crate::town::{FIRST, Log, application, at, forever, guest, hog, host, task, vcpus};
use sched::{Action, GroupId, GroupParams, Input, Instant, Nanos, Params};
use sim::guest::{HaltPolling, PauseLoop, Spinning, Steal};
use sim::program::{Length, Object, Step};
use sim::{Application, Costs, Guest, Workload, World};
use trace::Event;

const MS: u64 = 3_000;

/// Returns an application of `threads` threads. In every round, each thread computes for 50 to 150 us and then spins
/// until all threads have arrived. One thread counts the rounds.
fn fork_join(threads: usize) -> Application {
    let work = Length::Uniform { least: Nanos::us(50), most: Nanos::us(150) };
    let round = |counts: bool| {
        let mut steps = vec![Step::Run(work), Step::Barrier(FIRST)];
        if counts {
            steps.insert(0, Step::JobBegins { deadline: None });
            steps.push(Step::JobEnds);
        }
        forever(steps)
    };
    let parties = u32::try_from(threads).expect("few");
    let tasks = (0..threads).map(|n| task(&format!("t{n}"), vec![round(n == 0)])).collect();
    application(&[("barrier", Object::SpinBarrier { parties })], tasks)
}

/// The results of a program.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    rounds: usize,
    /// CPU time that the threads spun, per round.
    spun: Nanos,
}

/// Runs a parallel program in a VM whose group is a gang. The VM has as many vCPUs as its host has CPUs, and competes
/// with the same number of hogs.
fn play(name: &str, cpus: usize, kind: Guest, seed: u64) -> Outcome {
    let mut log = Log::default();
    let mut world = World::new(seed);
    let under = host(&mut world, name, cpus, Costs::NONE);
    let params = GroupParams { gang: true, ..GroupParams::default() };
    let group = world.create_group(under, "vm", params, GroupId::ROOT).expect("there is room");
    for n in 0..cpus {
        hog(&mut world, under, &format!("hog-{n}"));
        // With each seed, the VM starts at a different phase of the hogs' time slices.
        let next = world.now() + Nanos::us(700 * seed);
        world.run_until(next).expect("hogs never wait");
    }
    let params = Params { group, ..Params::default() };
    let vcpu = |n| world.attach(under, &format!("vm/{n}"), params, Workload::Vcpu).expect("there is room");
    let vcpus: Vec<_> = (0..cpus).map(vcpu).collect();
    let vm = guest(&mut world, under, "cfs", &vcpus, kind, Costs::NONE);
    world.watch_all(&mut log);
    let (_, tasks) = world.start(vm, &fork_join(cpus), GroupId::ROOT).expect("there is room");
    world.finish(at(MS)).expect("rounds follow each other");
    let spun: Nanos = tasks.iter().map(|&task| world.machine(vm).spun(task)).sum();
    drop(world);
    let rounds = log.events.iter().filter(|(_, _, event)| matches!(event, Event::Complete { .. })).count();
    Outcome { rounds, spun: spun.scale(1, rounds.max(1) as u64) }
}

/// Runs the program with four seeds. Returns all results.
fn play_all(name: &str, cpus: usize, kind: Guest) -> Vec<Outcome> {
    (1..=4).map(|seed| play(name, cpus, kind, seed)).collect()
}

fn rounds(all: &[Outcome]) -> usize {
    all.iter().map(|outcome| outcome.rounds).sum()
}

/// Returns the CPU time spun in all rounds of all results.
fn spun(all: &[Outcome]) -> Nanos {
    all.iter().map(|outcome| outcome.spun.saturating_mul(outcome.rounds as u64)).sum()
}

fn spun_per_round(all: &[Outcome]) -> Nanos {
    spun(all).scale(1, rounds(all) as u64)
}

#[test]
fn siblings_that_run_together_spin_less_and_get_further_than_under_credit() {
    // Relaxed co-scheduling only limits the skew between siblings. The tests in `skew.rs` cover its effect.
    let brings_together = |name: &str| ["cosched", "cosched-strict", "hybrid"].contains(&name);
    for cpus in [2, 4] {
        let credit = play_all("credit", cpus, Guest::default());
        for policy in policies::ALL.iter().filter(|policy| brings_together(policy.name)) {
            let gangs = play_all(policy.name, cpus, Guest::default());
            let all = format!("{cpus} CPUs: {gangs:?} under {}, {credit:?} under credit", policy.name);
            assert!(rounds(&gangs) * 100 > rounds(&credit) * 103, "{all}");
            assert!(spun_per_round(&gangs) < spun_per_round(&credit), "{all}");
        }
    }
}

#[test]
fn a_guest_that_reports_its_spinning_is_brought_together_when_it_needs_it() {
    let reports = Guest { spin_report: Some(Nanos::us(450)), ..Guest::default() };
    for cpus in [2, 4] {
        let credit = play_all("credit", cpus, reports);
        let mute = play_all("adaptive", cpus, Guest::default());
        let told = play_all("adaptive", cpus, reports);
        let all = format!("{cpus} CPUs: {told:?} with reports, {mute:?} without, {credit:?} under credit");
        assert_eq!(rounds(&mute), rounds(&credit), "without reports it decides as credit does: {all}");
        assert!(rounds(&told) * 100 > rounds(&mute) * 103, "{all}");
        assert!(spun_per_round(&told) < spun_per_round(&mute), "{all}");
    }
}

const PAUSE_LOOP: Guest = Guest {
    pause_loop: Some(PauseLoop { window: Nanos::us(10) }),
    spinning: Spinning::Ticket,
    steal: Steal::Hidden,
    shows_preempted: false,
    idle_polls: false,
    halt_polling: HaltPolling::OFF,
    spin_report: None,
    coordination: None,
};

#[test]
fn a_vcpu_that_spins_gives_its_cpu_to_a_sibling_that_was_preempted() {
    for name in ["cfs", "eevdf"] {
        for cpus in [2, 4] {
            let (alone, yields) = (play_all(name, cpus, Guest::default()), play_all(name, cpus, PAUSE_LOOP));
            let all = format!("{cpus} CPUs under {name}: {yields:?} where spinners exit, {alone:?} where they do not");
            assert!(rounds(&yields) * 100 > rounds(&alone) * 110, "{all}");
            assert!(spun_per_round(&yields) < spun_per_round(&alone), "{all}");
        }
    }
}

/// Runs a VM of two vCPUs on one CPU. Returns the number of yields to the sibling, the number of yields after which the
/// sibling ran at once, and the number of rounds.
fn on_one_cpu(name: &str, kind: Guest) -> (usize, usize, usize) {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, name, 1, Costs::NONE);
    let vcpus = vcpus(&mut world, under, "vm", 2, false);
    let vm = guest(&mut world, under, "cfs", &vcpus, kind, Costs::NONE);
    world.watch_all(&mut log);
    world.start(vm, &fork_join(2), GroupId::ROOT).expect("there is room");
    world.finish(at(MS)).expect("rounds follow each other");
    drop(world);
    let (mut yields, mut went) = (0, 0);
    let events = log.of(under);
    for (n, (when, event)) in events.iter().enumerate() {
        if let Event::Input(Input::YieldTo { to, .. }) = *event {
            yields += 1;
            let runs = |(at, event): &&(Instant, Event)| {
                at == when && matches!(event, Event::Action(Action::Run { entity, .. }) if *entity == to)
            };
            went += usize::from(events[n..].iter().take(8).any(|event| runs(&event)));
        }
    }
    let done = log.events.iter().filter(|(_, _, event)| matches!(event, Event::Complete { .. })).count();
    (yields, went, done)
}

#[test]
fn a_directed_yield_runs_the_sibling_at_once_where_both_share_a_cpu() {
    // EEVDF does not pick a sibling that has received more than its share.
    for (name, percent) in [("cfs", 90), ("eevdf", 70)] {
        let (none, _, waited) = on_one_cpu(name, Guest::default());
        let (yields, went, done) = on_one_cpu(name, PAUSE_LOOP);
        let all = format!(
            "{name}: {done} rounds with {yields} yields, {went} of which were followed; {waited} rounds without"
        );
        assert_eq!(none, 0, "{all}");
        assert!(yields > 1_000 && went * 100 >= yields * percent, "{all}");
        assert!(done > 4 * waited, "{all}");
    }
}
