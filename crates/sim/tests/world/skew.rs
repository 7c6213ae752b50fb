//! A parallel program in a VM, beside hogs. The threads of the program spin while they wait for each other. The test
//! compares the progress of the program with and without a limit on the skew of the vCPUs.

use crate::town::{FIRST, at, guest, policy, task};
use measure::Meter;
use sched::{CpuSet, EntityId, GroupId, GroupParams, Nanos, Params, Topology};
use sim::program::{Length, Object, Step};
use sim::{Application, Costs, Guest, Workload, World};
use trace::{Event, MachineId, Sink};

/// A threshold that no vCPU ever exceeds. The policy is then a plain proportional-share scheduler.
const NEVER: (&str, i64) = ("threshold", 1_000_000_000_000);

/// A test case: policy, knobs, and name.
type Case = (&'static str, &'static [(&'static str, i64)], &'static str);
const PLAIN: Case = ("cosched-relaxed", &[NEVER], "proportional share");
const KEPT_TOGETHER: [Case; 3] = [
    ("cosched-strict", &[], "strict"),
    ("cosched-relaxed", &[], "relaxed"),
    ("cosched-relaxed", &[("version", 1)], "relaxed, version 3"),
];

/// The results of a run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Number of finished rounds of the program.
    rounds: u64,
    /// CPU time of the VM.
    used: Nanos,
}

impl Outcome {
    /// Returns the number of rounds per second of CPU time. CPU time includes spinning.
    fn rounds_per_second(self) -> u64 {
        self.rounds * 1_000_000_000 / self.used.as_ns()
    }
}

/// A sink that counts completed jobs.
#[derive(Default)]
struct Completed(u64);

impl Sink for Completed {
    fn record(&mut self, _at: sched::Instant, event: &Event) {
        self.0 += u64::from(matches!(event, Event::Complete { .. }));
    }
}

/// Returns an application with one thread per vCPU, bound to this vCPU. In each round, a thread works for 200 to 400 us
/// and then spins until the last thread arrives.
fn fork_join(threads: u32) -> Application {
    let work = Length::Uniform { least: Nanos::us(200), most: Nanos::us(400) };
    let round = vec![Step::JobBegins { deadline: None }, Step::Run(work), Step::Barrier(FIRST), Step::JobEnds];
    let thread = |n: u32| {
        let mut thread = task(&format!("t{n}"), vec![Step::Repeat { times: None, body: round.clone() }]);
        thread.params.affinity = CpuSet::one(sched::CpuId::new(n as usize));
        thread
    };
    let barrier = ("rounds".to_string(), Object::SpinBarrier { parties: threads });
    Application { objects: vec![barrier], tasks: (0..threads).map(thread).collect(), ..Application::default() }
}

fn add_host(world: &mut World<'_>, (name, knobs, _): Case, cpus: usize) -> MachineId {
    let policy = policy(name);
    let mut values = policy.defaults();
    for &(knob, value) in knobs {
        values.set(knob, value).expect("it is in range");
    }
    world.add_host("host", policy, Topology::new(cpus), &values, Costs::NONE).expect("it works here")
}

/// Runs the program for two seconds in a VM with `vcpus` vCPUs, on a host with the same number of CPUs. Hogs start one
/// after another, 7 ms apart.
fn play(case: Case, vcpus: usize, hogs: usize, seed: u64) -> Outcome {
    let (mut completed, mut below) = (Completed::default(), Meter::new());
    let mut world = World::new(seed);
    let host = add_host(&mut world, case, vcpus);
    world.watch(host, &mut below);
    let marked = GroupParams { gang: true, ..GroupParams::default() };
    let group = world.create_group(host, "vm", marked, GroupId::ROOT).expect("there is room");
    let vcpu = |n: usize| {
        let params = Params { group, ..Params::default() };
        world.attach(host, &format!("vm/{n}"), params, Workload::Vcpu).expect("there is room")
    };
    let all: Vec<EntityId> = (0..vcpus).map(vcpu).collect();
    let inside = guest(&mut world, host, "cfs", &all, Guest::default(), Costs::NONE);
    world.watch(inside, &mut completed);
    world.start(inside, &fork_join(u32::try_from(vcpus).expect("few")), GroupId::ROOT).expect("there is room");
    for n in 0..hogs {
        // Each seed starts the hogs at different times. Their interval of 7 ms is not a multiple of the quantum (50
        // ms).
        world.run_until(at(7 * n as u64 + seed)).expect("no task waits for ever");
        world.attach(host, &format!("hog {n}"), Params::default(), Workload::Hog).expect("there is room");
    }
    world.finish(at(2_000)).expect("no task waits for ever");
    drop(world);
    let used = below.members().iter().filter(|member| member.name.starts_with("vm/"));
    let used = used.fold(Nanos::ZERO, |sum, member| sum + member.got.delivered);
    Outcome { rounds: completed.0 / vcpus as u64, used }
}

/// A thread that spins for a sibling without a CPU makes no progress. If siblings must not drift apart, the program
/// therefore finishes more rounds per second of CPU time. The host has as many CPUs as the VM has vCPUs, and the hogs
/// compete for these CPUs.
#[test]
fn a_vm_that_spins_gets_more_done_where_its_vcpus_may_not_drift_apart() {
    for (vcpus, hogs) in [(2, 1), (2, 3), (4, 3)] {
        for seed in 1..=5 {
            let plain = play(PLAIN, vcpus, hogs, seed);
            for case in KEPT_TOGETHER {
                let kept = play(case, vcpus, hogs, seed);
                let (less, more) = (plain.rounds_per_second(), kept.rounds_per_second());
                println!(
                    "{vcpus} vCPUs, {hogs} hogs, seed {seed}, {}: {kept:?}, {more}/s; {plain:?}, {less}/s",
                    case.2
                );
                assert!(
                    more > less && kept.rounds > plain.rounds,
                    "{vcpus} vCPUs, {hogs} hogs, seed {seed}: {} makes {more} rounds a second of its CPU time ({kept:?}), \
                     proportional share {less} ({plain:?})",
                    case.2
                );
            }
        }
    }
}
