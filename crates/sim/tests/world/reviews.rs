//! Tests of events that coincide with a review of boosts.

use crate::town::{FIRST, Log, application, at, forever, guest, host, run, sleep, task, vcpus};
use coordination::{Coordination, Protocol, Rule};
use sched::{Class, CpuId, CpuSet, GroupId, Input, Instant, Nanos, Params, RtPriority};
use sim::network::{Endpoint, Flow, Hop, Line};
use sim::program::{Object, Step};
use sim::{Costs, Guest, TaskSpec, World};
use trace::Event;

fn urgent(priority: u8, it: TaskSpec) -> TaskSpec {
    let class = Class::Fifo(RtPriority::new(priority).expect("it is in range"));
    TaskSpec { params: Params { class, ..it.params }, ..it }
}

fn generous(tick: Nanos) -> Guest {
    let with = Coordination { budget: Nanos::ms(90), limit: Nanos::ms(90), tick, ..Coordination::new(Protocol::S0) };
    Guest { coordination: Some(with), ..Guest::default() }
}

#[test]
fn an_urgent_task_leaves_when_boosts_are_reviewed() {
    let mut world = World::new(1);
    let under = host(&mut world, "linux", 1, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 1, true);
    let vm = guest(&mut world, under, "linux", &all, generous(Nanos::ms(1)), Costs::NONE);
    let begin = |world: &mut World<'_>, priority| {
        let tasks = vec![urgent(priority, task("urgent", vec![run(Nanos::ms(50))]))];
        world.start(vm, &application(&[], tasks), GroupId::ROOT).expect("there is room").0
    };
    begin(&mut world, 6);
    let waits = begin(&mut world, 5);
    world.run_until(at(5)).expect("no task waits");
    world.stop(vm, waits);
    world.finish(at(9)).expect("no task waits");
    assert_eq!(world.now(), at(9), "no boost is requested for a task that has left");
}

#[test]
fn a_packet_comes_when_boosts_are_reviewed() {
    let woken = |latency: Nanos| {
        let mut log = Log::default();
        let mut world = World::new(1);
        world.watch_all(&mut log);
        let under = host(&mut world, "linux", 2, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 2, true);
        let kind = generous(Nanos::us(700));
        let with = kind.coordination.map(|with| Coordination { detector: Rule::Class, ..with });
        let kind = Guest { coordination: with, ..kind };
        let vm = guest(&mut world, under, "linux", &all, kind, Costs::NONE);
        let far = host(&mut world, "cfs", 1, Costs::NONE);
        let on = |cpu: usize, it: TaskSpec| {
            let affinity = CpuSet::one(CpuId::new(cpu));
            TaskSpec { params: Params { affinity, ..it.params }, ..it }
        };
        let boosted = on(0, urgent(5, task("boosted", vec![run(Nanos::ms(50))])));
        world.start(vm, &application(&[], vec![boosted]), GroupId::ROOT).expect("there is room");
        let receive = Step::Receive { pipe: FIRST, bytes: 100 };
        let reads = on(1, task("reads", vec![forever(vec![receive])]));
        let inbox = ("inbox", Object::Inbox { room: 1_000 });
        let (reads, _) = world.start(vm, &application(&[inbox], vec![reads]), GroupId::ROOT).expect("there is room");
        let sends = task("sends", vec![sleep(Nanos::ms(4)), Step::Send { pipe: FIRST, bytes: 100 }]);
        let port = ("port", Object::Port { window: u64::MAX });
        let (sends, _) = world.start(far, &application(&[port], vec![sends]), GroupId::ROOT).expect("there is room");
        let wire = Hop::Line(world.add_line(Line { latency: latency.into(), ..Line::new("wire") }));
        let end = |machine, application| Endpoint { machine, application, object: FIRST };
        let (from, to) = (end(far, sends), end(vm, reads));
        let name = "flow".to_string();
        world.connect(Flow { name, from, to, packet: 1_500, way: vec![wire], acks: None, reliable: false });
        world.finish(at(20)).expect("no task waits for ever");
        drop(world);
        let wakes = log
            .of(vm)
            .into_iter()
            .filter(|(at, event)| *at > self::at(3) && matches!(event, Event::Input(Input::Wake { .. })));
        wakes.map(|(at, _)| at).next().expect("the reader wakes")
    };
    let us = |us: u64| Instant::ZERO + Nanos::us(us);
    assert_eq!(woken(Nanos::us(901)), us(4_901));
    assert_eq!(woken(Nanos::us(900)), us(4_900), "a review every 700 us is at 4900 us, too");
}
