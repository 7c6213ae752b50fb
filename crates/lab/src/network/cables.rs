//! [`Cables`]: the lines, rings and threads of a world's network and disk, laid as its machines boot.

use super::{Device, Drivers, Link, OUTSIDE, RECEIVER, Way, backend_of, thread_of};
use crate::problem::Problems;
use crate::scenario::Scenario;
use sched::{CpuId, GroupId, Host, Nanos, Params, Refused};
use sim::network::{Acks, Endpoint, Flow, FlowId, Hop, Line, LineId};
use sim::program::{Length, ObjectId, Ring};
use sim::{Application, Costs, Object, Step, TaskSpec, World};
use std::collections::BTreeMap;
use trace::MachineId;

/// How many packets may wait for a driver. Source: netdev_max_backlog's default, 1000 (net/core/hotdata.c of Linux 6.18); Xen's and
/// virtio's rings hold 256, and what finds no place there waits in a queue of about that length before it.
const ROOM: u32 = 1_000;

/// Where a part of an application runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Seat {
    Host,
    Guest(usize),
    Outside,
}

/// What connects the machines of a world.
#[derive(Debug)]
pub(crate) struct Cables<'s> {
    scenario: &'s Scenario,
    host: MachineId,
    outside: Option<MachineId>,
    /// By guest.
    guests: Vec<Option<MachineId>>,
    wire: Option<LineId>,
    disk: Option<LineId>,
    /// The link of a machine, out and in, where it is a limit.
    links: BTreeMap<Seat, (LineId, LineId)>,
    /// Who drives a device for a guest; of split drivers, for all: `None`.
    rings: BTreeMap<(Option<usize>, Device), Endpoint>,
    /// Who takes in the packets of a guest.
    receivers: BTreeMap<usize, Endpoint>,
}

impl<'s> Cables<'s> {
    /// The cables of `scenario`, whose host is there already; and the machine outside, if anything runs there.
    ///
    /// # Errors
    /// There is no policy for that.
    pub(crate) fn new(scenario: &'s Scenario, host: MachineId, world: &mut World<'_>) -> Result<Cables<'s>, Problems> {
        let tasks = scenario.outside();
        let outside = if tasks == 0 {
            None
        } else {
            let policy = crate::policy("round-robin")?;
            let built = world.add_host(OUTSIDE, policy, Host::new(tasks), &policy.defaults(), Costs::NONE);
            Some(built.expect("it works on any machine"))
        };
        let wire = scenario.network.as_ref();
        let wire = wire.map(|it| world.add_line(Line { latency: it.latency, ..Line::new("wire") }));
        let disk = scenario
            .disk
            .as_ref()
            .map(|it| world.add_line(Line { service: it.service, bandwidth: it.bandwidth, ..Line::new("disk") }));
        Ok(Cables {
            scenario,
            host,
            outside,
            guests: vec![None; scenario.guests.len()],
            wire,
            disk,
            links: BTreeMap::new(),
            rings: BTreeMap::new(),
            receivers: BTreeMap::new(),
        })
    }

    /// The machine outside, if there is one.
    pub(crate) fn outside(&self) -> Option<MachineId> {
        self.outside
    }

    /// The machine of a part that has booted.
    pub(crate) fn machine(&self, seat: Seat) -> MachineId {
        match seat {
            Seat::Host => self.host,
            Seat::Guest(guest) => self.guests[guest].expect("an application comes after its guests"),
            Seat::Outside => self.outside.expect("it is there where something runs on it"),
        }
    }

    /// Guest number `guest` has booted as `machine`; its VM is `group` on the host. Whoever drives devices for it, or in it, comes with it.
    ///
    /// # Errors
    /// A policy refuses one of these tasks.
    pub(crate) fn boot(
        &mut self,
        guest: usize,
        machine: MachineId,
        group: GroupId,
        world: &mut World<'_>,
    ) -> Result<(), Refused> {
        self.guests[guest] = Some(machine);
        let scenario = self.scenario;
        let users = scenario.device_users();
        let mut emulator = None;
        for device in [Device::Network, Device::Disk] {
            let Some(drivers) = scenario.drivers(device) else { continue };
            let uses = users.contains(&(guest, device));
            let name = &scenario.guests[guest].name;
            match &drivers.way {
                Way::Vhost | Way::Emulator if uses => {
                    let thread = thread_of(name, &drivers.way, device).expect("it has one");
                    let known = emulator.filter(|_| drivers.way == Way::Emulator);
                    let at = match known {
                        Some(at) => at,
                        None => start(world, self.host, group, &server(&thread, drivers.event, drivers))?,
                    };
                    emulator = emulator.or((drivers.way == Way::Emulator).then_some(at));
                    self.rings.insert((Some(guest), device), at);
                }
                Way::Split { domain } if domain == name => {
                    let thread = server(backend_of(device), drivers.event, drivers);
                    let at = start(world, machine, GroupId::ROOT, &thread)?;
                    self.rings.insert((None, device), at);
                }
                _ => {}
            }
        }
        if let Some(network) = scenario.network.as_ref().filter(|_| users.contains(&(guest, Device::Network)))
            && !crate::workloads::is_nothing(network.received)
        {
            let thread = server(RECEIVER, network.received, &network.drivers);
            self.receivers.insert(guest, start(world, machine, GroupId::ROOT, &thread)?);
        }
        Ok(())
    }

    /// Lays `link` between parts of an application, each where it runs and with its number there.
    pub(crate) fn connect(&mut self, link: &Link, parts: &[(Seat, u32)], world: &mut World<'_>) -> FlowId {
        let end = |end: super::End| {
            let (seat, application) = parts[end.part];
            (seat, Endpoint { machine: self.machine(seat), application, object: end.object })
        };
        let ((there, from), (here, to)) = (end(link.from), end(link.to));
        let (packet, way, back) = match link.over {
            Device::Disk => (u32::MAX, self.request(here), Vec::new()),
            Device::Drive => {
                // One end is the drive itself.
                let way = [self.driven(there, Device::Disk, false), self.driven(here, Device::Disk, false)].concat();
                (u32::MAX, way, Vec::new())
            }
            Device::Network => {
                let packet = self.scenario.network.as_ref().map_or(1_500, |it| it.packet);
                (packet, self.way(there, here, world), self.way(here, there, world))
            }
        };
        let acks = link.acks.map(|every| Acks { every, way: back });
        let name = link.name.clone();
        world.connect(Flow { name, from, to, packet, way, acks, reliable: link.reliable })
    }

    /// From one machine to another.
    fn way(&mut self, from: Seat, to: Seat, world: &mut World<'_>) -> Vec<Hop> {
        let mut way = self.driven(from, Device::Network, true);
        way.extend(self.link(from, world).map(|(out, _)| Hop::Line(out)));
        way.extend(self.wire.map(Hop::Line));
        way.extend(self.link(to, world).map(|(_, inward)| Hop::Line(inward)));
        way.extend(self.driven(to, Device::Network, false));
        if let Seat::Guest(guest) = to {
            way.extend(self.receivers.get(&guest).map(|&at| Hop::Ring(at)));
        }
        way
    }

    /// A request to the disk, and what comes of it.
    fn request(&self, of: Seat) -> Vec<Hop> {
        let mut way = self.driven(of, Device::Disk, false);
        way.extend(self.disk.map(Hop::Line));
        way.extend(self.driven(of, Device::Disk, false));
        way
    }

    /// Who handles what passes in or out of a machine. What goes out over the network is told of again when it is on the wire.
    fn driven(&self, seat: Seat, device: Device, completes: bool) -> Vec<Hop> {
        let (Seat::Guest(guest), Some(drivers)) = (seat, self.scenario.drivers(device)) else { return Vec::new() };
        match &drivers.way {
            Way::Direct => Vec::new(),
            Way::Hypervisor => {
                let Length::Fixed(time) = drivers.event else { unreachable!("an interrupt takes a fixed time") };
                let cpu = CpuId::new(guest % self.scenario.host.cpus);
                vec![Hop::Interrupt { machine: self.host, cpu, time }; 1 + usize::from(completes)]
            }
            // The driver domain has the device itself.
            Way::Split { domain } if *domain == self.scenario.guests[guest].name => Vec::new(),
            way => {
                let guest = matches!(way, Way::Vhost | Way::Emulator).then_some(guest);
                let at = self.rings[&(guest, device)];
                let cost = (*way == Way::Emulator).then_some(Hop::Cost(drivers.event));
                let completion = completes.then_some(Hop::Completion(at));
                // Both are told of at once.
                cost.into_iter().chain(completion).chain([Hop::Ring(at)]).collect()
            }
        }
    }

    /// The link of a machine of the scenario, where it is a limit.
    fn link(&mut self, of: Seat, world: &mut World<'_>) -> Option<(LineId, LineId)> {
        let network = self.scenario.network.as_ref()?;
        let bandwidth = Some(network.bandwidth.filter(|_| of != Seat::Outside)?);
        let mut line = |name: &str| world.add_line(Line { bandwidth, room: network.room, ..Line::new(name) });
        Some(*self.links.entry(of).or_insert_with(|| (line("out"), line("in"))))
    }
}

/// A thread that handles what gathers in a ring, each in `cost`.
fn server(name: &str, cost: Length, drivers: &Drivers) -> Application {
    let mut application = Application::default();
    let ring = Ring { cost, room: ROOM, notify: drivers.notify, delay: drivers.delay, kick: drivers.kick };
    let ring = application.share(name, Object::Ring(ring));
    let steps = vec![Step::Repeat { times: None, body: vec![Step::Serve(ring)] }];
    let delay = Length::Fixed(Nanos::ZERO);
    application.tasks.push(TaskSpec { name: name.to_string(), params: Params::default(), delay, steps });
    application
}

fn start(world: &mut World<'_>, machine: MachineId, group: GroupId, thread: &Application) -> Result<Endpoint, Refused> {
    let (application, _) = world.start(machine, thread, group)?;
    Ok(Endpoint { machine, application, object: ObjectId(0) })
}
