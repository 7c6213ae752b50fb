//! Halts, wake-ups, freezes and their costs.

use crate::town::{Log, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use measure::Meter;
use sched::{GroupId, Input, Instant, Nanos, Params};
use sim::guest::{HaltPolling, Steal};
use sim::program::Step;
use sim::{Costs, Guest, World};
use trace::Event;

const COSTS: Costs = Costs {
    context_switch: Nanos::us(5),
    cache_refill: Nanos::us(7),
    kick: Nanos::us(2),
    tick: Nanos::us(1),
    exit: Nanos::us(3),
    ..Costs::NONE
};

#[test]
fn a_vcpu_beside_a_hog_gets_half_and_its_tasks_share_that() {
    let (mut below, mut above) = (Meter::new(), Meter::new());
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, Costs::NONE);
    world.watch(under, &mut below);
    hog(&mut world, under, "hog");
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest { steal: Steal::Known, ..Guest::default() }, Costs::NONE);
    world.watch(vm, &mut above);
    hog(&mut world, vm, "a");
    hog(&mut world, vm, "b");
    world.finish(at(1000)).expect("hogs never wait");
    drop(world);
    let [outside, vcpu] = below.members() else { panic!("two were on the host") };
    assert!(outside.got.delivered.as_ns().abs_diff(500_000_000) < 10_000_000, "{}", outside.got.delivered);
    let inside: Nanos = above.members().iter().map(|task| task.got.delivered).sum();
    assert_eq!(inside, vcpu.got.delivered, "what the vCPU got is what its tasks got");
    let stolen: Nanos = above.members().iter().map(|task| task.got.stolen).sum();
    assert!(stolen.as_ns().abs_diff(outside.got.delivered.as_ns()) < 10_000_000, "the rest was stolen: {stolen}");
    for task in above.members() {
        assert!(task.got.delivered.as_ns().abs_diff(250_000_000) < 30_000_000, "{}", task.got.delivered);
    }
}

/// Returns an application with one task. In a loop, the task sleeps for 1 ms, records the delay of its wake-up, and
/// works for 100 us.
fn sleeper() -> sim::Application {
    application(&[], vec![task("sleeper", vec![forever(vec![sleep(Nanos::ms(1)), Step::Woke, run(Nanos::us(100))])])])
}

/// Runs the sleeper in a guest that is alone on its host. Returns the delays of the sleeper, the polling time of the
/// vCPU, and the number of dispatches on the host.
fn lateness(kind: Guest, costs: Costs) -> (Vec<Nanos>, Nanos, u64) {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, costs);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, kind, costs);
    world.watch_all(&mut log);
    world.start(vm, &sleeper(), GroupId::ROOT).expect("there is room");
    world.finish(at(20)).expect("it only sleeps");
    let polled = world.polled(vm, sched::CpuId::new(0));
    let dispatches = world.machine(under).counts().dispatches;
    drop(world);
    let late = log.events.iter().filter_map(|(_, _, event)| match event {
        Event::Woke { late, .. } => Some(*late),
        _ => None,
    });
    (late.collect(), polled, dispatches)
}

#[test]
fn a_wake_up_in_a_guest_costs_what_the_costs_say() {
    let (late, ..) = lateness(Guest::default(), Costs::NONE);
    assert_eq!(late.len(), 18);
    assert!(late.iter().all(|late| late.is_zero()), "nothing costs anything");
    // Each scheduler kicks its idle CPU, and the host enters the guest. No other entity has run on either CPU in the
    // meantime, so no context switch is needed.
    let (late, ..) = lateness(Guest::default(), COSTS);
    assert!(late.iter().all(|&late| late == COSTS.kick + COSTS.exit + COSTS.kick), "{late:?}");
    // A vCPU that polls does not wait for its host.
    let (late, ..) = lateness(Guest { idle_polls: true, ..Guest::default() }, COSTS);
    assert!(late.iter().all(|&late| late == COSTS.kick), "{late:?}");
}

#[test]
fn halt_polling_spares_the_host_a_wake_up_where_the_guest_is_quick() {
    let quick = |kind| {
        let mut world = World::new(1);
        let under = host(&mut world, "cfs", 1, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 1, false);
        let vm = guest(&mut world, under, "cfs", &all, kind, Costs::NONE);
        let naps = task("naps", vec![forever(vec![run(Nanos::us(50)), sleep(Nanos::us(100))])]);
        world.start(vm, &application(&[], vec![naps]), GroupId::ROOT).expect("there is room");
        world.finish(at(150)).expect("it only sleeps");
        (world.machine(under).counts().dispatches, world.polled(vm, sched::CpuId::new(0)))
    };
    let (without, none) = quick(Guest::default());
    assert_eq!((without, none), (1000, Nanos::ZERO), "it is woken a thousand times");
    let (with, polled) = quick(Guest { halt_polling: HaltPolling::KVM, ..Guest::default() });
    // The vCPU polls for 10, 20, 40 and 80 us without success. From then on, each sleep of 100 us ends during a poll of
    // up to 160 us.
    assert_eq!(with, 6);
    assert_eq!(polled, Nanos::us(10 + 20 + 40 + 80) + Nanos::us(100).saturating_mul(994));
}

#[test]
fn a_guest_that_knows_its_steal_time_does_not_charge_it() {
    let charged = |steal| {
        let mut world = World::new(1);
        let under = host(&mut world, "round-robin", 1, Costs::NONE);
        hog(&mut world, under, "hog");
        let all = vcpus(&mut world, under, "vm", 1, false);
        let vm = guest(&mut world, under, "cfs", &all, Guest { steal, ..Guest::default() }, Costs::NONE);
        let inside = hog(&mut world, vm, "inside");
        let mut at = Instant::ZERO + Nanos::ms(1000);
        world.run_until(at).expect("hogs never wait");
        while world.machine(vm).machine().is_frozen(sched::CpuId::new(0)) {
            at += Nanos::us(100);
            world.run_until(at).expect("hogs never wait");
        }
        // A change of parameters charges the entity first.
        world.adjust(vm, inside, Params { latency: Some(Nanos::ms(5)), ..Params::default() }).expect("that is nothing");
        world.machine(vm).machine().charged(inside).as_ns()
    };
    let (hidden, known) = (charged(Steal::Hidden), charged(Steal::Known));
    assert!(hidden.abs_diff(1_000_000_000) < 25_000_000, "hidden: {hidden}");
    assert!(known.abs_diff(500_000_000) < 25_000_000, "known: {known}");
}

#[test]
fn a_task_that_leaves_a_frozen_vcpu_is_detached_at_the_thaw() {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, Costs::NONE);
    hog(&mut world, under, "hog");
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), Costs::NONE);
    world.watch_all(&mut log);
    let inside = hog(&mut world, vm, "inside");
    let mut at = Instant::ZERO;
    while !world.machine(vm).machine().is_frozen(sched::CpuId::new(0)) || world.now() < Instant::ZERO + Nanos::ms(50) {
        at += Nanos::us(100);
        world.run_until(at).expect("hogs never wait");
    }
    world.detach(vm, inside);
    assert!(world.machine(vm).machine().is_attached(inside), "it sits on a CPU that is away");
    world.finish(at + Nanos::ms(100)).expect("hogs never wait");
    assert!(!world.machine(vm).machine().is_attached(inside));
    drop(world);
    let gone = log.of(vm).iter().find(|(_, event)| matches!(event, Event::Detach { .. })).map(|(at, _)| *at);
    let back = log.of(vm).into_iter().find(|(thawed, event)| {
        matches!(event, Event::Input(Input::Thaw { cpu, .. }) if cpu.index() == 0) && *thawed >= at
    });
    assert_eq!(gone, back.map(|(at, _)| at));
}

#[test]
fn several_hosts_do_not_disturb_each_other() {
    let alone = |others: bool| {
        let mut log = Log::default();
        let mut world = World::new(9);
        let under = host(&mut world, "cfs", 1, COSTS);
        let other = host(&mut world, "bfs", 2, COSTS);
        let all = vcpus(&mut world, under, "vm", 1, false);
        let vm = guest(&mut world, under, "eevdf", &all, Guest::default(), COSTS);
        world.watch_all(&mut log);
        world.start(vm, &sleeper(), GroupId::ROOT).expect("there is room");
        hog(&mut world, under, "hog");
        if others {
            hog(&mut world, other, "far");
            let all = vcpus(&mut world, other, "far-vm", 2, false);
            let far = guest(&mut world, other, "bmq", &all, Guest::default(), COSTS);
            world.attach(far, "far", Params::default(), sim::Workload::Hog).expect("there is room");
        }
        world.finish(at(100)).expect("no task waits for ever");
        drop(world);
        (log.of(under), log.of(vm))
    };
    assert_eq!(alone(true), alone(false));
}

#[test]
fn a_job_that_is_frozen_again_and_again_takes_just_the_time_it_needs() {
    let mut above = Meter::new();
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, Costs::NONE);
    hog(&mut world, under, "hog");
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), Costs::NONE);
    world.watch(vm, &mut above);
    world
        .start(vm, &application(&[], vec![task("job", vec![run(Nanos::ms(50))])]), GroupId::ROOT)
        .expect("there is room");
    world.finish(at(300)).expect("it never waits for another task");
    drop(world);
    let [job] = above.members() else { panic!("one was there") };
    assert!(job.left.is_some() && above.cpus()[0].freezes > 5, "it was done, and frozen often");
    assert_eq!(job.got.delivered, Nanos::ms(50));
}
