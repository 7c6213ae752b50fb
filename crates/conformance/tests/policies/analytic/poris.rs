//! Equations 2 to 7 of Poris (Wu et al., "Poris: a scheduler for parallel soft real-time applications in virtualized
//! environments", §4.3 and §4.5), on random hosts without costs.
//!
//! `NV` is the number of vCPUs per CPU, rounded up as in Algorithm 1, `S` the time slice, `L` the expected latency,
//! `ΣC` the number of vCPUs of a group, and `P` the number of CPUs. The equations assume vCPUs of one priority that are
//! scheduled first come, first served. Two rules of Credit violate this assumption: a woken vCPU is BOOST, and
//! accounting sorts vCPUs into UNDER and OVER. The hosts here therefore have `boost = off` and no accounting within a
//! run. A test shows that the equations do not hold under the defaults.

use super::{Runs, first_seed, knobs, policy};
use fuzz::Dice;
use sched::{Action, CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Nanos, Params, Topology, Wake};
use sim::{Costs, Driver, Workload};
use trace::{Event, Sink};

const SETS: u64 = 1_000;
/// Credit's long time slice (LTS), in nanoseconds.
const LONG: u64 = 30_000_000;

/// Knobs under which all vCPUs keep one priority: no boost, and no tick before the end of a run.
const ONE_PRIORITY: [(&str, &str); 3] = [("boost", "off"), ("tick", "1000000000"), ("accounting-ticks", "100")];

/// The lengths of all time slices at their begin.
#[derive(Default)]
struct Slices(Vec<u64>);

impl Sink for Slices {
    fn record(&mut self, at: Instant, event: &Event) {
        if let Event::Action(Action::Run { until, .. } | Action::Extend { until, .. }) = event {
            self.0.push(until.since(at).as_ns());
        }
    }
}

/// Returns a VM: a group with `vcpus` members, which are blocked. Each member may run on the CPUs of `affinity`.
fn vm(host: &mut Driver<'_>, parent: GroupId, gang: bool, affinities: &[CpuSet]) -> Vec<EntityId> {
    let group = host.create_group("vm", GroupParams { gang, ..GroupParams::default() }, parent);
    let group = group.expect("every group is accepted");
    let attach = |affinity: &CpuSet| {
        let params = Params { group, affinity: *affinity, ..Params::default() };
        host.attach("vcpu", params, Workload::Scripted).expect("no vCPU is refused")
    };
    affinities.iter().map(attach).collect()
}

fn pinned(n: u64) -> CpuSet {
    CpuSet::one(CpuId::new(usize::try_from(n).expect("few")))
}

/// A host of vCPUs that are spread evenly over the CPUs, each in a VM of its own.
#[derive(Clone, Debug)]
struct Spread {
    cpus: u64,
    vcpus: u64,
    /// Number of vCPUs of marked VMs (NR).
    marked: u64,
    /// L, in nanoseconds.
    latency: u64,
    /// Instants of the first wake-ups, in nanoseconds.
    wakes: Vec<u64>,
}

impl Spread {
    fn draw(dice: &mut Dice) -> Spread {
        let cpus = 1 + dice.below(4);
        let vcpus = 1 + dice.below(6 * cpus);
        let latency = 1_000_000 + dice.below(20_000_000);
        let marked = if dice.one_in(6) { 0 } else { 1 + dice.below(vcpus) };
        let together = dice.one_in(2);
        let wakes = (0..vcpus).map(|_| if together { 0 } else { dice.below(latency) }).collect();
        Spread { cpus, vcpus, marked, latency, wakes }
    }

    /// NV, rounded up.
    fn per_cpu(&self) -> u64 {
        self.vcpus.div_ceil(self.cpus)
    }

    /// Equation 4.
    fn slice(&self) -> u64 {
        if self.marked == 0 || self.per_cpu() == 1 { LONG } else { self.latency / (self.per_cpu() - 1) }
    }

    /// Runs the host for several rounds. Returns the worst wait of a vCPU, and the lengths of all time slices.
    fn run(&self, name: &str, changes: &[(&str, &str)]) -> (u64, Vec<u64>) {
        let policy = policy(name);
        let latency = self.latency.to_string();
        let mut all = changes.to_vec();
        all.extend(policy.knobs.iter().any(|knob| knob.name == "latency").then_some(("latency", latency.as_str())));
        let knobs = knobs(policy, &all);
        let (mut runs, mut slices) = (Runs::default(), Slices::default());
        let topology = Topology::new(usize::try_from(self.cpus).expect("few"));
        let mut host = Driver::new(policy, topology, &knobs, Costs::NONE).expect("these knobs go together");
        host.watch(&mut runs);
        host.watch(&mut slices);
        let attach = |n| vm(&mut host, GroupId::ROOT, n < self.marked, &[pinned(n % self.cpus)])[0];
        let ids: Vec<EntityId> = (0..self.vcpus).map(attach).collect();
        let mut order: Vec<(u64, EntityId)> = self.wakes.iter().copied().zip(ids.iter().copied()).collect();
        order.sort_unstable_by_key(|&(at, e)| (at, e.index()));
        for &(at, e) in &order {
            host.run_until(Instant::ZERO + Nanos::ns(at));
            host.wake(e, Wake::Timer);
        }
        let end = self.latency + 4 * self.per_cpu() * self.slice();
        host.finish(Instant::ZERO + Nanos::ns(end));
        drop(host);
        let waits = order.iter().flat_map(|&(woken, e)| {
            let ends = std::iter::once(woken).chain(runs.of(e).iter().map(|run| run.1));
            let begins = runs.of(e).iter().map(|run| run.0).chain(std::iter::once(end));
            ends.zip(begins).map(|(from, to)| to - from)
        });
        (waits.max().expect("there are some"), slices.0)
    }
}

/// Equation 2, `WCSL = (NV − 1) · S`, equation 3, `L ≥ WCSL`, and equation 4, which defines `S`. A vCPU that wakes is
/// enqueued behind at most `NV − 1` others.
#[test]
fn equations_2_to_4_bound_the_wait_of_a_vcpu() {
    let (mut attained, mut short, mut long) = (0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let set = Spread::draw(&mut Dice::new(seed));
        for name in ["poris", "rs"] {
            let mut changes = ONE_PRIORITY.to_vec();
            changes.push(("woken", "boost"));
            let (wait, slices) = set.run(name, &changes);
            let worst = (set.per_cpu() - 1) * set.slice();
            assert!(slices.iter().all(|&slice| slice == set.slice()), "seed {seed}, {name}: {set:?}: {slices:?}");
            assert!(wait <= worst, "seed {seed}, {name}: {set:?}: a wait of {wait} ns; the bound is {worst} ns");
            if set.marked > 0 && set.per_cpu() > 1 {
                assert!(worst <= set.latency, "seed {seed}, {name}: {set:?}: equation 3");
                short += 1;
            } else {
                long += 1;
            }
            attained += u64::from(wait == worst && worst > 0);
        }
    }
    println!("{short} runs with short slices, {long} with long slices; the wait of equation 2 occurs in {attained}");
    assert!(short > SETS && long > SETS / 8 && attained > SETS / 2, "{short}, {long}, {attained}");
}

/// Checks that the test above can fail. The long time slices of `credit` exceed the latency.
#[test]
fn credit_exceeds_the_latency_of_equation_3() {
    let mut beyond = 0;
    for seed in (first_seed()..).take(SETS as usize / 4) {
        let set = Spread::draw(&mut Dice::new(seed));
        let (wait, _) = set.run("credit", &ONE_PRIORITY);
        beyond += u64::from(wait > set.latency);
    }
    assert!(beyond > SETS / 8, "only {beyond} of {} sets exceed the latency", SETS / 4);
}

/// Under the defaults, equation 2 does not hold: vCPUs of other VMs that stay BOOST until a tick run ahead of a marked
/// vCPU that has used its time slice.
#[test]
fn boosts_violate_equation_2() {
    let mut beyond = 0;
    for seed in (first_seed()..).take(SETS as usize / 4) {
        let set = Spread::draw(&mut Dice::new(seed));
        beyond += u64::from(set.run("poris", &[]).0 > (set.per_cpu() - 1) * set.slice());
    }
    println!("{beyond} of {} sets exceed equation 2 under the defaults", SETS / 4);
    assert!(beyond > SETS / 40, "only {beyond} of {} sets exceed equation 2", SETS / 4);
}

// ---- Groups ----

/// A group of VMs on a host, with hogs that fill every CPU up to `per_cpu` vCPUs.
#[derive(Clone, Debug)]
struct Group {
    cpus: u64,
    /// Numbers of vCPUs of the VMs.
    vms: Vec<u64>,
    per_cpu: u64,
    /// T_round, in nanoseconds.
    round: u64,
    /// L, in nanoseconds.
    latency: u64,
}

impl Group {
    fn draw(dice: &mut Dice) -> Group {
        let cpus = 2 + dice.below(4);
        let vms: Vec<u64> = if dice.one_in(2) {
            // Subgroups that use all CPUs.
            let one = |dice: &mut Dice| {
                let first = 1 + dice.below(cpus);
                [first, cpus - first]
            };
            (0..1 + dice.below(3)).flat_map(|_| one(dice)).filter(|&size| size > 0).collect()
        } else {
            (0..2 + dice.below(5)).map(|_| 1 + dice.below(cpus)).collect()
        };
        let mut group = Group { cpus, vms, per_cpu: 0, round: 50_000 + dice.below(1_000_000), latency: 0 };
        group.per_cpu = (group.subgroups().len() as u64 + dice.below(3)).max(2);
        // S has a whole number of rounds, except in every third set.
        let slice = group.round * (2 + dice.below(6)) + if dice.one_in(3) { dice.below(group.round) } else { 0 };
        group.latency = slice * (group.per_cpu - 1);
        group
    }

    fn slice(&self) -> u64 {
        self.latency / (self.per_cpu - 1)
    }

    fn vcpus(&self) -> u64 {
        self.vms.iter().sum()
    }

    /// The number of subgroups in equations 6 and 7.
    fn printed_subgroups(&self) -> u64 {
        self.vcpus().div_ceil(self.cpus)
    }

    /// Returns the VMs of each subgroup: first-fit decreasing, VMs of equal size in order.
    fn subgroups(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.vms.len()).collect();
        order.sort_by_key(|&vm| std::cmp::Reverse(self.vms[vm]));
        let mut bins: Vec<(u64, Vec<usize>)> = Vec::new();
        for vm in order {
            match bins.iter_mut().find(|bin| bin.0 + self.vms[vm] <= self.cpus) {
                Some(bin) => {
                    bin.0 += self.vms[vm];
                    bin.1.push(vm);
                }
                None => bins.push((self.vms[vm], vec![vm])),
            }
        }
        bins.into_iter().map(|bin| bin.1).collect()
    }

    /// Returns whether every subgroup has a vCPU on every CPU.
    fn is_full(&self) -> bool {
        self.vcpus() == self.subgroups().len() as u64 * self.cpus
    }

    /// Runs the host from the wake-up of all vCPUs at 0, in a random order. Returns the runs that each vCPU of each VM
    /// begins within `length` from the first run of a vCPU of the group.
    fn run(&self, name: &str, round: u64, length: u64, dice: &mut Dice) -> Vec<Vec<Vec<(u64, u64)>>> {
        let policy = policy(name);
        let (latency, round, slice) = (self.latency.to_string(), round.to_string(), self.slice().to_string());
        let takes = |knob: &str| policy.knobs.iter().any(|own| own.name == knob);
        let own = [("latency", latency.as_str()), ("woken", "boost"), ("round", &round)];
        let mut changes = ONE_PRIORITY.to_vec();
        changes.extend(own.into_iter().filter(|(knob, _)| takes(knob)));
        // A policy without short time slices receives the same time slice as a knob.
        changes.extend((!takes("latency")).then_some(("slice", slice.as_str())));
        let knobs = knobs(policy, &changes);
        let mut runs = Runs::default();
        let topology = Topology::new(usize::try_from(self.cpus).expect("few"));
        let mut host = Driver::new(policy, topology, &knobs, Costs::NONE).expect("these knobs go together");
        host.watch(&mut runs);
        let gang = host.create_group("group", GroupParams { gang: true, ..GroupParams::default() }, GroupId::ROOT);
        let gang = gang.expect("every group is accepted");
        // A policy that does not place the vCPUs receives them pinned, with equal numbers on all CPUs.
        let mut numbers = 0..;
        let mut affinity =
            || if takes("round") { CpuSet::ALL } else { pinned(numbers.next().expect("endless") % self.cpus) };
        let mut vms = Vec::new();
        for &size in &self.vms {
            let affinities: Vec<CpuSet> = (0..size).map(|_| affinity()).collect();
            vms.push(vm(&mut host, gang, false, &affinities));
        }
        let mut all: Vec<EntityId> = vms.concat();
        let places: Vec<CpuSet> = all.iter().map(|&e| host.machine().allowed(e)).collect();
        for cpu in 0..self.cpus {
            let members = places.iter().filter(|&&place| place == pinned(cpu)).count();
            let hogs = vec![pinned(cpu); usize::try_from(self.per_cpu).expect("few") - members];
            all.extend(vm(&mut host, GroupId::ROOT, false, &hogs));
        }
        while !all.is_empty() {
            let at = usize::try_from(dice.below(all.len() as u64)).expect("few");
            host.wake(all.swap_remove(at), Wake::Timer);
        }
        host.finish(Instant::ZERO + Nanos::ns(self.per_cpu * self.slice() + length));
        drop(host);
        let begins = vms.iter().flatten().filter_map(|&e| runs.of(e).first()).map(|run| run.0);
        let first = begins.min().expect("a vCPU runs");
        let of = |&e: &EntityId| {
            let within = runs.of(e).iter().filter(|run| run.0 < first + length);
            within.map(|run| (run.0 - first, run.1 - first)).collect()
        };
        vms.iter().map(|vm| vm.iter().map(of).collect()).collect()
    }
}

/// Returns Csync: the largest difference between the ends of two VMs in a round. In round `n`, every vCPU runs for the
/// `n`-th time.
fn sync_delay(vms: &[Vec<Vec<(u64, u64)>>]) -> u64 {
    let rounds = vms.iter().flatten().map(Vec::len).min().expect("there are some");
    let delay = |n: usize| {
        let ends = vms.iter().map(|vm| vm.iter().map(|runs| runs[n].1).max().expect("a VM has vCPUs"));
        let (least, most) = ends.fold((u64::MAX, 0), |(least, most), end| (least.min(end), most.max(end)));
        most - least
    };
    (0..rounds).map(delay).max().expect("every vCPU runs once")
}

/// Returns the longest wait of a vCPU between two of its runs.
fn longest_wait(vms: &[Vec<Vec<(u64, u64)>>]) -> u64 {
    let waits = vms.iter().flatten().flat_map(|runs| runs.windows(2).map(|two| two[1].0 - two[0].1));
    waits.max().unwrap_or(0)
}

/// Equation 5, `Csync = (NV − 1) · S`, for vCPUs that are scheduled first come, first served.
#[test]
fn equation_5_bounds_the_synchronisation_delay_without_groups() {
    let mut attained = 0;
    for seed in (first_seed()..).take(SETS as usize) {
        let mut dice = Dice::new(seed);
        let set = Group::draw(&mut dice);
        for name in ["credit", "rs"] {
            let vms = set.run(name, 0, 3 * set.per_cpu * set.slice(), &mut dice);
            let (delay, bound) = (sync_delay(&vms), (set.per_cpu - 1) * set.slice());
            assert!(delay <= bound, "seed {seed}, {name}: {set:?}: a delay of {delay} ns; equation 5: {bound} ns");
            attained += u64::from(delay == bound);
        }
    }
    println!("the delay of equation 5 occurs in {attained} of {} runs", 2 * SETS);
    assert!(attained > SETS / 10, "only {attained} runs have the delay of equation 5");
}

/// Equation 6, `Csync = (⌈ΣC / P⌉ − 1) · S`, for groups whose subgroups alternate by whole time slices.
///
/// The derivation assumes `⌈ΣC / P⌉` subgroups that fill all CPUs. There can be more subgroups, because a VM is not
/// split: three VMs of two vCPUs on three CPUs have `⌈6 / 3⌉ = 2`, but form three subgroups. The bound still holds,
/// because the vCPUs of the subgroups are spread evenly, so no CPU has more than `⌈ΣC / P⌉` of them. But then the siblings
/// of a VM may run at different times. The delay equals the equation, and siblings run together, if the subgroups fill
/// all CPUs.
#[test]
fn equation_6_bounds_the_synchronisation_delay_of_a_group() {
    let (mut full, mut split, mut apart, mut single) = (0, 0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let mut dice = Dice::new(seed);
        let set = Group::draw(&mut dice);
        let (k, slice) = (set.subgroups().len() as u64, set.slice());
        let vms = set.run("poris", slice + 1, k * slice, &mut dice);
        // Within the time slices of one call, every vCPU of the group runs for one time slice.
        let has_one_slice = |runs: &Vec<(u64, u64)>| matches!(runs[..], [(from, to)] if to - from == slice);
        assert!(vms.iter().flatten().all(has_one_slice), "seed {seed}: {set:?}: {vms:?}");
        let (delay, printed) = (sync_delay(&vms), (set.printed_subgroups() - 1) * slice);
        assert!(delay <= printed, "seed {seed}: {set:?}: a delay of {delay} ns; equation 6: {printed} ns");
        split += u64::from(k > set.printed_subgroups());
        single += u64::from(k == 1);
        if set.is_full() {
            assert_eq!(delay, printed, "seed {seed}: {set:?}");
            assert_siblings_run_together(&set, &vms, seed);
            full += 1;
        } else {
            apart += u64::from(vms.iter().any(|vm| vm.iter().any(|runs| *runs != vm[0])));
        }
    }
    println!(
        "{full} full packings, {single} single subgroups; {split} sets with more than ⌈ΣC / P⌉; siblings apart in {apart}"
    );
    assert!(full > SETS / 4 && single > SETS / 20, "{full}, {single}");
    assert!(split > SETS / 200 && apart > SETS / 50, "{split}, {apart}");
}

/// Equation 7, `Csync = (⌈ΣC / P⌉ − 1) · T_round`, for subgroups that alternate in short rounds.
///
/// No vCPU of a called group waits longer than the equation between two of its rounds. The delay between VMs in a round
/// equals the equation if the subgroups fill all CPUs. Otherwise CPUs with fewer members complete their rounds sooner,
/// and the delay grows from round to round, beyond the equation. Every vCPU runs `⌊S / T_round⌋` rounds, so its total
/// execution time is `S` only if `T_round` divides `S`.
#[test]
fn equation_7_bounds_the_synchronisation_delay_of_rounds() {
    let (mut full, mut uneven, mut whole) = (0, 0, 0);
    for seed in (first_seed()..).take(SETS as usize) {
        let mut dice = Dice::new(seed);
        let set = Group::draw(&mut dice);
        let (k, slice, round) = (set.subgroups().len() as u64, set.slice(), set.round);
        // A group of one subgroup has no rounds.
        let total = if k == 1 { slice } else { slice / round * round };
        let vms = set.run("poris", round, k * total, &mut dice);
        let ran = |runs: &Vec<(u64, u64)>| runs.iter().map(|run| run.1 - run.0).sum::<u64>();
        assert!(vms.iter().flatten().all(|runs| ran(runs) == total), "seed {seed}: {set:?}: {vms:?}");
        let (wait, printed) = (longest_wait(&vms), (set.printed_subgroups() - 1) * round);
        assert!(wait <= printed, "seed {seed}: {set:?}: a wait of {wait} ns; equation 7: {printed} ns");
        whole += u64::from(total == slice);
        if set.is_full() {
            assert_eq!((sync_delay(&vms), wait), (printed, printed), "seed {seed}: {set:?}: {vms:?}");
            assert_siblings_run_together(&set, &vms, seed);
            full += 1;
        } else {
            uneven += u64::from(sync_delay(&vms) > printed);
        }
    }
    println!("{full} full packings; in {uneven} others the delay exceeds equation 7; {whole} sets run for all of S");
    assert!(full > SETS / 4 && uneven > SETS / 50 && whole > SETS / 4, "{full}, {uneven}, {whole}");
}

/// Asserts that all vCPUs of each subgroup have the same runs.
fn assert_siblings_run_together(set: &Group, vms: &[Vec<Vec<(u64, u64)>>], seed: u64) {
    for subgroup in set.subgroups() {
        let mut members = subgroup.iter().flat_map(|&vm| &vms[vm]);
        let first = members.next().expect("a subgroup has members");
        assert!(members.all(|runs| runs == first), "seed {seed}: {set:?}: {subgroup:?}: {vms:?}");
    }
}

/// Checks that the tests of equations 6 and 7 can fail. Without groups, the delay of most sets exceeds the equations.
#[test]
fn other_policies_exceed_equations_6_and_7() {
    let (mut beyond_6, mut beyond_7) = (0, 0);
    for seed in (first_seed()..).take(SETS as usize / 4) {
        let mut dice = Dice::new(seed);
        let set = Group::draw(&mut dice);
        let subgroups = set.printed_subgroups();
        let vms = set.run("rs", 0, 3 * set.per_cpu * set.slice(), &mut dice);
        beyond_6 += u64::from(sync_delay(&vms) > (subgroups - 1) * set.slice());
        beyond_7 += u64::from(sync_delay(&vms) > (subgroups - 1) * set.round);
    }
    println!("of {} sets, {beyond_6} exceed equation 6 and {beyond_7} exceed equation 7 under rs", SETS / 4);
    assert!(beyond_6 > SETS / 16 && beyond_7 > SETS / 8, "{beyond_6} and {beyond_7} sets");
}
