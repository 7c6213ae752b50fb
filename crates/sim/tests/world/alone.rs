//! A world with a single machine takes a shorter code path. The machine must produce the same events as beside an idle
//! machine.

use crate::bare_metal::{COSTS, populate};
use crate::town::{Log, at, host};
use sched::Instant;
use sim::{Costs, World};
use trace::{Event, MachineId, WorldSink};

/// Returns the events of the first machine of a world. The machine is alone, or beside an idle machine.
fn events(costs: Costs, is_alone: bool) -> Vec<(Instant, Event)> {
    let mut log = Log::default();
    let mut world = World::new(5);
    let machine = host(&mut world, "cfs", 2, costs);
    if !is_alone {
        host(&mut world, "round-robin", 1, Costs::NONE);
    }
    world.watch_all(&mut log);
    populate(&mut world, machine);
    world.finish(at(300)).expect("no task waits forever");
    drop(world);
    log.of(machine)
}

#[test]
fn a_machine_alone_does_what_it_does_beside_an_idle_one() {
    for costs in [Costs::NONE, COSTS] {
        let alone = events(costs, true);
        assert!(alone.len() > 1_000, "only {} events", alone.len());
        assert_eq!(alone, events(costs, false));
    }
}

/// A sink that counts events, and ends (`is_over`) after ten events.
#[derive(Default)]
struct Short {
    passed: u64,
}

impl WorldSink for Short {
    fn record(&mut self, _machine: MachineId, _at: Instant, _event: &Event) {
        self.passed += 1;
    }

    fn is_over(&self) -> bool {
        self.passed >= 10
    }
}

#[test]
fn a_watcher_that_is_over_is_passed_no_more_while_others_are() {
    for machines in [1, 2] {
        let (mut short, mut log) = (Short::default(), Log::default());
        let mut world = World::new(5);
        let all: Vec<MachineId> = (0..machines).map(|_| host(&mut world, "cfs", 2, Costs::NONE)).collect();
        world.watch_all(&mut short);
        world.watch_all(&mut log);
        populate(&mut world, all[0]);
        world.run_until(at(2_000)).expect("no task waits forever");
        drop(world);
        let events = log.of(all[0]).len() as u64;
        assert!(events > 2 * short.passed, "{} of {events} events", short.passed);
        assert!(short.passed >= 10);
    }
}
