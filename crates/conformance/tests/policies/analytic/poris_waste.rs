//! Equation 1 of Poris (Wu et al., §3.2): `ω(V) = Σ (Te + Tws) / Tp`.
//!
//! In every accounting period `Tp`, the weight `ω` of a VM pays for the useful execution `Te` and for the waste `Tws`
//! of its vCPUs. A vCPU wastes CPU time while it spins for a sibling without a CPU. Co-scheduling reduces `Tws`, so
//! more of the weight is left for `Te`.

use super::{Runs, first_seed, policy};
use fuzz::Dice;
use sched::{EntityId, GroupId, GroupParams, Nanos, Params, State, Topology, Weight};
use sim::program::{Length, Object, ObjectId, Step, TaskSpec};
use sim::{Application, Costs, Driver, Workload};

const SETS: u64 = 1_000;
/// Tp: the accounting period of Credit, in nanoseconds.
const PERIOD: u64 = 30_000_000;

/// A VM of spinning vCPUs beside hogs, with as many vCPUs as the host has CPUs.
#[derive(Clone, Debug)]
struct Set {
    cpus: u64,
    hogs: u64,
    /// Te of a vCPU in a round, in nanoseconds.
    work: u64,
    rounds: u64,
    weight: u32,
}

/// The CPU time of a VM, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// CPU time of the vCPUs, from the trace.
    ran: u64,
    /// Useful execution: the rounds of all vCPUs, by their length.
    useful: u64,
    /// CPU time that the vCPUs spun.
    wasted: u64,
}

impl Set {
    fn draw(dice: &mut Dice) -> Set {
        let cpus = 2 + dice.below(3);
        let hogs = 1 + dice.below(2 * cpus);
        let work = 50_000 + dice.below(2_000_000);
        Set {
            cpus,
            hogs,
            work,
            rounds: 40_000_000 / work,
            weight: 256 + u32::try_from(dice.below(2_000)).expect("small"),
        }
    }

    /// Returns a program of `rounds` rounds; `None`: without end. In each round, every vCPU works and then spins until
    /// its siblings have worked. After its last round, a vCPU sleeps.
    fn program(&self, rounds: Option<u64>) -> Application {
        let round = vec![Step::Run(Length::Fixed(Nanos::ns(self.work))), Step::Barrier(ObjectId(0))];
        let steps = vec![Step::Repeat { times: rounds, body: round }, Step::Sleep(Length::Fixed(Nanos::s(1_000)))];
        let spec =
            TaskSpec { name: "vcpu".into(), params: Params::default(), delay: Length::Fixed(Nanos::ZERO), steps };
        let barrier = Object::SpinBarrier { parties: u32::try_from(self.cpus).expect("few") };
        Application {
            objects: vec![("barrier".into(), barrier)],
            tasks: (0..self.cpus).map(|_| spec.clone()).collect(),
            ..Application::default()
        }
    }

    /// Runs the VM beside hogs. With `rounds`, the run ends when all vCPUs have completed their rounds; otherwise it
    /// ends after `periods` accounting periods.
    fn run(&self, name: &str, rounds: Option<u64>, periods: u64) -> Use {
        let policy = policy(name);
        let mut runs = Runs::default();
        let topology = Topology::new(usize::try_from(self.cpus).expect("few"));
        let mut host =
            Driver::new(policy, topology, &policy.defaults(), Costs::NONE).expect("the defaults go together");
        host.watch(&mut runs);
        let weight = Weight::linux(self.weight).expect("it is in range");
        let marked = GroupParams { gang: true, weight, ..GroupParams::default() };
        let vm = host.create_group("vm", marked, GroupId::ROOT).expect("every group is accepted");
        for _ in 0..self.hogs {
            let group =
                host.create_group("hog", GroupParams::default(), GroupId::ROOT).expect("every group is accepted");
            host.attach("hog", Params { group, ..Params::default() }, Workload::Hog).expect("no vCPU is refused");
            host.run_until(host.now() + Nanos::us(700));
        }
        let (_, vcpus) = host.start(&self.program(rounds), vm).expect("no vCPU is refused");
        for _ in 0..periods {
            host.run_until(host.now() + Nanos::ns(PERIOD));
            if vcpus.iter().all(|&vcpu| host.machine().state(vcpu) == State::Blocked) {
                break;
            }
        }
        let wasted = vcpus.iter().map(|&vcpu| host.spun(vcpu).as_ns()).sum();
        let end = host.now();
        host.finish(end);
        drop(host);
        let ran = |&vcpu: &EntityId| runs.of(vcpu).iter().map(|run| run.1 - run.0).sum::<u64>();
        Use { ran: vcpus.iter().map(ran).sum(), useful: self.cpus * self.rounds * self.work, wasted }
    }
}

#[test]
fn equation_1_divides_the_cpu_time_of_a_vm_into_execution_and_waste() {
    let (mut less, mut more, mut wasteful) = (0, 0, 0);
    let (mut wasted, mut wasted_by_credit) = (0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let set = Set::draw(&mut Dice::new(seed));
        let [poris, credit] = ["poris", "credit"].map(|name| {
            let got = set.run(name, Some(set.rounds), 100_000);
            assert_eq!(got.ran, got.useful + got.wasted, "seed {seed}, {name}: {set:?}: {got:?}");
            got
        });
        wasteful += u64::from(credit.wasted > credit.useful / 10);
        less += u64::from(poris.wasted < credit.wasted);
        more += u64::from(poris.wasted > credit.wasted);
        wasted += poris.wasted / 1_000;
        wasted_by_credit += credit.wasted / 1_000;
    }
    println!("Tws: {wasted} us under poris, {wasted_by_credit} us under credit; less in {less} sets, more in {more}");
    assert!(wasteful > SETS / 2, "only {wasteful} sets waste time under credit");
    assert!(wasted * 2 < wasted_by_credit && less > more * 4, "{wasted} and {wasted_by_credit} us; {less}, {more}");
}

/// The left side of equation 1: over many accounting periods, `credit` gives the VM the CPU time of its weight, useful
/// or not. The VM has at least the weight of a hog.
#[test]
fn equation_1_pays_execution_and_waste_by_the_weight_of_the_vm() {
    const PERIODS: u64 = 100;
    let mut off: Vec<u64> = Vec::new();
    for seed in (first_seed()..).take(SETS as usize / 4) {
        let mut set = Set::draw(&mut Dice::new(seed));
        (set.hogs, set.weight) = (2 * set.cpus, set.weight.max(1_024));
        let weights = u64::from(set.weight) + set.hogs * 1_024;
        let entitled = PERIODS * PERIOD * set.cpus * u64::from(set.weight) / weights;
        let got = set.run("credit", None, PERIODS);
        let percent = got.ran * 100 / entitled;
        assert!((85..=120).contains(&percent), "seed {seed}: {set:?}: {percent} % of the weight; {got:?}");
        off.push(percent);
    }
    println!("{:?} to {:?} % of the weight", off.iter().min(), off.iter().max());
}
