//! Random worlds: hosts and guests under random policies, tasks that follow programs, arrivals and departures. Five
//! checks evaluate each world: the [`WorldAuditor`], the machines' own assertions, a replay of each machine, the
//! construction of a timeline, and a second run.

use super::dice::Dice;
use super::flows::{self, Net};
use super::options::draw_knobs;
use super::outcome::catch_panic;
use super::programs::{application, asked};
use coordination::{Boost, Coordination, Protocol, Rule};
use rustc_hash::FxHasher;
use sched::{
    CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Instant, Knobs, Nanos, Params, RtPriority, Topology,
    Weight,
};
use sim::auditor::{Promises, WorldAuditor};
use sim::guest::{HaltPolling, PauseLoop, Spinning, Steal};
use sim::{Costs, Guest, Periodic, Workload, World};
use std::fmt;
use std::hash::{Hash, Hasher};
use trace::replay::Replay;
use trace::{Event, Header, MachineHeader, MachineId, Sink, WorldHeader, WorldSink, WorldTimelineBuilder};

/// The parameters of a run of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldOptions {
    /// Seed of all random values.
    pub seed: u64,
    /// Length of the run.
    pub length: Nanos,
}

impl WorldOptions {
    /// Returns the options that this seed determines.
    #[must_use]
    pub fn draw(seed: u64) -> WorldOptions {
        WorldOptions { seed, length: Nanos::ms(20 + Dice::new(seed).below(400)) }
    }
}

impl fmt::Display for WorldOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorldOptions { seed, length } = self;
        write!(
            f,
            "a world for {length}\nreplay: cargo xtask fuzz --worlds --seed {seed} --length-ns {}",
            length.as_ns()
        )
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorldStats {
    /// Number of inputs of all machines, without freezes and thaws.
    pub inputs: u64,
    /// Hash over all events.
    pub events: u64,
}

/// Runs a world with these options twice, and checks both runs.
///
/// # Errors
/// A law is broken. The error describes the law and contains the options of the shortest failing run found.
pub fn check_world(options: WorldOptions) -> Result<WorldStats, String> {
    attempt(options).map_err(|what| {
        let (mut shortest, mut what) = (options, what);
        let mut step = options.length.as_ns() / 2;
        while step > 10_000 {
            let length = shortest.length.saturating_sub(Nanos::ns(step)).max(Nanos::us(1));
            match attempt(WorldOptions { length, ..options }) {
                Err(shorter) => (shortest.length, what) = (length, shorter),
                Ok(_) => step /= 2,
            }
            step = step.min(shortest.length.as_ns() / 2);
        }
        format!("{what}\n{shortest}")
    })
}

fn attempt(options: WorldOptions) -> Result<WorldStats, String> {
    let first = once(options)?;
    let second = once(options)?;
    if first == second { Ok(first) } else { Err("law 10: two runs of the same world differ".to_string()) }
}

fn once(options: WorldOptions) -> Result<WorldStats, String> {
    catch_panic(|| run(options))
}

/// A hash over all events.
#[derive(Default)]
struct EventHash(FxHasher);

impl WorldSink for EventHash {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        (machine, at, event).hash(&mut self.0);
    }
}

fn run(options: WorldOptions) -> Result<WorldStats, String> {
    let mut dice = Dice::new(options.seed);
    dice.below(2);
    let (mut auditor, mut hash) = (WorldAuditor::new(), EventHash::default());
    let drawn = Drawn::draw(&mut dice);
    let mut timeline = WorldTimelineBuilder::new(&drawn.header(options.seed));
    for machine in &drawn.machines {
        auditor.add(machine.cpus, Promises::NONE, &machine.costs);
        if let Some((_, Guest { coordination: Some(with), .. })) = machine.guest {
            auditor.coordinates(with);
        }
    }
    let mut replays = Replays(drawn.machines.iter().map(|machine| Replay::new(machine.build())).collect());
    let mut world = World::new(options.seed);
    world.watch_all(&mut auditor);
    world.watch_all(&mut replays);
    world.watch_all(&mut hash);
    world.watch_all(&mut timeline);
    let mut population = Population::default();
    drawn.build(&mut world, &mut population, &mut dice);
    let net = dice.one_in(2).then(|| flows::lay(&mut world, &mut dice));
    connect(&mut world, &mut population, net.as_ref(), &mut dice);
    let end = Instant::ZERO + options.length;
    while world.now() < end {
        let next = world.now().saturating_add(Nanos::us(1) + dice.span(Nanos::ms(20))).min(end);
        world.run_until(next).map_err(|stuck| stuck.to_string())?;
        disturb(&mut world, &mut population, &mut dice);
        if dice.one_in(8) {
            connect(&mut world, &mut population, net.as_ref(), &mut dice);
        }
    }
    world.finish(end).map_err(|stuck| stuck.to_string())?;
    let inputs = world.inputs();
    drop(world);
    timeline.finish().map_err(|error| format!("it has no timeline: {error}"))?;
    for (number, replay) in replays.0.into_iter().enumerate() {
        replay.finish().map_err(|divergence| format!("machine m{number} does not replay: {divergence}"))?;
    }
    match auditor.findings().first() {
        None => Ok(WorldStats { inputs, events: hash.0.finish() }),
        Some((machine, finding)) => {
            let on = machine.map_or(String::new(), |machine| format!(" on {machine}"));
            Err(format!("{finding}{on}"))
        }
    }
}

/// The replays of all machines.
struct Replays(Vec<Replay>);

impl WorldSink for Replays {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        self.0[machine.index()].record(at, event);
    }
}

/// The entities and applications that may be changed or removed.
#[derive(Default)]
struct Population {
    visitors: Vec<(MachineId, EntityId)>,
    vcpus: Vec<(MachineId, EntityId)>,
    applications: Vec<(MachineId, u32)>,
}

/// If the world has a network, adds one to three flows, each from one random machine to another or to itself.
fn connect(world: &mut World<'_>, population: &mut Population, net: Option<&Net>, dice: &mut Dice) {
    let Some(net) = net else { return };
    for _ in 0..1 + dice.below(3) {
        population.applications.extend(flows::flow(world, net, dice));
    }
}

/// Attaches, removes or changes a random entity, starts or stops an application, or does nothing.
fn disturb(world: &mut World<'_>, population: &mut Population, dice: &mut Dice) {
    let Population { visitors, vcpus, applications } = population;
    let machine = MachineId(u32::try_from(dice.below(world.machines() as u64)).expect("there are few"));
    match dice.below(8) {
        0 if visitors.len() < 20 => {
            let workload = if dice.one_in(2) { Workload::Hog } else { jobs(dice) };
            if let Ok(entity) = world.attach(machine, "visitor", asked(dice), workload) {
                visitors.push((machine, entity));
            }
        }
        1 if !visitors.is_empty() => {
            let at = usize::try_from(dice.below(visitors.len() as u64)).expect("an index fits");
            let (machine, entity) = visitors.swap_remove(at);
            world.detach(machine, entity);
        }
        2 => {
            if let Some((machine, entity)) = dice.choose(visitors) {
                let _ = world.adjust(machine, entity, asked(dice));
            }
        }
        3 if !vcpus.is_empty() => {
            let (machine, entity) = dice.choose(vcpus).expect("there is one");
            let old = *world.machine(machine).machine().params(entity);
            let _ = world.adjust(machine, entity, Params { group: old.group, affinity: old.affinity, ..asked(dice) });
        }
        4 if !applications.is_empty() && dice.one_in(3) => {
            let at = usize::try_from(dice.below(applications.len() as u64)).expect("an index fits");
            let (machine, application) = applications.swap_remove(at);
            world.stop(machine, application);
        }
        5 if applications.len() < 8 => begin(world, population, machine, dice),
        _ => {}
    }
}

fn jobs(dice: &mut Dice) -> Workload {
    let period = Nanos::us(200) + dice.span(Nanos::ms(20));
    let work = Nanos::ns(1 + period.as_ns() / (2 + dice.below(20)));
    let phase = dice.span(Nanos::ms(5));
    Workload::Periodic(Periodic { phase, ..Periodic::new(period, work) })
}

/// The random parameters of one machine.
struct Machine {
    policy: &'static Descriptor,
    knobs: Knobs,
    cpus: Topology,
    costs: Costs,
    /// Host and configuration of a guest; `None`: the machine is a host.
    guest: Option<(u32, Guest)>,
}

impl Machine {
    /// Builds a machine that equals the machine in the world.
    fn build(&self) -> sched::Machine {
        let kicks = if self.costs.kick.is_zero() { sched::Kicks::Immediate } else { sched::Kicks::Delivered };
        sched::Machine::build(self.policy, self.cpus, &self.knobs, kicks).expect("it was tried")
    }
}

/// The random parameters of all machines of a world.
struct Drawn {
    machines: Vec<Machine>,
}

impl Drawn {
    fn draw(dice: &mut Dice) -> Drawn {
        let mut machines = Vec::new();
        let costs = costs(dice);
        let hosts = 1 + dice.below(2);
        for _ in 0..hosts {
            let cpus = Topology::new(dice.choose(&[1, 2, 4]).expect("there are three"));
            let policy = policy(dice, &cpus);
            let drawn = draw_knobs(policy, &cpus, dice);
            let knobs = if has_room(policy, &cpus, &drawn) { drawn } else { policy.defaults() };
            machines.push(Machine { policy, knobs, cpus, costs, guest: None });
        }
        for _ in 0..1 + dice.below(4) {
            let cpus = Topology::new(dice.choose(&[1, 1, 2, 4]).expect("there are four"));
            let on = u32::try_from(dice.below(hosts)).expect("there are few");
            let policy = policy(dice, &cpus);
            let knobs = draw_knobs(policy, &cpus, dice);
            machines.push(Machine { policy, knobs, cpus, costs, guest: Some((on, kind(dice))) });
        }
        Drawn { machines }
    }

    fn header(&self, seed: u64) -> WorldHeader {
        let machine = |Machine { policy, cpus, guest, .. }: &Machine| MachineHeader {
            name: String::new(),
            header: Header { policy: policy.name.to_string(), cpus: cpus.cpus, seed },
            host: guest.as_ref().map(|(host, _)| MachineId(*host)),
        };
        WorldHeader { machines: self.machines.iter().map(machine).collect() }
    }

    fn build(&self, world: &mut World<'_>, population: &mut Population, dice: &mut Dice) {
        for machine in &self.machines {
            let Machine { policy, knobs, cpus, costs, guest } = machine;
            let id = match guest {
                None => world.add_host("host", *policy, *cpus, knobs, *costs).expect("it was tried"),
                Some((host, kind)) => {
                    let host = MachineId(*host);
                    let vcpus = vcpus(world, host, cpus.cpus, dice);
                    population.vcpus.extend(vcpus.iter().map(|&vcpu| (host, vcpu)));
                    world.add_guest(host, "vm", &vcpus, *policy, *cpus, knobs, *kind, *costs).expect("it was tried")
                }
            };
            populate(world, population, id, guest.is_some(), dice);
        }
    }
}

/// Returns whether the policy admits 64 entities with default parameters. Some knobs give every entity a reservation,
/// so that the policy may refuse some of the entities.
fn has_room(policy: &Descriptor, host: &Topology, knobs: &Knobs) -> bool {
    let Ok(mut machine) = sched::Machine::build(policy, *host, knobs, sched::Kicks::Immediate) else { return false };
    (0..64).all(|_| machine.attach(Instant::ZERO, Params::default()).is_ok())
}

fn policy(dice: &mut Dice, host: &Topology) -> &'static Descriptor {
    loop {
        let policy = dice.choose(policies::ALL).expect("there are policies");
        if (policy.build)(host, &policy.defaults()).is_ok() {
            return policy;
        }
    }
}

fn costs(dice: &mut Dice) -> Costs {
    let mut cost = |most: u64| if dice.one_in(2) { Nanos::ZERO } else { Nanos::us(dice.below(most)) };
    Costs {
        context_switch: cost(10),
        cache_refill: cost(30),
        kick: cost(5),
        tick: cost(4),
        timer_resolution: cost(1_000),
        timer_slack: cost(60),
        exit: cost(4),
        hypercall: cost(2),
        ..Costs::NONE
    }
}

fn kind(dice: &mut Dice) -> Guest {
    let spinning = match dice.below(3) {
        0 => Spinning::Ticket,
        1 => Spinning::Unfair,
        _ => Spinning::Paravirt { limit: Nanos::us(1 + dice.below(40)) },
    };
    Guest {
        spinning,
        steal: if dice.one_in(2) { Steal::Hidden } else { Steal::Known },
        shows_preempted: dice.one_in(2),
        idle_polls: dice.one_in(8),
        halt_polling: if dice.one_in(2) { HaltPolling::OFF } else { HaltPolling::KVM },
        pause_loop: dice.one_in(2).then(|| PauseLoop { window: Nanos::us(1 + dice.below(30)) }),
        spin_report: dice.one_in(2).then(|| Nanos::us(dice.below(500))),
        coordination: dice.one_in(2).then(|| coordination(dice)),
    }
}

/// Returns a random coordination. Its boosts may be less urgent than, as urgent as or more urgent than the permanent
/// parameters of a vCPU.
fn coordination(dice: &mut Dice) -> Coordination {
    let (_, protocol) = dice.choose(&Protocol::ALL).expect("there are some");
    let (_, detector) = dice.choose(&Rule::ALL).expect("there are some");
    let class = |round_robin, priority| Boost::Class { round_robin, priority: RtPriority::new(priority).expect("few") };
    let boost = match dice.below(3) {
        0 => class(true, dice.choose(&[8, 10, 30]).expect("there are three")),
        1 => class(false, dice.choose(&[8, 10, 30]).expect("there are three")),
        _ => Boost::Weight(Weight::nice(dice.choose(&[-17, -5, 0]).expect("there are three")).expect("it is in range")),
    };
    let interrupt = if dice.one_in(2) { boost } else { class(false, 3).within(boost) };
    let window = Nanos::us(1) + dice.span(Nanos::ms(30));
    let limit = Nanos::us(1) + dice.span(Nanos::ms(10));
    Coordination {
        detector,
        boost,
        interrupt,
        budget: Nanos::us(1) + dice.span(window).saturating_sub(Nanos::us(1)),
        window,
        limit,
        preempt_limit: Nanos::us(1) + dice.span(limit),
        tick: Nanos::us(10) + dice.span(Nanos::ms(4)),
        ..Coordination::new(protocol)
    }
}

fn vcpus(world: &mut World<'_>, host: MachineId, count: usize, dice: &mut Dice) -> Vec<EntityId> {
    let params = GroupParams { gang: dice.one_in(2), ..GroupParams::default() };
    let group = world.create_group(host, "vm", params, GroupId::ROOT).unwrap_or(GroupId::ROOT);
    let cpus = world.machine(host).machine().topology().cpus;
    let pinned = dice.one_in(4);
    let vcpu = |cpu: usize| {
        let affinity = if pinned { CpuSet::one(CpuId::new(cpu % cpus)) } else { CpuSet::ALL };
        let plain = Params { group, affinity, ..Params::default() };
        // Some vCPUs permanently have a real-time class, or a weight other than the default.
        let drawn = if dice.one_in(2) { Params { group, affinity, ..asked(dice) } } else { plain };
        let given = world.attach(host, "vcpu", drawn, Workload::Vcpu);
        given.unwrap_or_else(|_| world.attach(host, "vcpu", plain, Workload::Vcpu).expect("a vCPU asks for nothing"))
    };
    (0..count).map(vcpu).collect()
}

/// Attaches the initial entities of a machine, and starts its initial applications.
fn populate(world: &mut World<'_>, population: &mut Population, machine: MachineId, is_guest: bool, dice: &mut Dice) {
    for _ in 0..dice.below(3) {
        let _ = world.attach(machine, "jobs", asked(dice), jobs(dice));
    }
    if dice.one_in(3) {
        let _ = world.attach(machine, "hog", asked(dice), Workload::Hog);
    }
    for _ in 0..if is_guest { 1 + dice.below(3) } else { dice.below(2) } {
        begin(world, population, machine, dice);
    }
}

/// Starts another application.
fn begin(world: &mut World<'_>, population: &mut Population, machine: MachineId, dice: &mut Dice) {
    let application = application(dice);
    if let Ok((number, _)) = world.start(machine, &application, GroupId::ROOT) {
        population.applications.push((machine, number));
    }
}
