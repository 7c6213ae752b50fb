//! A trace that was written and read back replays: the inputs of a machine yield the same actions on a fresh machine.
//! The tests cover every policy, both on a host and in a guest.

use sched::{
    Action, Descriptor, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, Machine, Nanos, Params, Quota,
    Reservation, Topology, Weight,
};
use sim::guest::{HaltPolling, PauseLoop, Spinning, Steal};
use sim::program::{Length, Object, ObjectId, Step, TaskSpec};
use sim::{Application, Costs, Guest, JobEnd, Periodic, Workload, World};
use trace::replay::{Divergence, replay};
use trace::{Event, Header, MachineHeader, MachineId, Trace, WorldHeader, WorldTextWriter, WorldTrace, text};

const CPUS: usize = 2;
const HOST: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);
/// Duration of the run of a world.
const LENGTH: Nanos = Nanos::ms(400);
const FREE: Costs = Costs::NONE;
const REAL: Costs = Costs {
    context_switch: Nanos::us(2),
    cache_refill: Nanos::us(3),
    kick: Nanos::us(1),
    tick: Nanos::ns(300),
    timer_slack: Nanos::us(50),
    exit: Nanos::us(1),
    hypercall: Nanos::us(1),
    ..Costs::NONE
};

fn run(us: u64) -> Step {
    Step::Run(Length::Fixed(Nanos::us(us)))
}

fn sleep(us: u64) -> Step {
    Step::Sleep(Length::Fixed(Nanos::us(us)))
}

fn repeat(body: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: None, body }]
}

/// Returns an application whose tasks contend for a mutex and a spin lock, sleep, and wake one another.
fn application() -> Application {
    let mut application = Application::default();
    let mutex = application.share("mutex", Object::Mutex);
    let spin = application.share("spin", Object::Spin);
    let items = application.share("items", Object::Semaphore { most: 4 });
    let locked = |lock: ObjectId, us| [Step::Lock(lock), run(us), Step::Unlock(lock)];
    let mut task = |name: &str, body: Vec<Step>| {
        let (name, steps) = (name.to_string(), repeat(body));
        application.tasks.push(TaskSpec { name, params: Params::default(), delay: Nanos::ZERO.into(), steps });
    };
    task("maker", [vec![run(300), Step::Post(items), sleep(700)], locked(mutex, 40).to_vec()].concat());
    task("taker", [vec![Step::Take(items), run(500)], locked(mutex, 60).to_vec()].concat());
    task("spinner", [vec![run(90)], locked(spin, 30).to_vec()].concat());
    task("other", [vec![run(110)], locked(spin, 50).to_vec(), vec![sleep(130)]].concat());
    application
}

/// Attaches an entity with a reservation, or without a reservation if the policy refuses the reservation. The trace
/// also records the refusal.
fn attach(world: &mut World<'_>, on: MachineId, name: &str, share: u64, workload: Workload) -> Option<EntityId> {
    let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::us(share * 100), Nanos::ms(10)) };
    let reserved = Params { reservation: Some(reservation), ..Params::default() };
    let attached = world.attach(on, name, reserved, workload);
    attached.or_else(|_| world.attach(on, name, Params::default(), workload)).ok()
}

/// Adds two hogs, an overloaded and a light periodic task, and an application in a group with a quota. If the policy
/// refuses the quota, the application is in the root group. Returns the entities of the hogs and periodic tasks.
fn populate(world: &mut World<'_>, on: MachineId) -> Vec<EntityId> {
    let overload = Periodic { end: JobEnd::Silent, ..Periodic::new(Nanos::ms(2), Nanos::us(2_100)) };
    let light = Periodic { phase: Nanos::us(250), end: JobEnd::Yield, ..Periodic::new(Nanos::ms(3), Nanos::us(400)) };
    let workloads = [Workload::Hog, Workload::Periodic(overload), Workload::Periodic(light), Workload::Hog];
    let attached = workloads.into_iter().zip(1..).filter_map(|(it, share)| attach(world, on, "task", share * 3, it));
    let attached = attached.collect();
    let quota = Some(Quota { quota: Nanos::ms(3), period: Nanos::ms(10) });
    let limited = GroupParams { quota, ..GroupParams::default() };
    let group = world.create_group(on, "group", limited, GroupId::ROOT);
    let _ = world.start(on, &application(), group.unwrap_or(GroupId::ROOT));
    attached
}

fn disturb(world: &mut World<'_>, on: MachineId, entities: &[EntityId], step: usize) {
    let Some(&entity) = entities.get(step % entities.len().max(1)) else { return };
    let weight = Weight::nice([-5, 0, 7][step % 3]).expect("it is a nice value");
    let greedy = Reservation::new(Nanos::ms(9), Nanos::ms(10));
    let reservation = step.is_multiple_of(2).then_some(greedy);
    let _ = world.adjust(on, entity, Params { weight, reservation, ..Params::default() });
    if step == 4 {
        world.detach(on, entity);
    }
}

/// Returns the trace of a host and a guest under `policy`, both with their own tasks.
fn world(policy: &'static Descriptor, costs: Costs, guest: Guest) -> WorldTrace {
    let machine = |name: &str, host| MachineHeader {
        name: name.to_string(),
        header: Header { policy: policy.name.to_string(), cpus: CPUS, seed: 7 },
        host,
    };
    let mut trace = WorldTrace::new(WorldHeader { machines: vec![machine("host", None), machine("vm", Some(HOST))] });
    let mut world = World::new(7);
    world.watch_all(&mut trace);
    let (topology, knobs) = (Topology::new(CPUS), policy.defaults());
    world.add_host("host", policy, topology, &knobs, costs).expect("every policy runs on two CPUs");
    let vcpus = (0..CPUS).filter_map(|cpu| attach(&mut world, HOST, &format!("vcpu{cpu}"), 30, Workload::Vcpu));
    let vcpus: Vec<EntityId> = vcpus.collect();
    world.add_guest(HOST, "vm", &vcpus, policy, topology, &knobs, guest, costs).expect("as the host");
    let mut entities = [HOST, GUEST].map(|on| populate(&mut world, on));
    for step in 0..8 {
        world.run_until(Instant::ZERO + Nanos::ms(40 * (step as u64 + 1))).expect("the tasks do not deadlock");
        for (on, entities) in [HOST, GUEST].into_iter().zip(&mut entities) {
            disturb(&mut world, on, entities, step);
            if step == 4 && !entities.is_empty() {
                entities.swap_remove(4 % entities.len());
            }
        }
    }
    world.finish(Instant::ZERO + LENGTH).expect("the tasks do not deadlock");
    drop(world);
    trace
}

fn reread(trace: &WorldTrace) -> WorldTrace {
    let mut writer = WorldTextWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    text::read_world(writer.finish().expect("memory takes it").as_slice()).expect("it is a trace")
}

fn machine(policy: &'static Descriptor, costs: Costs) -> Machine {
    let kicks = if costs.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
    Machine::build(policy, Topology::new(CPUS), &policy.defaults(), kicks).expect("every policy runs on two CPUs")
}

fn aware() -> Guest {
    Guest {
        spinning: Spinning::Paravirt { limit: Nanos::us(20) },
        steal: Steal::Known,
        shows_preempted: true,
        halt_polling: HaltPolling::KVM,
        spin_report: Some(Nanos::us(10)),
        ..Guest::default()
    }
}

fn spinning() -> Guest {
    Guest { spinning: Spinning::Unfair, pause_loop: Some(PauseLoop { window: Nanos::us(15) }), ..Guest::default() }
}

#[test]
fn a_written_trace_of_every_policy_replays_on_both_levels() {
    for &policy in policies::ALL {
        for (costs, guest) in [(FREE, Guest::default()), (FREE, spinning()), (REAL, aware())] {
            let trace = reread(&world(policy, costs, guest));
            for id in [HOST, GUEST] {
                let own = trace.of(id).expect("it is in the world");
                let actions = own.events.iter().filter(|(_, event)| matches!(event, Event::Action(_))).count();
                assert!(actions > 10, "{}: {id} takes {actions} actions", policy.name);
                let replayed = replay(machine(policy, costs), &own)
                    .unwrap_or_else(|divergence| panic!("{} on {id}: {divergence}", policy.name));
                assert!(replayed.now() <= Instant::ZERO + LENGTH);
            }
        }
    }
}

fn guest_trace(name: &str) -> Trace {
    let policy = policies::find(name).expect("it is registered");
    world(policy, REAL, aware()).of(GUEST).expect("it is in the world")
}

fn diverges(trace: &Trace) -> Result<Machine, Divergence> {
    replay(machine(policies::find(&trace.header.policy).expect("it is registered"), REAL), trace)
}

/// Returns the index of the first event that `fits` accepts.
fn place(trace: &Trace, fits: impl Fn(&Event) -> bool) -> usize {
    trace.events.iter().position(|(_, event)| fits(event)).expect("there is one")
}

#[test]
fn another_action_diverges_at_its_event() {
    let mut trace = guest_trace("eevdf");
    let at = place(&trace, |event| matches!(event, Event::Action(Action::Run { .. })));
    let Event::Action(Action::Run { until, .. }) = &mut trace.events[at].1 else { panic!("just found") };
    *until = Instant::at_ns(until.as_ns() - 1);
    let divergence = diverges(&trace).expect_err("the machine decides on another end");
    assert_eq!(divergence.number, at as u64 + 1);
    assert!(divergence.reason.starts_with("the trace has `run cpu="), "{divergence}");
}

#[test]
fn a_missing_action_and_an_extra_one_diverge() {
    let full = guest_trace("eevdf");
    let at = place(&full, |event| matches!(event, Event::Action(Action::Run { .. })));
    let mut missing = full.clone();
    missing.events.remove(at);
    let divergence = diverges(&missing).expect_err("the machine runs an entity");
    assert!(divergence.reason.contains("the machine `run cpu="), "{divergence}");
    let mut extra = full;
    let action = extra.events[at].clone();
    extra.events.insert(at, action);
    assert!(diverges(&extra).is_err());
}

#[test]
fn steal_time_decides_what_a_guest_does() {
    let mut trace = guest_trace("cfs");
    let mut stolen = 0;
    for (_, event) in &mut trace.events {
        if let Event::Input(Input::Thaw { stolen: time, .. }) = event {
            stolen += time.as_ns();
            *time = Nanos::ZERO;
        }
    }
    assert!(stolen > 0, "the guest learns of steal time");
    assert!(diverges(&trace).is_err(), "a guest without a steal clock decides otherwise");
}

#[test]
fn preemption_of_a_vcpu_is_part_of_the_trace_as_far_as_the_guest_learns_of_it() {
    let preempted = |guest: Guest| {
        let policy = policies::find("eevdf").expect("it is registered");
        let trace = world(policy, REAL, guest);
        let own = trace.of(GUEST).expect("it is in the world");
        own.events.iter().filter(|(_, it)| matches!(it, Event::Input(Input::Freeze { preempted: true, .. }))).count()
    };
    assert!(preempted(aware()) > 0);
    assert_eq!(preempted(Guest { shows_preempted: false, ..aware() }), 0);
}

#[test]
fn a_machine_with_other_cpus_is_refused() {
    let trace = guest_trace("eevdf");
    let policy = policies::find("eevdf").expect("it is registered");
    let other = Machine::build(policy, Topology::new(1), &policy.defaults(), Kicks::Delivered).expect("it runs on one");
    let divergence = replay(other, &trace).expect_err("it has one CPU");
    assert_eq!(divergence.to_string(), "event 0 at 0s: the trace has 2 CPUs, the machine 1");
}

/// The replay of a trace with a removed or repeated event succeeds or diverges, but never panics.
#[test]
fn damaged_traces_never_panic() {
    let full = guest_trace("credit");
    let mut diverged = 0;
    let length = full.events.len().min(600);
    for at in 0..length {
        let (mut shorter, mut longer) = (full.clone(), full.clone());
        shorter.events.truncate(length);
        longer.events.truncate(length);
        shorter.events.remove(at);
        let event = longer.events[at].clone();
        longer.events.insert(at, event);
        diverged += [shorter, longer].iter().filter(|trace| diverges(trace).is_err()).count();
    }
    assert!(diverged > length / 2, "{diverged} of {} diverge", 2 * length);
}
