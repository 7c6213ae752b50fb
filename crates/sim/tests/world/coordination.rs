//! Guests that coordinate with their host: one example under each protocol, the losses of other entities, and the
//! limits of a boost.

use crate::town::{FIRST, Log, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use coordination::{Boost, Coordinated, Coordination, Protocol, Rule};
use sched::{Action, Class, EntityId, GroupId, Instant, Nanos, Params, RtPriority, Topology, Weight};
use sim::guest::Steal;
use sim::program::{Object, Step, TimerMode};
use sim::{Costs, Guest, TaskSpec, Workload, World};
use trace::{Event, MachineId};

/// Cost of a hypercall: 2000 cycles at 2 GHz.
const CALL: Costs = Costs { hypercall: Nanos::us(1), ..Costs::NONE };

fn us(us: u64) -> Instant {
    Instant::ZERO + Nanos::us(us)
}

fn fifo(priority: u8) -> Class {
    Class::Fifo(RtPriority::new(priority).expect("it is in range"))
}

fn by(protocol: Protocol) -> Guest {
    Guest { coordination: Some(Coordination::new(protocol)), ..Guest::default() }
}

fn of_class(class: Class, it: TaskSpec) -> TaskSpec {
    TaskSpec { params: Params { class, ..it.params }, ..it }
}

/// Returns the classes that were requested for `entity`, with the instants of the requests in microseconds.
fn asked(log: &Log, machine: MachineId, entity: EntityId) -> Vec<(u64, String)> {
    let class = |params: &Params| match params.class {
        Class::RoundRobin(priority) => format!("rr {}", priority.number()),
        Class::Fifo(priority) => format!("fifo {}", priority.number()),
        _ => "normal".to_string(),
    };
    let adjusted = |(at, event): (Instant, Event)| match event {
        Event::Adjust { entity: changed, params } if changed == entity => Some((at.as_ns() / 1000, class(&params))),
        _ => None,
    };
    log.of(machine).into_iter().filter_map(adjusted).collect()
}

/// Runs the example: a host with one CPU, a hog and a vCPU. In the guest, the real-time task `urgent` runs from 0 to 10
/// us, sleeps, is woken at 100 us and runs until 200 us. The task `fair` is woken at 130 us, waits for `urgent`, works
/// for 100 us, and then holds a spin lock for 5 ms. Returns the requests for the vCPU, the totals of the coordination,
/// and all events.
fn example(kind: Guest) -> (Vec<(u64, String)>, Coordinated, Log) {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "linux", 1, CALL);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "linux", &all, kind, CALL);
    hog(&mut world, under, "hog");
    world.watch_all(&mut log);
    let beat = |us| Step::Timer { timer: 0, period: Nanos::us(us), mode: TimerMode::Absolute };
    let urgent = task("urgent", vec![run(Nanos::us(10)), beat(100), run(Nanos::us(100))]);
    let fair =
        vec![run(Nanos::us(100)), Step::Lock(FIRST), run(Nanos::ms(5)), Step::Unlock(FIRST), run(Nanos::ms(100))];
    let fair = TaskSpec { delay: Nanos::us(130).into(), ..task("fair", fair) };
    let tasks = vec![of_class(fifo(5), urgent), fair];
    world.start(vm, &application(&[("lock", Object::Spin)], tasks), GroupId::ROOT).expect("there is room");
    world.finish(at(9)).expect("no task waits");
    let came = world.coordinated(vm).expect("they coordinate");
    drop(world);
    (asked(&log, under, all[0]), came, log)
}

fn told(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    lines.iter().map(|&(at, what)| (at, what.to_string())).collect()
}

#[test]
fn the_worked_example_of_rfc_v1_goes_event_by_event() {
    let (asked, came, log) = example(by(Protocol::RfcV1));
    println!("{asked:?} {came:?}");
    assert_eq!(asked[..2], told(&[(0, "rr 8"), (200, "normal")]), "boosted until the guest ends it");
    // The tick at 1 ms is an interrupt for a waiting vCPU. The vCPU is boosted, but no task of its guest is urgent, so
    // the boost ends at once. At 2 ms the lock is held.
    assert_eq!(asked[2..4], told(&[(1_000, "rr 8"), (1_000, "normal")]));
    assert_eq!(
        asked[4..],
        told(&[(2_000, "rr 8"), (5_000, "normal")]),
        "for 3 ms of those for which preemption is disabled"
    );
    // At the timer interrupt at 100 us, the vCPU preempts the hog at once. Each of the two hypercalls costs 1 us.
    let host = log.of(MachineId(0));
    assert!(host.iter().any(|(at, event)| *at == us(100)
        && matches!(event, Event::Action(Action::Run { entity, .. }) if entity.index() == 0)));
    assert_eq!((came.hypercalls, came.cost, came.over_limit), (2, Nanos::us(2), 1));
}

#[test]
fn the_example_under_s0_asks_twice_and_leaves_the_boost_on_while_the_guest_sleeps() {
    let (asked, came, _) = example(by(Protocol::S0));
    // The boost begins at 0, when `urgent` runs. The boost stays in force while the guest sleeps, and ends when `fair`
    // runs.
    assert_eq!(asked, told(&[(0, "rr 8"), (200, "normal")]));
    assert_eq!((came.hints, came.hypercalls, came.cost), (2, 2, Nanos::us(2)));
}

#[test]
fn the_example_under_kiszka_reports_each_class_and_the_end_of_each_interrupt() {
    let (asked, came, _) = example(by(Protocol::Kiszka));
    println!("{asked:?} {came:?}");
    // An interrupt raises the vCPU to its maximum boost. After the interrupt, the vCPU has the class of the running
    // task: SCHED_FIFO 5.
    assert_eq!(asked[..4], told(&[(0, "rr 8"), (0, "fifo 5"), (100, "rr 8"), (100, "fifo 5")]));
    // The interrupt at 130 us is handled and reported within its instant, which requires a hypercall. The same holds
    // for the tick at 1 ms.
    assert_eq!(asked[4..], told(&[(202, "normal"), (1_000, "rr 8"), (1_000, "normal")]));
    assert_eq!((came.hypercalls, came.cost), (5, Nanos::us(5)));
}

#[test]
fn the_example_under_rfc_v2_goes_by_the_guests_record_and_by_exits_it_forces() {
    let (asked, came, _) = example(by(Protocol::RfcV2));
    println!("{asked:?} {came:?}");
    // The host reads the record when it injects an interrupt, when the vCPU halts, and at exits.
    assert_eq!(asked[..3], told(&[(0, "rr 8"), (10, "normal"), (100, "rr 8")]));
    assert_eq!(asked[3], (130, "fifo 5".to_string()), "the exit at 130 us reads what runs");
    // The guest forces an exit when `fair` runs. At the tick at 1 ms no task is urgent. At 2 ms the lock is held, which
    // justifies a boost for at most 3 ms.
    let forced = [(200, "normal"), (1_000, "rr 8"), (1_000, "normal")];
    assert_eq!((&asked[4..7], came.hypercalls), (&told(&forced)[..], 2));
    assert_eq!(asked[7..], told(&[(2_000, "rr 8"), (5_000, "normal")]));
    assert_eq!(came.over_limit, 1);
}

// ---- Losses of other entities ----

/// Runs a hog of the host for two seconds beside a VM with a hog and a task. The task wakes every 10.3 ms and works for
/// 200 us. Returns the CPU time of the host's hog, the maximum delay of the task after its first 20 wake-ups, and the
/// totals of the coordination. `params`: the requested parameters of the vCPU.
fn beside(params: Params, kind: Guest, policy: &str) -> (Nanos, Nanos, Option<Coordinated>) {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "linux", 1, CALL);
    let other = hog(&mut world, under, "hog");
    let vcpu = world.attach(under, "vcpu", params, Workload::Vcpu).expect("there is room");
    // The guest reads the steal clock, as under KVM. Most wake-ups of the task do not coincide with a tick.
    let kind = Guest { steal: Steal::Known, ..kind };
    let vm = guest(&mut world, under, policy, &[vcpu], kind, CALL);
    world.watch_all(&mut log);
    hog(&mut world, vm, "inside");
    let beat = Step::Timer { timer: 0, period: Nanos::us(10_300), mode: TimerMode::Skipping };
    let typing = task("typing", vec![forever(vec![beat, Step::Woke, run(Nanos::us(200))])]);
    world.start(vm, &application(&[], vec![typing]), GroupId::ROOT).expect("there is room");
    world.finish(at(2_000)).expect("no task waits for another");
    let late = world.coordinated(vm);
    drop(world);
    let mut had = Nanos::ZERO;
    let mut since = None;
    for (at, event) in log.of(under) {
        match event {
            Event::Action(Action::Run { entity, .. }) if entity == other => since = Some(at),
            Event::Action(Action::Stop { entity, .. }) if entity == other => {
                had += since.take().map_or(Nanos::ZERO, |since: Instant| at.since(since));
            }
            _ => {}
        }
    }
    had += since.map_or(Nanos::ZERO, |since| at(2_000).since(since));
    let lateness = |(_, event)| if let Event::Woke { late, .. } = event { Some(late) } else { None };
    // The detector needs several periods of the task until the task counts as interactive.
    let worst = log.of(vm).into_iter().filter_map(lateness).skip(20).max().expect("it woke");
    (had, worst, late)
}

#[test]
fn coordination_removes_the_tail_at_the_cost_of_a_fair_share_at_most_and_static_priority_takes_more() {
    let usual = Params::default();
    let (fair, late, none) = beside(usual, Guest::default(), "linux");
    assert_eq!(none, None);
    assert!(fair >= Nanos::ms(960) && late >= Nanos::ms(2), "half of the CPU, and a long tail: {fair} {late}");
    for (name, protocol) in Protocol::ALL {
        let (had, worst, came) = beside(usual, by(protocol), "linux");
        println!("{name}: the hog had {had}, the worst is {worst}; {came:?}");
        assert!(had >= Nanos::ms(960), "{name}: the host's hog had {had}, and {fair} without");
        assert!(worst <= Nanos::us(500), "{name}: {worst}, and {late} without");
    }
    let urgent = Params { class: Class::RoundRobin(RtPriority::new(8).expect("in range")), ..usual };
    let (had, worst, _) = beside(urgent, Guest::default(), "linux");
    assert!(had <= Nanos::ms(200), "static RT leaves the host its 5 % and little more: {had}");
    println!("static rr: {had} {worst}");
    let heavy = Params { weight: Weight::nice(-20).expect("in range"), ..usual };
    let (had, worst, _) = beside(heavy, Guest::default(), "linux");
    println!("static nice: {had} {worst}");
    assert!(had <= Nanos::ms(100), "static nice leaves the host its share by weight: {had}");
}

#[test]
fn every_detector_finds_typing_tasks_and_not_computing_tasks() {
    let own = [(Rule::Cfs, "cfs"), (Rule::Bmq, "bmq"), (Rule::Bfs, "bfs")];
    let any = [(Rule::Ule, "linux"), (Rule::Lavd, "linux"), (Rule::Ewma, "linux"), (Rule::Class, "linux")];
    for (rule, policy) in own.into_iter().chain(any) {
        let with = Coordination { detector: rule, ..Coordination::new(Protocol::S0) };
        let kind = Guest { coordination: Some(with), ..Guest::default() };
        let (_, worst, came) = beside(Params::default(), kind, policy);
        let Coordinated { boosts, boosted, .. } = came.expect("they coordinate");
        println!("{rule:?}: {boosts} boosts, {boosted}, the worst is {worst}");
        // The task works for about 40 ms in total; the hog in the guest works for a large part of a second. With a rule
        // that finds the task urgent, every interrupt causes a boost.
        let found = if rule == Rule::Class { boosts == 0 } else { boosts >= 20 };
        assert!(found, "{rule:?}: {boosts} boosts");
        assert!(boosted <= Nanos::ms(60), "{rule:?}: the hog was boosted: {boosted}");
    }
}

// ---- Limits of a boost ----

#[test]
fn a_guest_that_always_wants_its_boost_gets_its_budget_and_no_more() {
    for (name, protocol) in Protocol::ALL {
        let mut world = World::new(1);
        let under = host(&mut world, "linux", 1, Costs::NONE);
        hog(&mut world, under, "hog");
        let all = vcpus(&mut world, under, "vm", 1, false);
        let limit = Nanos::s(1);
        let with = Coordination { limit, ..Coordination::new(protocol) };
        let kind = Guest { coordination: Some(with), ..Guest::default() };
        let vm = guest(&mut world, under, "linux", &all, kind, Costs::NONE);
        world
            .attach(vm, "greedy", Params { class: fifo(90), ..Params::default() }, Workload::Hog)
            .expect("there is room");
        world.finish(at(1_000)).expect("hogs never wait");
        let came = world.coordinated(vm).expect("they coordinate");
        assert_eq!(came.boosted, Nanos::ms(200), "{name}: 20 ms in each of ten windows; {came:?}");
        assert_eq!((came.over_budget, came.over_limit), (10, 0), "{name}");
    }
}

#[test]
fn a_change_to_a_boosted_vcpu_takes_effect_when_the_boost_ends() {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "linux", 1, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "linux", &all, by(Protocol::S0), Costs::NONE);
    world.watch_all(&mut log);
    let urgent = of_class(fifo(5), task("urgent", vec![run(Nanos::ms(2))]));
    let fair = task("fair", vec![run(Nanos::ms(10))]);
    world.start(vm, &application(&[], vec![urgent, fair]), GroupId::ROOT).expect("there is room");
    world.run_until(at(1)).expect("no task waits");
    let heavy = Params { weight: Weight::nice(-5).expect("in range"), ..Params::default() };
    world.adjust(under, all[0], heavy).expect("it may");
    assert_eq!(world.machine(under).machine().params(all[0]).class.rt_priority(), RtPriority::new(8), "still boosted");
    world.run_until(at(3)).expect("no task waits");
    assert_eq!(*world.machine(under).machine().params(all[0]), heavy);
    world.finish(at(4)).expect("no task waits");
}

#[test]
fn where_the_host_has_no_classes_a_boost_is_a_weight() {
    let mut world = World::new(1);
    let policy = crate::town::policy("cfs");
    let under =
        world.add_host("host", policy, Topology::new(1), &policy.defaults(), Costs::NONE).expect("it works here");
    let all = vcpus(&mut world, under, "vm", 1, false);
    let nice = Boost::Weight(Weight::nice(-20).expect("in range"));
    let with = Coordination { boost: nice, interrupt: nice, ..Coordination::new(Protocol::S0) };
    let kind = Guest { coordination: Some(with), ..Guest::default() };
    let vm = guest(&mut world, under, "linux", &all, kind, Costs::NONE);
    let urgent = of_class(fifo(5), task("urgent", vec![forever(vec![run(Nanos::ms(1)), sleep(Nanos::ms(1))])]));
    world.start(vm, &application(&[], vec![urgent]), GroupId::ROOT).expect("there is room");
    world.run_until(at(1)).expect("no task waits");
    assert_eq!(world.machine(under).machine().params(all[0]).weight, Weight::nice(-20).expect("in range"));
    world.finish(at(2)).expect("no task waits");
    assert_eq!(world.coordinated(vm).map(|came| (came.boosts, came.refused)), Some((1, 0)));
}
