//! A run in several calls gives the same events as a run in one call, and no call exceeds its budget by more than 32
//! inputs.

use crate::bare_metal::{COSTS, populate};
use crate::town::{Log, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use coordination::{Coordination, Protocol};
use sched::{GroupId, Instant, Nanos, Params};
use sim::{Costs, Guest, Periodic, Workload, World};
use trace::{Event, MachineId, WorldSink};

type Build = fn(Box<dyn WorldSink + '_>) -> World<'_>;

/// Returns a world with two guests on a host. One guest coordinates with the host. A wake-up in a guest needs several
/// rounds of an instant.
fn two_levels(log: Box<dyn WorldSink + '_>) -> World<'_> {
    let mut world = World::new(7);
    let under = host(&mut world, "linux", 2, COSTS);
    world.watch_all_boxed(log);
    for kind in [Guest::default(), Guest { coordination: Some(Coordination::new(Protocol::RfcV1)), ..Guest::default() }]
    {
        let all = vcpus(&mut world, under, "vm", 2, false);
        let vm = guest(&mut world, under, "linux", &all, kind, COSTS);
        populate(&mut world, vm);
    }
    hog(&mut world, under, "hog");
    world
}

fn alone(log: Box<dyn WorldSink + '_>) -> World<'_> {
    let mut world = World::new(7);
    let machine = host(&mut world, "cfs", 2, COSTS);
    world.watch_all_boxed(log);
    populate(&mut world, machine);
    world
}

/// Returns a world with a host on which 300 jobs are released at the same instant, far more than a small budget allows.
fn crowded(log: Box<dyn WorldSink + '_>) -> World<'_> {
    let mut world = World::new(7);
    let machine = host(&mut world, "cfs", 2, COSTS);
    world.watch_all_boxed(log);
    let jobs = Workload::Periodic(Periodic::new(Nanos::ms(20), Nanos::us(20)));
    for number in 0..300 {
        world.attach(machine, &format!("job {number}"), Params::default(), jobs).expect("there is room");
    }
    world
}

/// Runs for 100 ms in calls with a budget of `part` each. Returns the maximum number of inputs by which a call exceeded
/// its budget.
fn in_parts(mut world: World<'_>, part: u64) -> u64 {
    let (end, mut beyond) = (at(100), 0);
    loop {
        let (mut budget, before) = (part, world.inputs());
        let is_there = world.run_within(end, &mut budget).expect("no task waits forever");
        beyond = beyond.max((world.inputs() - before).saturating_sub(part));
        assert!(is_there || budget == 0, "a part ends early with a budget of {budget}");
        if is_there {
            world.finish(end).expect("no task waits forever");
            return beyond;
        }
    }
}

#[test]
fn a_run_in_parts_shows_the_events_of_a_run_in_one_go() {
    for build in [two_levels as Build, alone, crowded] {
        let mut whole = Log::default();
        build(Box::new(&mut whole)).finish(at(100)).expect("no task waits forever");
        assert!(whole.events.len() > 1_000, "only {} events", whole.events.len());
        for part in [1, 2, 7, 100, 10_000] {
            let mut log = Log::default();
            let beyond = in_parts(build(Box::new(&mut log)), part);
            assert!(log.events == whole.events, "parts of {part} differ from one go");
            assert!(beyond <= 32, "a part of {part} has {beyond} inputs too many");
        }
    }
}

#[test]
fn an_instant_that_needs_rounds_without_end_is_found_in_parts_too() {
    let stuck = |part: u64| {
        let mut world = World::new(1);
        let under = host(&mut world, "linux", 1, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 1, false);
        let vm = guest(&mut world, under, "linux", &all, Guest::default(), Costs::NONE);
        let idle = task("idle", vec![forever(vec![sleep(Nanos::ZERO), run(Nanos::ZERO)])]);
        world.start(vm, &application(&[], vec![idle]), GroupId::ROOT).expect("there is room");
        loop {
            match world.run_within(at(1), &mut part.clone()) {
                Ok(is_there) => assert!(!is_there, "it cannot get to the end"),
                Err(stuck) => return format!("{stuck:?}"),
            }
        }
    };
    let found = stuck(1);
    assert!(found.contains("without using any time"), "{found}");
    assert_eq!(found, stuck(u64::MAX));
}

/// A sink that counts events, and ends (`is_over`) after ten events.
#[derive(Default)]
struct Short(u64);

impl WorldSink for Short {
    fn record(&mut self, _machine: MachineId, _at: Instant, _event: &Event) {
        self.0 += 1;
    }

    fn is_over(&self) -> bool {
        self.0 >= 10
    }
}

#[test]
fn a_sink_that_is_over_is_released_in_parts_too() {
    for build in [two_levels as Build, alone] {
        let mut short = Short::default();
        in_parts(build(Box::new(&mut short)), 5);
        assert!(short.0 < 300, "{} events", short.0);
    }
}
