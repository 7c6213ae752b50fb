//! Packets between machines: lines, rings, ports and inboxes, interrupts, and drops.

use crate::town::{FIRST, Log, SECOND, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use sched::{CpuId, GroupId, Input, Instant, Nanos, Notice, Wake};
use sim::network::{Acks, Endpoint, Flow, FlowCounts, FlowId, Hop, Line};
use sim::program::{Notify, Object, Ring, Step, TaskSpec};
use sim::{Costs, Guest, World};
use trace::{Event, MachineId};

const MTU: u32 = 1_000;

fn inbox() -> (&'static str, Object) {
    ("inbox", Object::Inbox { room: 1 << 30 })
}

fn port(window: u64) -> (&'static str, Object) {
    ("port", Object::Port { window })
}

fn ring(cost: Nanos) -> Ring {
    Ring {
        cost: cost.into(),
        room: 1_000,
        notify: Notify::WhenIdle,
        delay: Nanos::ZERO,
        passes: false,
        kick: Nanos::ZERO,
    }
}

fn send(bytes: u64) -> Step {
    Step::Send { pipe: FIRST, bytes }
}

fn receive(bytes: u64) -> Step {
    Step::Receive { pipe: FIRST, bytes }
}

/// Starts an application whose first object is an endpoint of a flow.
fn start(world: &mut World<'_>, machine: MachineId, object: (&str, Object), tasks: Vec<TaskSpec>) -> Endpoint {
    let (number, _) = world.start(machine, &application(&[object], tasks), GroupId::ROOT).expect("there is room");
    Endpoint { machine, application: number, object: FIRST }
}

fn connect(world: &mut World<'_>, from: Endpoint, to: Endpoint, way: Vec<Hop>) -> FlowId {
    world.connect(Flow { name: "flow".to_string(), from, to, packet: MTU, way, acks: None, reliable: false })
}

fn line(world: &mut World<'_>, latency: Nanos) -> Hop {
    Hop::Line(world.add_line(Line { latency: latency.into(), ..Line::new("wire") }))
}

/// Creates two hosts. The task of the first executes `steps`, which send through a port. The task of the second reads
/// all data, `bytes` at a time.
fn two_hosts(world: &mut World<'_>, window: u64, steps: Vec<Step>, bytes: u64) -> (Endpoint, Endpoint) {
    let (near, far) = (host(world, "cfs", 1, Costs::NONE), host(world, "cfs", 1, Costs::NONE));
    let from = start(world, near, port(window), vec![task("sends", steps)]);
    let to = start(world, far, inbox(), vec![task("reads", vec![forever(vec![receive(bytes)])])]);
    (from, to)
}

#[test]
fn what_is_sent_arrives_in_packets_after_its_way() {
    let mut log = Log::default();
    let mut world = World::new(1);
    world.watch_all(&mut log);
    let (from, to) = two_hosts(&mut world, u64::MAX, vec![run(Nanos::us(10)), send(2_500)], 2_500);
    let wire =
        world.add_line(Line { bandwidth: Some(1_000_000_000), latency: Nanos::us(100).into(), ..Line::new("wire") });
    let flow = connect(&mut world, from, to, vec![Hop::Line(wire)]);
    world.finish(at(1)).expect("no task waits for ever");
    let counts = world.flow(flow);
    drop(world);
    assert_eq!(
        counts,
        FlowCounts {
            sent: 3,
            arrived: 3,
            bytes_sent: 2_500,
            bytes_arrived: 2_500,
            bytes_read: 2_500,
            ..FlowCounts::default()
        }
    );
    // The line transmits one byte per nanosecond, and one packet after the other.
    let arrivals: Vec<(u64, u64, Nanos)> = log
        .of(to.machine)
        .iter()
        .filter_map(|(at, event)| match *event {
            Event::Arrived { bytes, took, .. } => Some((at.as_ns() / 1_000, bytes, took)),
            _ => None,
        })
        .collect();
    let us = Nanos::us;
    assert_eq!(arrivals, [(111, 1_000, us(101)), (112, 1_000, us(102)), (112, 500, Nanos::ns(102_500))]);
    let wakes = log.of(to.machine).into_iter().filter(|(_, event)| matches!(event, Event::Input(Input::Wake { .. })));
    assert_eq!(wakes.count(), 2, "the reader comes, and is woken once, when all is there");
}

#[test]
fn a_window_limits_what_is_on_its_way_to_one_round_trip() {
    let rate = |window: u64, acks: bool| {
        let mut world = World::new(1);
        let (from, to) = two_hosts(&mut world, window, vec![forever(vec![send(1_000)])], 1_000);
        let there =
            world.add_line(Line { bandwidth: Some(100_000_000), latency: Nanos::us(500).into(), ..Line::new("there") });
        let back = line(&mut world, Nanos::us(500));
        let acks = acks.then(|| Acks { every: 2, way: vec![back] });
        let way = vec![Hop::Line(there)];
        let flow = world.connect(Flow { name: "bulk".to_string(), from, to, packet: MTU, way, acks, reliable: true });
        world.finish(at(1_000)).expect("no task waits for ever");
        world.flow(flow).bytes_read
    };
    // The window permits 10,000 bytes per round trip of 1 ms. With an acknowledgement for every two packets, the rate
    // is nearly 10 MB/s.
    let slow = rate(10_000, true);
    assert!((9_000_000..=10_000_000).contains(&slow), "{slow}");
    assert!((19_000_000..=20_000_000).contains(&rate(10_000, false)), "half the way where nothing tells the sender");
    let full = rate(1_000_000, true);
    assert!((99_000_000..=100_000_000).contains(&full), "as much as the line carries: {full}");
}

#[test]
fn what_finds_no_room_is_lost_or_sent_again() {
    let counts = |reliable: bool| {
        let mut world = World::new(1);
        let (from, to) = two_hosts(&mut world, 20_000, vec![send(10_000)], 10_000);
        let narrow = Line { service: Nanos::us(10).into(), room: Some(3), ..Line::new("narrow") };
        let way = vec![Hop::Line(world.add_line(narrow))];
        let flow = world.connect(Flow { name: "flow".to_string(), from, to, packet: MTU, way, acks: None, reliable });
        world.finish(at(1_000)).expect("no task waits for ever");
        world.flow(flow)
    };
    let lost = counts(false);
    assert_eq!((lost.sent, lost.arrived, lost.lost, lost.bytes_read), (10, 4, 6, 0), "one is dealt with, three wait");
    let all = counts(true);
    assert_eq!((all.arrived, all.lost, all.resent, all.bytes_read), (10, 0, 6 + 2, 10_000), "four at a time");
}

/// Runs a ring whose packets come from another host. Returns the wake-ups of the server except its first, the number of
/// its notices, and the instants at which the server finished a packet.
fn served(ring: Ring, packets: u64, gap: Nanos) -> (Vec<(u64, Wake)>, usize, Vec<u64>) {
    let mut log = Log::default();
    let mut world = World::new(1);
    world.watch_all(&mut log);
    let body = vec![send(100), sleep(gap)];
    let steps = vec![sleep(Nanos::us(100)), Step::Repeat { times: Some(packets), body }];
    let (from, to) = two_hosts(&mut world, u64::MAX, steps, 100);
    let middle = host(&mut world, "cfs", 1, Costs::NONE);
    let backend = start(
        &mut world,
        middle,
        ("ring", Object::Ring(ring)),
        vec![task("serves", vec![forever(vec![Step::Serve(FIRST)])])],
    );
    connect(&mut world, from, to, vec![Hop::Ring(backend)]);
    world.finish(at(100)).expect("no task waits for ever");
    drop(world);
    let (mut wakes, mut notices, mut done) = (Vec::new(), 0, Vec::new());
    for (at, event) in log.of(middle) {
        match event {
            Event::Input(Input::Wake { why, .. }) => wakes.push((at.as_ns() / 1_000, why)),
            Event::Input(Input::Event { what: Notice::Interrupt, .. }) => notices += 1,
            Event::Served { .. } => done.push(at.as_ns() / 1_000),
            _ => {}
        }
    }
    (wakes[1..].to_vec(), notices, done)
}

#[test]
fn a_ring_interrupts_its_server_when_idle_each_time_or_after_a_delay() {
    let (wakes, notices, done) = served(ring(Nanos::us(50)), 3, Nanos::us(10));
    assert_eq!((wakes, notices), (vec![(100, Wake::Interrupt)], 0), "a running server finds the other packets itself");
    assert_eq!(done, [150, 200, 250]);
    let always = Ring { notify: Notify::Always, ..ring(Nanos::us(50)) };
    let (wakes, notices, done) = served(always, 3, Nanos::us(10));
    assert_eq!((wakes.len(), notices, done), (1, 2, vec![150, 200, 250]), "an interrupt for each, in vain");
    let later = Ring { delay: Nanos::us(25), ..ring(Nanos::us(50)) };
    let (wakes, _, done) = served(later, 3, Nanos::us(10));
    assert_eq!((wakes, done), (vec![(125, Wake::Interrupt)], vec![175, 225, 275]), "one notice for three packets");
    let slow = served(ring(Nanos::us(50)), 3, Nanos::us(200));
    assert_eq!(slow.0.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [100, 300, 500], "idle each time");
}

#[test]
fn a_ring_server_notifies_the_next_ring_of_each_packet_or_once_per_pass() {
    // Six packets arrive at once: the first packet is alone in its pass, and the others wait for the end of this pass.
    // The test records the wake-ups of the second ring's server.
    let told = |passes: bool| {
        let mut log = Log::default();
        let mut world = World::new(1);
        world.watch_all(&mut log);
        let steps = vec![sleep(Nanos::us(100)), Step::Repeat { times: Some(6), body: vec![send(100)] }];
        let (from, to) = two_hosts(&mut world, u64::MAX, steps, 100);
        let serves = || vec![task("serves", vec![forever(vec![Step::Serve(FIRST)])])];
        let near = host(&mut world, "cfs", 1, Costs::NONE);
        let slow = Ring { passes, ..ring(Nanos::us(50)) };
        let backend = start(&mut world, near, ("ring", Object::Ring(slow)), serves());
        let far = host(&mut world, "cfs", 1, Costs::NONE);
        let frontend = start(&mut world, far, ("ring", Object::Ring(ring(Nanos::us(1)))), serves());
        let flow = connect(&mut world, from, to, vec![Hop::Ring(backend), Hop::Ring(frontend)]);
        world.finish(at(100)).expect("no task waits for ever");
        assert_eq!(world.flow(flow).arrived, 6, "nothing is kept back for good");
        drop(world);
        let woken = log.of(far).into_iter().filter(|(_, event)| matches!(event, Event::Input(Input::Wake { .. })));
        woken.map(|(at, _)| at.as_ns() / 1_000).filter(|at| *at > 0).collect::<Vec<_>>()
    };
    assert_eq!(told(false), [150, 200, 250, 300, 350, 400]);
    assert_eq!(told(true), [150, 400], "once for five");
}

#[test]
fn a_packet_for_a_guest_waits_for_its_vcpu_and_wakes_one_that_has_halted() {
    let mut log = Log::default();
    let mut world = World::new(1);
    world.watch_all(&mut log);
    let far = host(&mut world, "cfs", 1, Costs::NONE);
    let under = host(&mut world, "round-robin", 1, Costs::NONE);
    let all = vcpus(&mut world, under, "vm", 1, false);
    let vm = guest(&mut world, under, "cfs", &all, Guest::default(), Costs::NONE);
    let to = start(&mut world, vm, inbox(), vec![task("reads", vec![forever(vec![receive(100), run(Nanos::us(20))])])]);
    let from = start(
        &mut world,
        far,
        port(u64::MAX),
        vec![task("sends", vec![forever(vec![sleep(Nanos::ms(1)), send(100)])])],
    );
    connect(&mut world, from, to, Vec::new());
    world.run_until(at(5)).expect("no task waits for ever");
    hog(&mut world, under, "hog");
    world.finish(at(200)).expect("no task waits for ever");
    drop(world);
    let interrupts =
        |events: &[(Instant, Event)], what: fn(&Event) -> bool| events.iter().filter(|(_, event)| what(event)).count();
    let (below, above) = (log.of(under), log.of(vm));
    let woken = interrupts(&below, |event| matches!(event, Event::Input(Input::Wake { why: Wake::Interrupt, .. })));
    assert!(woken >= 5, "a vCPU that has halted is woken by what comes: {woken}");
    let told = interrupts(&below, |event| matches!(event, Event::Input(Input::Event { what: Notice::Interrupt, .. })));
    assert_eq!(told, 0, "one that waits behind the hog knows already");
    let mut present = true;
    for (at, event) in &above {
        match event {
            Event::Input(Input::Freeze { .. }) => present = false,
            Event::Input(Input::Thaw { .. }) => present = true,
            Event::Input(Input::Wake { .. }) if at.as_ns() > 0 => {
                assert!(present, "a task wakes in a frozen guest, at {at}")
            }
            _ => {}
        }
    }
    let arrived = interrupts(&above, |event| matches!(event, Event::Arrived { .. }));
    assert_eq!(arrived, 199, "all are there at once, in memory");
}

#[test]
fn an_interrupt_takes_its_time_from_the_entity_on_the_cpu() {
    let (free, dear) = (interrupted(Nanos::ZERO), interrupted(Nanos::us(5)));
    assert_eq!(free, (vec![510, 520], true, vec![2_020]), "one after the other, and the work takes as much longer");
    // The guest pays for its first entry, and then for one exit and entry around both interrupts.
    assert_eq!((dear.0, dear.2), (vec![510, 520], vec![2_020 + 5 + 5]));
}

/// Sends two packets, 3 us apart, while a guest works for 2 ms. Each packet causes an interrupt of 10 us. Returns the
/// arrivals of the packets, whether the guest stops during the interrupts, and the end of its work.
fn interrupted(exit: Nanos) -> (Vec<u64>, bool, Vec<u64>) {
    let mut log = Log::default();
    let mut world = World::new(1);
    world.watch_all(&mut log);
    let far = host(&mut world, "cfs", 1, Costs::NONE);
    let xen = host(&mut world, "cfs", 1, Costs { exit, ..Costs::NONE });
    let all = vcpus(&mut world, xen, "vm", 1, false);
    let vm = guest(&mut world, xen, "cfs", &all, Guest::default(), Costs::NONE);
    let work = vec![task("works", vec![run(Nanos::ms(2)), Step::Exit])];
    world.start(vm, &application(&[], work), GroupId::ROOT).expect("there is room");
    let to = start(&mut world, vm, inbox(), vec![task("reads", vec![forever(vec![receive(1_000)])])]);
    let from = start(
        &mut world,
        far,
        port(u64::MAX),
        vec![task("sends", vec![run(Nanos::us(500)), send(100), sleep(Nanos::us(3)), send(100)])],
    );
    let handled = Hop::Interrupt { machine: xen, cpu: CpuId::new(0), time: Nanos::us(10) };
    connect(&mut world, from, to, vec![handled]);
    world.finish(at(5)).expect("no task waits for ever");
    drop(world);
    let above = log.of(vm);
    let of = |what: fn(&Event) -> bool| -> Vec<u64> {
        above.iter().filter(|(_, event)| what(event)).map(|(at, _)| at.as_ns() / 1_000).collect()
    };
    let freezes = of(|event| matches!(event, Event::Input(Input::Freeze { .. })));
    let thaws = of(|event| matches!(event, Event::Input(Input::Thaw { .. })));
    let stands = freezes.contains(&500) && thaws.contains(&(520 + exit.as_ns() / 1_000));
    (of(|event| matches!(event, Event::Arrived { .. })), stands, of(|event| matches!(event, Event::Detach { .. })))
}

#[test]
fn a_guest_pays_for_the_call_that_tells_a_driver_that_waits() {
    let finished = |hypercall: Nanos, notify: Notify| {
        let mut log = Log::default();
        let mut world = World::new(1);
        world.watch_all(&mut log);
        let under = host(&mut world, "cfs", 2, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 1, true);
        let costs = Costs { hypercall, ..Costs::NONE };
        let vm = guest(&mut world, under, "cfs", &all, Guest::default(), costs);
        let far = host(&mut world, "cfs", 1, Costs::NONE);
        let to = start(&mut world, far, inbox(), Vec::new());
        let slow = Ring { notify, ..ring(Nanos::us(500)) };
        let serves = vec![task("vhost", vec![forever(vec![Step::Serve(FIRST)])])];
        let vhost = start(&mut world, under, ("ring", Object::Ring(slow)), serves);
        // The server of the ring receives its own CPU, and waits.
        world.run_until(at(20)).expect("no task waits for ever");
        let steps =
            vec![Step::Repeat { times: Some(10), body: vec![run(Nanos::us(10)), send(100)] }, run(Nanos::us(1))];
        let from = start(&mut world, vm, port(u64::MAX), vec![task("sends", steps)]);
        connect(&mut world, from, to, vec![Hop::Ring(vhost)]);
        world.finish(at(30)).expect("no task waits for ever");
        drop(world);
        let left = log.of(vm).into_iter().find(|(_, event)| matches!(event, Event::Detach { .. }));
        left.expect("it ends").0.as_ns() / 1_000 - 20_000
    };
    assert_eq!(finished(Nanos::ZERO, Notify::WhenIdle), 101);
    assert_eq!(finished(Nanos::us(4), Notify::WhenIdle), 105, "once: then the driver is at work");
    assert_eq!(finished(Nanos::us(4), Notify::Always), 141, "for each");
}

#[test]
fn a_packet_whose_server_ends_is_handled_by_another_server() {
    let mut world = World::new(1);
    let (from, to) = two_hosts(&mut world, u64::MAX, vec![send(100)], 100);
    let middle = host(&mut world, "cfs", 2, Costs::NONE);
    let serves = |name| task(name, vec![forever(vec![Step::Serve(FIRST)])]);
    let (number, tasks) = world
        .start(
            middle,
            &application(&[("ring", Object::Ring(ring(Nanos::ms(5))))], vec![serves("a"), serves("b")]),
            GroupId::ROOT,
        )
        .expect("there is room");
    let backend = Endpoint { machine: middle, application: number, object: FIRST };
    let flow = connect(&mut world, from, to, vec![Hop::Ring(backend)]);
    world.run_until(at(2)).expect("no task waits for ever");
    world.detach(middle, tasks[0]);
    world.run_until(at(6)).expect("no task waits for ever");
    let waiting = world.flow(flow);
    assert_eq!((waiting.sent, waiting.arrived, waiting.lost), (1, 0, 0), "the other one began anew");
    world.finish(at(40)).expect("no task waits for ever");
    assert_eq!(world.flow(flow).arrived, 1);
}

#[test]
fn a_port_that_leads_nowhere_is_told_of() {
    let mut world = World::new(1);
    let near = host(&mut world, "cfs", 1, Costs::NONE);
    start(&mut world, near, port(1_000), vec![task("sends", vec![run(Nanos::us(10)), send(100)])]);
    let stuck = world.finish(at(1)).expect_err("where should it go?").to_string();
    assert!(stuck.contains("the port `port` has no destination"), "{stuck}");
}

#[test]
fn several_read_from_an_inbox_in_the_order_in_which_they_came_and_senders_wait_for_each_other() {
    let mut log = Log::default();
    let mut world = World::new(1);
    world.watch_all(&mut log);
    let (near, far) = (host(&mut world, "cfs", 2, Costs::NONE), host(&mut world, "cfs", 2, Costs::NONE));
    let both = vec![task("first", vec![send(700)]), task("second", vec![run(Nanos::us(1)), send(700)])];
    let from = start(&mut world, near, port(1_000), both);
    let readers = vec![task("one", vec![receive(700)]), task("two", vec![run(Nanos::us(1)), receive(700)])];
    let to = start(&mut world, far, inbox(), readers);
    let wire = line(&mut world, Nanos::us(50));
    connect(&mut world, from, to, vec![wire]);
    world.finish(at(1)).expect("no task waits for ever");
    drop(world);
    let ends: Vec<(u64, usize)> = log
        .of(far)
        .iter()
        .filter_map(|(at, event)| match event {
            Event::Detach { entity } => Some((at.as_ns() / 1_000, entity.index())),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(50, 0), (100, 1)], "the second has room once the first was read");
}

#[test]
fn a_run_that_cannot_go_on_says_why_though_a_packet_was_just_handled() {
    let mut world = World::new(1);
    let (from, to) = two_hosts(&mut world, u64::MAX, vec![send(100)], 100);
    let middle = host(&mut world, "cfs", 2, Costs::NONE);
    let objects = [("ring", Object::Ring(ring(Nanos::us(10)))), ("posts", Object::Semaphore { most: 1 })];
    let circles = task("circles", vec![run(Nanos::us(10)), forever(vec![Step::Post(SECOND)])]);
    let tasks = vec![task("serves", vec![forever(vec![Step::Serve(FIRST)])]), circles];
    let (number, _) = world.start(middle, &application(&objects, tasks), GroupId::ROOT).expect("there is room");
    let backend = Endpoint { machine: middle, application: number, object: FIRST };
    connect(&mut world, from, to, vec![Hop::Ring(backend)]);
    let stuck = world.finish(at(1)).expect_err("it loops").to_string();
    assert!(stuck.contains("circles loops without using any time"), "{stuck}");
}

#[test]
fn a_task_queued_behind_a_detached_task_continues() {
    let late = |name, steps, ms| TaskSpec { delay: Nanos::ms(ms).into(), ..task(name, steps) };
    let mut world = World::new(1);
    let (near, far) = (host(&mut world, "cfs", 2, Costs::NONE), host(&mut world, "cfs", 1, Costs::NONE));
    let senders = vec![task("fills", vec![send(600)]), late("a", vec![send(1_000)], 1), late("b", vec![send(300)], 2)];
    let (sends, all) = world.start(near, &application(&[port(1_000)], senders), GroupId::ROOT).expect("there is room");
    let readers = vec![late("c", vec![receive(1_000)], 1), late("d", vec![receive(200)], 2)];
    let (reads, both) = world.start(far, &application(&[inbox()], readers), GroupId::ROOT).expect("there is room");
    let end = |machine, application| Endpoint { machine, application, object: FIRST };
    let flow = connect(&mut world, end(near, sends), end(far, reads), Vec::new());
    world.run_until(at(10)).expect("no task waits for ever");
    assert_eq!((world.flow(flow).bytes_sent, world.flow(flow).bytes_read), (600, 0), "600 is less than they want");
    world.detach(near, all[1]);
    world.detach(far, both[0]);
    world.finish(at(20)).expect("no task waits for ever");
    assert_eq!((world.flow(flow).bytes_sent, world.flow(flow).bytes_read), (900, 200));
}

#[test]
fn what_was_read_is_told_of_in_time_however_it_is_read() {
    let mut world = World::new(1);
    let (from, to) = two_hosts(&mut world, 4_500, vec![forever(vec![send(1_500)])], 2_500);
    let wire = line(&mut world, Nanos::us(50));
    let acks = Some(Acks { every: 2, way: vec![wire] });
    let flow = world.connect(Flow {
        name: "bulk".to_string(),
        from,
        to,
        packet: 1_500,
        way: vec![wire],
        acks,
        reliable: true,
    });
    world.finish(at(1_000)).expect("no task waits for ever");
    let read = world.flow(flow).bytes_read;
    // The first 2500 bytes are less than two packets, and the next 2500 bytes have not all arrived. The acknowledgement
    // is therefore delayed by 40 ms.
    assert!((50_000..=130_000).contains(&read), "{read}");
}

#[test]
fn gigabytes_are_read_at_once() {
    let mut world = World::new(1);
    let big = 5 << 30;
    let (near, far) = (host(&mut world, "cfs", 1, Costs::NONE), host(&mut world, "cfs", 1, Costs::NONE));
    let from = start(&mut world, near, port(u64::MAX), vec![task("sends", vec![send(big)])]);
    let wide = ("inbox", Object::Inbox { room: u64::MAX });
    let to = start(&mut world, far, wide, vec![task("reads", vec![receive(big)])]);
    let acks = Some(Acks { every: 2, way: Vec::new() });
    let flow = world.connect(Flow {
        name: "big".to_string(),
        from,
        to,
        packet: 1 << 20,
        way: Vec::new(),
        acks,
        reliable: true,
    });
    world.finish(at(10)).expect("no task waits for ever");
    assert_eq!(world.flow(flow).bytes_read, big);
}
