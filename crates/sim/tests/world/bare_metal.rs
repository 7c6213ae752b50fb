//! A guest whose vCPUs always have a CPU behaves like a host.

use crate::town::{FIRST, Log, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use sched::{Input, Instant, Nanos, Params};
use sim::program::{Length, Object, Step};
use sim::{Application, Costs, Guest, Periodic, Workload, World};
use trace::{Event, MachineId};

/// Returns the settings of a guest whose vCPUs never halt.
fn never_halts() -> Guest {
    Guest { idle_polls: true, ..Guest::default() }
}

/// Adds three periodic entities, a hog, and two tasks that communicate through a pipe.
pub(crate) fn populate(world: &mut World<'_>, machine: MachineId) {
    let jobs = |period, work| Workload::Periodic(Periodic::new(Nanos::us(period), Nanos::us(work)));
    for (name, jobs) in [("a", jobs(5_000, 1_700)), ("b", jobs(7_001, 900)), ("c", jobs(900, 50))] {
        world.attach(machine, name, Params::default(), jobs).expect("there is room");
    }
    hog(world, machine, "hog");
    world.start(machine, &pipe_pair(), sched::GroupId::ROOT).expect("there is room");
}

fn pipe_pair() -> Application {
    let writer = task(
        "writer",
        vec![forever(vec![run(Nanos::us(333)), Step::Send { pipe: FIRST, bytes: 100 }, sleep(Nanos::us(70))])],
    );
    let work = Length::Uniform { least: Nanos::us(10), most: Nanos::us(500) };
    let reader = task("reader", vec![forever(vec![Step::Receive { pipe: FIRST, bytes: 100 }, Step::Run(work)])]);
    application(&[("pipe", Object::Pipe { capacity: 1000 })], vec![writer, reader])
}

/// Returns the events on `machine` with their instants, except freezes, thaws and links of vCPUs.
fn decisions(log: &Log, machine: MachineId) -> Vec<(Instant, Event)> {
    let mut events = log.of(machine);
    events.retain(|(_, event)| {
        !matches!(event, Event::Input(Input::Freeze { .. } | Input::Thaw { .. }) | Event::Vcpu { .. })
    });
    events
}

/// Returns the decisions for the same work on a host, and in a guest that is alone on its host.
fn both(policy: &str, cpus: usize, costs: Costs) -> [Vec<(Instant, Event)>; 2] {
    let mut bare = Log::default();
    let mut world = World::new(5);
    // The machine is the second machine of its world, as in the other run, and therefore draws the same random numbers.
    host(&mut world, "round-robin", 1, Costs::NONE);
    let alone = host(&mut world, policy, cpus, costs);
    world.run_until(Instant::at_ns(1)).expect("nothing can go wrong");
    world.watch_all(&mut bare);
    populate(&mut world, alone);
    world.finish(at(300)).expect("no task waits for ever");
    drop(world);

    let mut virtual_one = Log::default();
    let mut world = World::new(5);
    let below = host(&mut world, "round-robin", cpus, Costs::NONE);
    let all = vcpus(&mut world, below, "vm", cpus, true);
    let above = guest(&mut world, below, policy, &all, never_halts(), costs);
    // The vCPUs receive their CPUs before any other event.
    world.run_until(Instant::at_ns(1)).expect("nothing can go wrong");
    world.watch_all(&mut virtual_one);
    populate(&mut world, above);
    world.finish(at(300)).expect("no task waits for ever");
    drop(world);
    [decisions(&bare, alone), decisions(&virtual_one, above)]
}

pub(crate) const COSTS: Costs = Costs {
    context_switch: Nanos::us(3),
    cache_refill: Nanos::us(11),
    kick: Nanos::us(2),
    tick: Nanos::us(1),
    timer_slack: Nanos::us(50),
    ..Costs::NONE
};

#[test]
fn a_guest_on_cpus_of_its_own_decides_as_a_host_does() {
    compare(Costs::NONE);
}

/// Scheduling costs the same in a guest and on a host. Exits cost nothing in this test.
#[test]
fn a_guest_on_cpus_of_its_own_pays_as_a_host_does() {
    compare(COSTS);
}

fn compare(costs: Costs) {
    for name in ["cfs", "eevdf", "bfs", "bmq", "round-robin", "edf", "credit", "rt", "linux"] {
        for cpus in [1, 2, 4] {
            let [bare, virtual_one] = both(name, cpus, costs);
            assert!(bare.len() > 1000, "{name} has decided often");
            let place = bare.iter().zip(&virtual_one).position(|(bare, virtual_one)| bare != virtual_one);
            if let Some(place) = place {
                panic!(
                    "{name} on {cpus}: event {place} is {:?} on the host, {:?} in the guest",
                    bare[place], virtual_one[place]
                );
            }
            assert_eq!(bare.len(), virtual_one.len(), "{name} on {cpus}");
        }
    }
}

/// A task works for 10 ms at a time, in a guest that the timer of another task interrupts every millisecond. Each
/// interrupt causes an exit of the vCPU to the host and an entry back.
#[test]
fn every_interrupt_of_a_guest_costs_an_exit() {
    let done = |exit| {
        let mut log = Log::default();
        let mut world = World::new(1);
        let below = host(&mut world, "round-robin", 1, Costs::NONE);
        let all = vcpus(&mut world, below, "vm", 1, true);
        let above = guest(&mut world, below, "rt", &all, never_halts(), Costs { exit, ..Costs::NONE });
        world.watch_all(&mut log);
        let class = |priority| sched::Class::Fifo(sched::RtPriority::new(priority).expect("it is one"));
        let asked = |priority| Params { class: class(priority), ..Params::default() };
        let work = Workload::Periodic(Periodic::new(Nanos::ms(100), Nanos::ms(10)));
        world.attach(above, "work", asked(50), work).expect("there is room");
        // Task `naps` has a lower priority than `work`. Its wake-up interrupts `work`, but does not preempt it.
        let naps = Workload::Periodic(Periodic { phase: Nanos::us(500), ..Periodic::new(Nanos::ms(1), Nanos::ns(1)) });
        world.attach(above, "naps", asked(10), naps).expect("there is room");
        world.finish(at(50)).expect("no task waits for ever");
        drop(world);
        let events = log.of(above);
        let done = events.iter().position(|(_, event)| matches!(event, Event::Complete { .. }));
        let (before, at) = done.map(|done| (&events[..done], events[done].0)).expect("the work is done");
        // Events at time zero coincide with the entry into the guest, and cost no exit of their own.
        let interrupts = before.iter().filter(|(at, event)| {
            *at > Instant::ZERO
                && matches!(event, Event::Release { .. } | Event::Input(Input::Alarm { .. } | Input::Kicked { .. }))
        });
        (at, interrupts.count() as u64)
    };
    assert_eq!(done(Nanos::ZERO).0, at(10));
    let (late, interrupts) = done(Nanos::us(4));
    assert_eq!(late, at(10) + Nanos::us(4).saturating_mul(interrupts));
    assert!(interrupts >= 10, "{interrupts}");
}
