//! Random networks: packets between the machines, through rings, lines and interrupts.

use super::dice::Dice;
use super::programs::{length, task};
use sched::{CpuId, GroupId, Nanos};
use sim::network::{Acks, Endpoint, Flow, Hop, Line, LineId};
use sim::program::{Notify, Object, ObjectId, Ring, Step};
use sim::{Application, World};
use trace::MachineId;

/// Lines and rings of the flows.
#[derive(Default)]
pub(super) struct Net {
    lines: Vec<LineId>,
    rings: Vec<Endpoint>,
}

/// Adds one to three lines and up to three rings. One or two tasks of a random machine serve each ring.
pub(super) fn lay(world: &mut World<'_>, dice: &mut Dice) -> Net {
    let mut net = Net::default();
    for _ in 0..1 + dice.below(3) {
        let line = Line {
            service: if dice.one_in(2) { Nanos::ZERO.into() } else { length(dice) },
            bandwidth: dice.one_in(2).then(|| 1 + dice.below(1 << 30)),
            latency: if dice.one_in(3) { Nanos::ZERO.into() } else { length(dice) },
            room: dice.one_in(3).then(|| u32::try_from(dice.below(20)).expect("there are few")),
            ..Line::new("line")
        };
        net.lines.push(world.add_line(line));
    }
    for _ in 0..1 + dice.below(3) {
        let machine = any(world, dice);
        let ring = Ring {
            cost: if dice.one_in(4) { Nanos::ZERO.into() } else { length(dice) },
            room: 1 + u32::try_from(dice.below(50)).expect("there are few"),
            notify: if dice.one_in(2) { Notify::WhenIdle } else { Notify::Always },
            delay: if dice.one_in(2) { Nanos::ZERO } else { dice.span(Nanos::us(200)) },
            kick: if dice.one_in(2) { Nanos::ZERO } else { dice.span(Nanos::us(5)) },
            passes: dice.one_in(3),
        };
        let mut application = Application::default();
        let object = application.share("ring", Object::Ring(ring));
        for _ in 0..1 + dice.below(2) {
            let body = vec![Step::Serve(object), Step::Run(Nanos::us(1).into())];
            let steps = vec![Step::Repeat { times: None, body }];
            application.tasks.push(task("serves".to_string(), dice, steps));
        }
        if let Ok((application, _)) = world.start(machine, &application, GroupId::ROOT) {
            net.rings.push(Endpoint { machine, application, object });
        }
    }
    net
}

fn any(world: &World<'_>, dice: &mut Dice) -> MachineId {
    MachineId(u32::try_from(dice.below(world.machines() as u64)).expect("there are few"))
}

/// Returns the hops of a flow.
fn way(world: &World<'_>, net: &Net, dice: &mut Dice) -> Vec<Hop> {
    let hop = |dice: &mut Dice| match dice.below(5) {
        0 => dice.choose(&net.rings).map(Hop::Ring),
        1 => dice.choose(&net.rings).map(Hop::Completion),
        2 => {
            // Only hosts receive interrupts from the network; the first machine is a host.
            let interrupted = (MachineId(0), world.machine(MachineId(0)).machine().topology().cpus);
            let cpu = usize::try_from(dice.below(interrupted.1 as u64)).expect("there are few");
            Some(Hop::Interrupt { machine: interrupted.0, cpu: CpuId::new(cpu), time: dice.span(Nanos::us(30)) })
        }
        3 => Some(Hop::Cost(if dice.one_in(4) { Nanos::ZERO.into() } else { length(dice) })),
        _ => dice.choose(&net.lines).map(Hop::Line),
    };
    // Every path ends with a line. Most lines have a latency, so that immediate answers rarely circulate in zero time.
    let mut way: Vec<Hop> = (0..dice.below(4)).filter_map(|_| hop(dice)).collect();
    way.extend(dice.choose(&net.lines).map(Hop::Line));
    way
}

/// Starts a sender and a receiver, each on a random machine, and connects them. Returns both applications, or none if a
/// machine refuses one of them.
pub(super) fn flow(world: &mut World<'_>, net: &Net, dice: &mut Dice) -> Vec<(MachineId, u32)> {
    let (from, to) = (any(world, dice), any(world, dice));
    let packet = 1 + u32::try_from(dice.below(2000)).expect("it is small");
    let bytes = 1 + dice.below(8000);
    let window = if dice.one_in(3) { u64::MAX } else { bytes + dice.below(20_000) };
    let (port, inbox) = (ObjectId(0), ObjectId(0));
    let mut ends = Vec::new();
    for (machine, name, object, step) in [
        (from, "sends", Object::Port { window }, Step::Send { pipe: port, bytes }),
        (
            to,
            "receives",
            Object::Inbox { room: 1 + dice.below(60_000) },
            Step::Receive { pipe: inbox, bytes: 1 + dice.below(bytes) },
        ),
    ] {
        let mut application = Application::default();
        application.share(name, object);
        let body = vec![Step::Run(Nanos::us(1).into()), Step::Run(length(dice)), step];
        application.tasks.push(task(name.to_string(), dice, vec![Step::Repeat { times: None, body }]));
        let Ok((application, _)) = world.start(machine, &application, GroupId::ROOT) else {
            ends.iter().for_each(|&(machine, application)| world.stop(machine, application));
            return Vec::new();
        };
        ends.push((machine, application));
    }
    let end = |(machine, application)| Endpoint { machine, application, object: port };
    let reliable = dice.one_in(2);
    let acks = (reliable && dice.one_in(2)).then(|| Acks { every: 2, way: way(world, net, dice) });
    let flow = Flow {
        name: "flow".to_string(),
        from: end(ends[0]),
        to: end(ends[1]),
        packet,
        way: way(world, net, dice),
        acks,
        reliable,
    };
    world.connect(flow);
    ends
}
