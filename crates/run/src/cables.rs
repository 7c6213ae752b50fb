//! [`Cables`]: the lines, rings and driver threads of a world's network and disks.

use crate::choose::policy;
use crate::machines::machine_of_host;
use input::problem::Problems;
use scenario::Scenario;
use scenario::devices::{Drivers, OUTSIDE, RECEIVER, Way, backend_of, thread_of};
use sched::{CpuId, GroupId, Nanos, Params, Refused, Topology};
use sim::network::{Acks, Endpoint, Flow, FlowId, Hop, Line, LineId};
use sim::program::{Length, ObjectId, Ring};
use sim::{Application, Costs, Object, Step, TaskSpec, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace::MachineId;
use workloads::network::{Device, End, Link};

/// Maximum number of packets that wait for a driver. Source: netdev_max_backlog's default, 1000 (net/core/hotdata.c of
/// Linux 6.18). Xen's and virtio's rings hold 256 packets. Further packets wait in front of the ring, in a queue of
/// about the length of the backlog.
const ROOM: u32 = 1_000;

/// The machine on which a part of an application runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Seat {
    /// A host, by its number, counted from 0.
    Host(usize),
    Guest(usize),
    Outside,
}

/// The machines that a device driver serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Driven {
    /// A guest, served by a thread of its host.
    Guest(usize),
    /// All guests of a host, served by its driver domain.
    Host(usize),
}

/// The connections between the machines of a world.
#[derive(Debug)]
pub(crate) struct Cables {
    scenario: Arc<Scenario>,
    outside: Option<MachineId>,
    /// Machines of the guests, by guest.
    guests: Vec<Option<MachineId>>,
    wire: Option<LineId>,
    /// Line between machines of one host. `None`: their packets pass `wire`.
    bridge: Option<LineId>,
    /// Lines of the disks, by host.
    disks: Vec<LineId>,
    /// Outgoing and incoming link of each machine with a limited bandwidth.
    links: BTreeMap<Seat, (LineId, LineId)>,
    /// Endpoint of the thread that drives a device for a guest, or for all guests of a host.
    rings: BTreeMap<(Driven, Device), Endpoint>,
    /// Endpoint of the thread that receives a guest's packets, by guest.
    receivers: BTreeMap<usize, Endpoint>,
}

impl Cables {
    /// Creates the connections of `scenario`, whose hosts already exist in `world`. Also creates the machine outside,
    /// if any task runs outside.
    ///
    /// # Errors
    /// The policy of the machine outside does not exist.
    pub(crate) fn new(scenario: &Arc<Scenario>, world: &mut World<'_>) -> Result<Cables, Problems> {
        let tasks = scenario.outside();
        let outside = if tasks == 0 {
            None
        } else {
            let policy = policy("round-robin")?;
            let built = world.add_host(OUTSIDE, policy, Topology::new(tasks), &policy.defaults(), Costs::NONE);
            Some(built.expect("it works on any machine"))
        };
        let wire = scenario.network.as_ref();
        let wire = wire.map(|it| world.add_line(Line { latency: it.latency, ..Line::new("wire") }));
        let local = scenario.network.as_ref().and_then(|it| it.local);
        let bridge = local.map(|latency| world.add_line(Line { latency, ..Line::new("bridge") }));
        let disk = scenario.disk.iter().flat_map(|it| std::iter::repeat_n(it, scenario.hosts));
        let disks = disk
            .map(|it| world.add_line(Line { service: it.service, bandwidth: it.bandwidth, ..Line::new("disk") }))
            .collect();
        Ok(Cables {
            scenario: Arc::clone(scenario),
            outside,
            guests: vec![None; scenario.guests.len()],
            wire,
            bridge,
            disks,
            links: BTreeMap::new(),
            rings: BTreeMap::new(),
            receivers: BTreeMap::new(),
        })
    }

    /// Returns the machine outside. `None`: the world has no outside.
    pub(crate) fn outside(&self) -> Option<MachineId> {
        self.outside
    }

    /// Returns the machine at `seat`, which must have booted.
    pub(crate) fn machine(&self, seat: Seat) -> MachineId {
        match seat {
            Seat::Host(host) => machine_of_host(host),
            Seat::Guest(guest) => self.guests[guest].expect("an application comes after its guests"),
            Seat::Outside => self.outside.expect("it is there where something runs on it"),
        }
    }

    /// Adds guest number `guest`, which has booted as `machine` and whose VM is `group` on the host. Starts the driver
    /// threads on the host that serve only this guest. Starts the driver threads that run in this guest, and the thread
    /// that receives its packets.
    ///
    /// # Errors
    /// A policy refuses a driver thread.
    pub(crate) fn boot(
        &mut self,
        guest: usize,
        machine: MachineId,
        group: GroupId,
        world: &mut World<'_>,
    ) -> Result<(), Refused> {
        self.guests[guest] = Some(machine);
        let scenario = Arc::clone(&self.scenario);
        let users = scenario.device_users();
        let on = scenario.host_of(guest);
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
                        None => {
                            let thread = server(&thread, drivers.event, (drivers, ROOM));
                            start(world, machine_of_host(on), group, &thread)?
                        }
                    };
                    emulator = emulator.or((drivers.way == Way::Emulator).then_some(at));
                    self.rings.insert((Driven::Guest(guest), device), at);
                }
                Way::Split { domains, affinity } if domains.contains(name) => {
                    let mut thread = server(backend_of(device), drivers.event, (drivers, ROOM));
                    thread.tasks.iter_mut().for_each(|task| task.params.affinity = *affinity);
                    let at = start(world, machine, GroupId::ROOT, &thread)?;
                    self.rings.insert((Driven::Host(on), device), at);
                }
                _ => {}
            }
        }
        if let Some(network) = scenario.network.as_ref().filter(|_| users.contains(&(guest, Device::Network)))
            && !workloads::is_nothing(network.received)
        {
            let thread = server(RECEIVER, network.received, (&network.drivers, network.ring));
            self.receivers.insert(guest, start(world, machine, GroupId::ROOT, &thread)?);
        }
        Ok(())
    }

    /// Creates `link` between parts of an application. Each part is given by its seat and its number on that machine.
    pub(crate) fn connect(&mut self, link: &Link, parts: &[(Seat, u32)], world: &mut World<'_>) -> FlowId {
        let end = |end: End| {
            let (seat, application) = parts[end.part];
            (seat, Endpoint { machine: self.machine(seat), application, object: end.object })
        };
        let ((there, from), (here, to)) = (end(link.from), end(link.to));
        let (packet, way, back) = match link.over {
            Device::Disk => (u32::MAX, self.request(here), Vec::new()),
            Device::Drive => {
                // One end of the link is the drive itself.
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

    /// Returns the hops from one machine to another.
    fn way(&mut self, from: Seat, to: Seat, world: &mut World<'_>) -> Vec<Hop> {
        let mut way = self.driven(from, Device::Network, true);
        let (out, inward) = (self.plug(from), self.plug(to));
        // If there are several hosts, packets between machines of one host do not pass the host's link.
        let leaves = self.scenario.hosts == 1 || out != inward;
        way.extend(self.link(out, world).filter(|_| leaves).map(|(out, _)| Hop::Line(out)));
        way.extend(if self.home(from) == self.home(to) { self.bridge.or(self.wire) } else { self.wire }.map(Hop::Line));
        way.extend(self.link(inward, world).filter(|_| leaves).map(|(_, inward)| Hop::Line(inward)));
        way.extend(self.driven(to, Device::Network, false));
        if let Seat::Guest(guest) = to {
            way.extend(self.receivers.get(&guest).map(|&at| Hop::Ring(at)));
        }
        way
    }

    /// Returns the hops of a request to the disk, and of its completion.
    fn request(&self, of: Seat) -> Vec<Hop> {
        let mut way = self.driven(of, Device::Disk, false);
        way.extend(self.home(of).and_then(|host| self.disks.get(host)).map(|&disk| Hop::Line(disk)));
        way.extend(self.driven(of, Device::Disk, false));
        way
    }

    /// Returns the driver's hops of packets or disk requests into or out of a machine. If `completes`, the driver also
    /// handles a completion for each packet.
    fn driven(&self, seat: Seat, device: Device, completes: bool) -> Vec<Hop> {
        let (Seat::Guest(guest), Some(drivers)) = (seat, self.scenario.drivers(device)) else { return Vec::new() };
        match &drivers.way {
            Way::Direct => Vec::new(),
            Way::Hypervisor => {
                let Length::Fixed(time) = drivers.event else { unreachable!("an interrupt takes a fixed time") };
                let cpu = CpuId::new(guest % self.scenario.host.cpus);
                let machine = machine_of_host(self.scenario.host_of(guest));
                vec![Hop::Interrupt { machine, cpu, time }; 1 + usize::from(completes)]
            }
            // The driver domain accesses the device directly.
            Way::Split { domains, .. } if domains.contains(&self.scenario.guests[guest].name) => Vec::new(),
            way => {
                let driven = match way {
                    Way::Vhost | Way::Emulator => Driven::Guest(guest),
                    _ => Driven::Host(self.scenario.host_of(guest)),
                };
                let at = self.rings[&(driven, device)];
                let cost = (*way == Way::Emulator).then_some(Hop::Cost(drivers.event));
                let completion = completes.then_some(Hop::Completion(at));
                // The completion enters the ring at the same instant as the packet, not after the packet is sent.
                cost.into_iter().chain(completion).chain([Hop::Ring(at)]).collect()
            }
        }
    }

    /// Returns the host of a seat.
    fn home(&self, of: Seat) -> Option<usize> {
        match of {
            Seat::Host(host) => Some(host),
            Seat::Guest(guest) => Some(self.scenario.host_of(guest)),
            Seat::Outside => None,
        }
    }

    /// Returns the seat through whose link the packets of `of` pass. In a world of one host, each machine has its own
    /// link.
    fn plug(&self, of: Seat) -> Seat {
        match of {
            Seat::Guest(guest) if self.scenario.hosts > 1 => Seat::Host(self.scenario.host_of(guest)),
            other => other,
        }
    }

    /// Returns the outgoing and the incoming link of a machine of the scenario. Creates the links at the first call.
    /// `None`: the bandwidth is unlimited.
    fn link(&mut self, of: Seat, world: &mut World<'_>) -> Option<(LineId, LineId)> {
        let network = self.scenario.network.as_ref()?;
        let bandwidth = Some(network.bandwidth.filter(|_| of != Seat::Outside)?);
        let mut line = |name: &str| world.add_line(Line { bandwidth, room: network.room, ..Line::new(name) });
        Some(*self.links.entry(of).or_insert_with(|| (line("out"), line("in"))))
    }
}

/// Returns a thread that handles the entries of a ring, each with CPU time `cost`.
fn server(name: &str, cost: Length, (drivers, room): (&Drivers, u32)) -> Application {
    let mut application = Application::default();
    let ring =
        Ring { cost, room, notify: drivers.notify, delay: drivers.delay, passes: drivers.passes, kick: drivers.kick };
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
