//! Events that coincide, and programs that cannot continue.

use crate::town::{FIRST, Log, SECOND, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use sched::{Action, CpuId, CpuSet, GroupId, Instant, Nanos, Params, Topology};
use sim::auditor::{Promises, WorldAuditor};
use sim::guest::{HaltPolling, Spinning, Steal};
use sim::program::{Object, Step};
use sim::{Costs, Guest, Stuck, TaskSpec, Workload, World};
use std::sync::Arc;
use trace::Event;

fn us(us: u64) -> Step {
    run(Nanos::us(us))
}

fn after(us: u64) -> Instant {
    Instant::ZERO + Nanos::us(us)
}

fn on(cpu: usize) -> Params {
    Params { affinity: CpuSet::one(CpuId::new(cpu)), ..Params::default() }
}

/// Returns a task that runs on this CPU only.
fn there(cpu: usize, name: &str, steps: Vec<Step>) -> TaskSpec {
    TaskSpec { params: on(cpu), ..task(name, steps) }
}

fn paravirt(limit: u64) -> Guest {
    Guest { spinning: Spinning::Paravirt { limit: Nanos::us(limit) }, ..Guest::default() }
}

/// Returns an application with two tasks. Task `holder`, on CPU 1, holds a spin lock from the start for `held`
/// microseconds. Task `spinner`, on CPU 0, requests the lock after 10 us and then works for 100 us.
fn holder_and_spinner(held: u64) -> sim::Application {
    let holder = there(1, "holder", vec![Step::Lock(FIRST), us(held), Step::Unlock(FIRST), us(100_000)]);
    let job = vec![us(10), Step::Lock(FIRST), us(100), Step::JobEnds, Step::Unlock(FIRST)];
    application(&[("lock", Object::Spin)], vec![holder, there(0, "spinner", job)])
}

#[test]
fn a_spinner_that_gets_the_lock_as_its_vcpu_would_halt_continues() {
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let vm = guest(&mut world, under, "cfs", &all, paravirt(20), Costs::NONE);
    world.watch_all(&mut log);
    world.start(vm, &holder_and_spinner(30), GroupId::ROOT).expect("there is room");
    world.finish(at(10)).expect("no task waits for long");
    drop(world);
    let done: Vec<Instant> =
        log.of(vm).into_iter().filter(|(_, event)| matches!(event, Event::Complete { .. })).map(|(at, _)| at).collect();
    assert_eq!(done, [after(130)]);
}

#[test]
fn a_vcpu_that_spins_in_vain_halts_again_after_an_interrupt() {
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let vm = guest(&mut world, under, "cfs", &all, paravirt(20), Costs::NONE);
    let (_, tasks) = world.start(vm, &holder_and_spinner(50_000), GroupId::ROOT).expect("there is room");
    // The timer of another task expires on the CPU of the spinner, once.
    let other = there(0, "other", vec![sleep(Nanos::ms(10)), us(5)]);
    world.start(vm, &application(&[], vec![other]), GroupId::ROOT).expect("there is room");
    world.run_until(at(40)).expect("no task waits for ever");
    let spun = world.machine(vm).spun(tasks[1]);
    assert!(spun <= Nanos::us(100), "spun {spun}");
}

#[test]
fn a_slice_that_ends_as_a_lock_is_given_back_takes_nothing_back() {
    let play = |held: Nanos| {
        let mut world = World::new(1);
        let machine = host(&mut world, "round-robin", 2, Costs::NONE);
        let holder = there(1, "holder", vec![Step::Lock(FIRST), run(held), Step::Unlock(FIRST), us(1)]);
        let spinner = vec![us(10), Step::Lock(FIRST), Step::Unlock(FIRST), sleep(Nanos::us(7)), us(1)];
        let tasks = vec![there(0, "spinner", spinner), holder];
        world.start(machine, &application(&[("lock", Object::Spin)], tasks), GroupId::ROOT).expect("there is room");
        world.attach(machine, "hog", on(0), Workload::Hog).expect("there is room");
        world.run_until(after(50)).expect("it goes on");
        let slice = world.machine(machine).machine().until(CpuId::new(0));
        world.finish(at(1000)).expect("it goes on");
        slice
    };
    let slice = play(Nanos::us(100)).since(Instant::ZERO);
    assert!(slice > Nanos::us(100) && slice < Nanos::ms(900), "{slice}");
    play(slice);
}

#[test]
fn a_kick_that_comes_too_late_to_matter_brings_no_other_forward() {
    let (below, above) = (Costs { kick: Nanos::us(10), ..Costs::NONE }, Costs { kick: Nanos::us(4), ..Costs::NONE });
    let mut auditor = WorldAuditor::new();
    auditor.add(Topology::new(2), Promises::NONE, &below);
    auditor.add(Topology::new(2), Promises::NONE, &above);
    let mut log = Log::default();
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, below);
    world.watch_all(&mut auditor);
    world.watch_all(&mut log);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), above);
    // Task `busy` goes to sleep 2 us after `wakes` has kicked the CPU of `busy` for `woken`. The kick takes 4 us, and
    // arrives after this CPU has halted. While the host dispatches the vCPU again, `wakes` kicks the CPU again.
    let busy = there(0, "busy", vec![sleep(Nanos::ms(1)), us(20_000), sleep(Nanos::ms(500))]);
    let woken = there(0, "woken", vec![forever(vec![Step::Take(FIRST), us(1)])]);
    let steps = vec![sleep(Nanos::ms(1)), us(19_998), Step::Post(FIRST), us(11), Step::Post(FIRST), us(500_000)];
    let tasks = vec![busy, woken, there(1, "wakes", steps)];
    world
        .start(vm, &application(&[("s", Object::Semaphore { most: 1 })], tasks), GroupId::ROOT)
        .expect("there is room");
    world.finish(at(100)).expect("it goes on");
    drop(world);
    let late = |(at, event): &(Instant, Event)| {
        *at > after(20_900) && matches!(event, Event::Action(Action::Kick { cpu }) if cpu.index() == 0)
    };
    assert_eq!(log.of(vm).iter().filter(|what| late(what)).count(), 2, "{:?}", log.of(vm));
    assert_eq!(auditor.findings(), []);
}

#[test]
fn what_a_vcpu_has_halted_for_was_not_stolen() {
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let kind = Guest { steal: Steal::Known, ..paravirt(20) };
    let vm = guest(&mut world, under, "cfs", &all, kind, Costs::NONE);
    let (_, tasks) = world.start(vm, &holder_and_spinner(5000), GroupId::ROOT).expect("there is room");
    world.run_until(after(5050)).expect("no task waits for long");
    world.adjust(vm, tasks[1], on(0)).expect("that is nothing");
    assert_eq!(
        world.machine(vm).machine().charged(tasks[1]),
        Nanos::us(5050),
        "its host had a CPU for it all the time"
    );
}

#[test]
fn an_application_is_stopped_while_its_vcpu_waits_for_a_lock() {
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let vm = guest(&mut world, under, "cfs", &all, paravirt(20), Costs::NONE);
    let (number, tasks) = world.start(vm, &holder_and_spinner(50_000), GroupId::ROOT).expect("there is room");
    world.run_until(at(5)).expect("it goes on");
    assert!(world.machine(vm).machine().is_frozen(CpuId::new(0)), "the spinner has halted");
    world.stop(vm, number);
    world.finish(at(6)).expect("no task is left");
    assert!(tasks.iter().all(|&task| !world.machine(vm).machine().is_attached(task)));
}

#[test]
fn a_task_that_arrives_as_a_vcpu_halts_wakes_it() {
    let costs = Costs { exit: Nanos::us(3), ..Costs::NONE };
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, costs);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), costs);
    let (_, short) =
        world.start(vm, &application(&[], vec![task("short", vec![us(100)])]), GroupId::ROOT).expect("there is room");
    world.run_until(after(50)).expect("it runs");
    while world.machine(vm).machine().is_attached(short[0]) {
        world.run_until(world.now() + Nanos::us(1)).expect("it runs");
    }
    // The task has ended within the last microsecond; the vCPU needs three microseconds to halt.
    let ended = world.now();
    let (mut came, mut at) = (None, ended);
    while !world.machine(vm).machine().is_frozen(CpuId::new(0)) {
        at += Nanos::ns(1);
        came = Some(world.now());
        world.run_until(at).expect("it halts");
    }
    let halts = came.expect("it took some time");
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 1, costs);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), costs);
    world.start(vm, &application(&[], vec![task("short", vec![us(100)])]), GroupId::ROOT).expect("there is room");
    world.run_until(halts).expect("it halts at this instant");
    assert!(!world.machine(vm).machine().is_frozen(CpuId::new(0)));
    let late = hog(&mut world, vm, "late");
    world.finish(halts + Nanos::us(500)).expect("a hog never waits");
    let charged = world.machine(vm).machine();
    assert!(charged.running(CpuId::new(0)) == Some(late) && !charged.is_frozen(CpuId::new(0)));
}

#[test]
fn a_vcpu_does_not_poll_while_a_task_waits_for_its_cpu() {
    let polled = |beside: bool| {
        let mut world = World::new(1);
        let under = host(&mut world, "cfs", 1, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 1, false);
        let kind = Guest { halt_polling: HaltPolling::KVM, ..Guest::default() };
        let vm = guest(&mut world, under, "cfs", &all, kind, Costs::NONE);
        if beside {
            hog(&mut world, under, "hog");
        }
        let naps = task("naps", vec![forever(vec![us(50), sleep(Nanos::us(100))])]);
        world.start(vm, &application(&[], vec![naps]), GroupId::ROOT).expect("there is room");
        world.finish(at(150)).expect("it only sleeps");
        world.polled(vm, CpuId::new(0))
    };
    assert!(polled(false) > Nanos::ms(90));
    assert_eq!(polled(true), Nanos::ZERO, "the hog always waits");
}

#[test]
fn a_vcpu_stops_polling_when_a_task_arrives_on_its_cpu() {
    let mut world = World::new(1);
    let under = host(&mut world, "round-robin", 1, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let polling = HaltPolling { most: Nanos::ms(50), grow_start: Nanos::ms(20), ..HaltPolling::KVM };
    let vm = guest(&mut world, under, "cfs", &all, Guest { halt_polling: polling, ..Guest::default() }, Costs::NONE);
    let naps = task("naps", vec![us(10), sleep(Nanos::ms(1)), us(10), sleep(Nanos::ms(19)), us(10)]);
    world.start(vm, &application(&[], vec![naps]), GroupId::ROOT).expect("there is room");
    world.run_until(at(5)).expect("it polls");
    let late = hog(&mut world, under, "late");
    world.run_until(after(5_001)).expect("it has halted");
    assert_eq!(world.machine(under).machine().running(CpuId::new(0)), Some(late));
    // The vCPU polled from 1.02 ms until the hog arrived at 5 ms.
    assert_eq!(world.polled(vm, CpuId::new(0)), Nanos::us(3980));
}

fn stuck(application: &sim::Application) -> Box<Stuck> {
    let mut world = World::new(1);
    let machine = host(&mut world, "cfs", 2, Costs::NONE);
    world.start(machine, application, GroupId::ROOT).expect("there is room");
    world.finish(at(100_000)).expect_err("it cannot go on")
}

#[test]
fn a_condition_may_be_what_closes_a_cycle() {
    let mutex = sim::program::ObjectId(2);
    let waits =
        vec![Step::Lock(FIRST), Step::Lock(mutex), Step::Wait { condition: SECOND, mutex }, Step::Unlock(mutex)];
    let owns = vec![us(50), Step::Lock(mutex), us(1), Step::Lock(FIRST), Step::Unlock(FIRST), Step::Unlock(mutex)];
    let signals = vec![sleep(Nanos::ms(1)), Step::Signal(SECOND), forever(vec![sleep(Nanos::ms(1))])];
    let tasks = vec![task("waits", waits), task("owns", owns), task("signals", signals)];
    let objects = [("l", Object::Mutex), ("c", Object::Condition), ("m", Object::Mutex)];
    let told = stuck(&application(&objects, tasks));
    assert_eq!((told.at, told.why.as_str()), (at(1), "waits waits for owns, which waits for waits"));
}

#[test]
fn forks_without_end_end_the_run() {
    let child = Arc::new(task("child", vec![sleep(Nanos::ms(1_000_000))]));
    for body in [vec![Step::Fork(Arc::clone(&child))], vec![us(1), Step::Fork(child)]] {
        let told = stuck(&application(&[], vec![task("bomb", vec![forever(body)])]));
        assert_eq!(told.why, "bomb forks, but there are 32768 tasks already");
    }
}

#[test]
fn guests_that_answer_each_other_without_using_any_time_end_the_run() {
    let mut world = World::new(1);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 2, true);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), Costs::NONE);
    let ping = there(0, "ping", vec![forever(vec![Step::Post(FIRST), Step::Take(SECOND)])]);
    let pong = there(1, "pong", vec![forever(vec![Step::Take(FIRST), Step::Post(SECOND)])]);
    let objects = [("a", Object::Semaphore { most: 1 }), ("b", Object::Semaphore { most: 1 })];
    world.start(vm, &application(&objects, vec![ping, pong]), GroupId::ROOT).expect("there is room");
    let told = world.finish(at(1)).expect_err("it never comes to rest").to_string();
    assert!(told.contains("answer each other without using any time"), "{told}");
}

#[test]
fn loops_that_only_give_way_end_the_run_however_long_they_are() {
    let loops = Step::Repeat { times: Some(300_000), body: vec![Step::Repeat { times: Some(0), body: vec![] }] };
    let tasks = (0..3).map(|number| task(&format!("t{number}"), vec![forever(vec![loops.clone(), Step::Yield])]));
    let told = stuck(&application(&[], tasks.collect()));
    assert!(told.why.contains("wake each other without using any time"), "{}", told.why);
}
