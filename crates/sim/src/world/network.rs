//! Traffic between machines: packets go from hop to hop.

use super::World;
use crate::network::line::Running;
use crate::network::{
    ACK_DELAY, DeferredNotify, Due, Endpoint, Flow, FlowCounts, FlowId, Hop, Kind, Line, LineId, Packet, Stream,
};
use crate::outbox::Traffic;
use crate::program::{Notified, ObjectId};
use sched::{EntityId, Nanos};
use trace::{Event, MachineId};

/// The task that sends or forwards a packet, and pays for the notification.
#[derive(Clone, Copy)]
struct By {
    task: (MachineId, EntityId),
    /// Whether the task notifies receivers only at the end of its pass.
    later: bool,
}

impl By {
    fn now(machine: MachineId, entity: EntityId) -> By {
        By { task: (machine, entity), later: false }
    }
}

impl World<'_> {
    /// Adds a line.
    ///
    /// # Panics
    /// The bandwidth of the line is zero.
    pub fn add_line(&mut self, line: Line) -> LineId {
        let number = self.network.lines.len();
        self.network.lines.push(Running::new(line, self.seed, number as u64));
        LineId(u32::try_from(number).expect("a world has fewer than 2^32 lines"))
    }

    /// Adds a flow.
    ///
    /// # Panics
    /// An endpoint names an application that does not exist, or the port already has a flow. The packet size or the
    /// number of packets per acknowledgement is zero. An unreliable flow has acknowledgements. An interrupt names a CPU
    /// that belongs to no host.
    pub fn connect(&mut self, flow: Flow) -> FlowId {
        let (port, inbox) = (self.object_at(flow.from), self.object_at(flow.to));
        let acks = flow.acks.as_ref();
        assert!(acks.is_none_or(|acks| acks.every > 0), "an acknowledgement is for something");
        for hop in flow.way.iter().chain(acks.into_iter().flat_map(|acks| &acks.way)) {
            if let Hop::Interrupt { machine, cpu, .. } = *hop {
                assert!(self.places[machine.index()].host.is_none(), "guests are interrupted by their hosts");
                assert!(cpu.index() < self.machines[machine.index()].machine.topology().cpus, "{cpu} is there");
            }
        }
        let number = u32::try_from(self.network.streams.len()).expect("a world has fewer than 2^32 flows");
        let other = self.network.flow_of.insert((flow.from.machine, port), number);
        assert!(other.is_none(), "a port has one flow");
        assert!(flow.packet > 0, "a packet carries something");
        assert!(flow.reliable || flow.acks.is_none(), "a flow with acknowledgements is reliable");
        self.network.streams.push(Stream {
            flow,
            port,
            inbox,
            counts: FlowCounts::default(),
            unacked_bytes: 0,
            ack_scheduled: false,
        });
        FlowId(number)
    }

    /// Returns the counts of the packets of a flow.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> FlowCounts {
        self.network.streams[flow.0 as usize].counts
    }

    /// Returns the number of an object of an application among the objects of its machine.
    fn object_at(&self, at: Endpoint) -> ObjectId {
        let applications = &self.machines[at.machine.index()].tasks.applications;
        ObjectId(applications[at.application as usize].base + at.object.0)
    }

    /// Sends the traffic of a machine to its next hops.
    pub(super) fn ship(&mut self, index: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "a world has fewer than 2^32 machines")]
        let machine = MachineId(index as u32);
        let mut traffic = self.machines[index].cpus.outbox.take_traffic();
        for out in traffic.drain(..) {
            match out {
                Traffic::Sent { port, entity, bytes } => self.send(machine, port, entity, bytes),
                Traffic::Onward { packet, .. } if packet.kind == Kind::Completion => {}
                Traffic::Onward { entity, packet, later } => {
                    self.travel(packet, Some(By { task: (machine, entity), later }));
                }
                Traffic::Pass { entity } => self.end_pass(machine, entity),
                Traffic::Read { entity, flow, bytes } => self.acknowledge(machine, entity, flow, bytes),
            }
        }
        // Traffic that was added meanwhile is sent in the next call.
        self.machines[index].cpus.outbox.reuse(traffic);
    }

    fn send(&mut self, machine: MachineId, port: ObjectId, entity: EntityId, bytes: u64) {
        let Some(&flow) = self.network.flow_of.get(&(machine, port)) else {
            let it = &mut self.machines[machine.index()];
            let why = format!("the port `{}` has no destination", it.tasks.objects[port.0 as usize].name);
            return it.get_stuck(why, "add a flow from the port");
        };
        let now = self.now;
        self.machines[machine.index()].show(|| Event::Sent { entity, flow, bytes });
        let most = u64::from(self.network.streams[flow as usize].flow.packet);
        let mut rest = bytes;
        while rest > 0 {
            let part = rest.min(most);
            rest -= part;
            let counts = &mut self.network.streams[flow as usize].counts;
            counts.sent += 1;
            counts.bytes_sent += part;
            let packet = Packet { flow, kind: Kind::Data, hop: 0, bytes: part, sent: now, cost: None };
            self.travel(packet, Some(By::now(machine, entity)));
        }
    }

    /// Records that `entity` has read data. In a flow without acknowledgements, frees the sender's room at once.
    /// Otherwise sends or schedules an acknowledgement.
    fn acknowledge(&mut self, machine: MachineId, entity: EntityId, flow: u32, bytes: u64) {
        let stream = &mut self.network.streams[flow as usize];
        stream.counts.bytes_read += bytes;
        let Some(acks) = &stream.flow.acks else { return self.make_room(flow, bytes) };
        stream.unacked_bytes += bytes;
        let counts = stream.counts;
        let is_all = counts.bytes_read + counts.bytes_lost == counts.bytes_sent;
        if is_all || stream.unacked_bytes >= u64::from(stream.flow.packet) * u64::from(acks.every) {
            return self.send_ack(flow, Some(By::now(machine, entity)));
        }
        if !stream.ack_scheduled {
            stream.ack_scheduled = true;
            self.network.schedule(self.now.saturating_add(ACK_DELAY), Due::Ack(flow));
        }
    }

    /// Acknowledges the bytes of a flow that were read and not acknowledged yet.
    fn send_ack(&mut self, flow: u32, by: Option<By>) {
        let stream = &mut self.network.streams[flow as usize];
        let bytes = std::mem::take(&mut stream.unacked_bytes);
        if bytes > 0 {
            self.travel(Packet { flow, kind: Kind::Ack, hop: 0, bytes, sent: self.now, cost: None }, by);
        }
    }

    fn make_room(&mut self, flow: u32, bytes: u64) {
        let stream = &self.network.streams[flow as usize];
        let (machine, port) = (stream.flow.from.machine, stream.port);
        let it = &mut self.machines[machine.index()];
        it.cpus.now = self.now;
        it.make_room(port, bytes);
        it.notify(port);
        self.schedule_visit(machine);
    }

    /// Delivers all packets, notices and acknowledgements that are due now.
    pub(super) fn deliver(&mut self) {
        while self.network.next() == self.now {
            match self.network.pop() {
                Some(Due::Packet(packet)) => self.travel(packet, None),
                Some(Due::Notice(machine, ring)) => self.notify(machine, ring),
                Some(Due::Ack(flow)) => {
                    self.network.streams[flow as usize].ack_scheduled = false;
                    self.send_ack(flow, None);
                }
                None => return,
            }
        }
    }

    /// Moves a packet along its hops until a hop delays the packet, the packet is dropped, or the packet arrives.
    fn travel(&mut self, mut packet: Packet, by: Option<By>) {
        loop {
            let flow = &self.network.streams[packet.flow as usize].flow;
            let way = match (&flow.acks, packet.kind) {
                (Some(acks), Kind::Ack) => &acks.way,
                _ => &flow.way,
            };
            let Some(&hop) = way.get(usize::from(packet.hop)) else { return self.arrive(packet) };
            packet.hop += 1;
            match hop {
                Hop::Line(line) => {
                    let end = self.network.lines[line.0 as usize].take(self.now, packet.size());
                    match end {
                        Some(end) => self.network.schedule(end, Due::Packet(packet)),
                        None => self.lose(packet),
                    }
                    return;
                }
                Hop::Cost(cost) => packet.cost = Some(cost),
                Hop::Ring(at) => return self.put(at, packet, by),
                Hop::Completion(at) => self.put(at, Packet { kind: Kind::Completion, ..packet }, by),
                Hop::Interrupt { machine, cpu, time } => {
                    let host = &mut self.machines[machine.index()];
                    host.cpus.now = self.now;
                    host.show(|| Event::Irq { cpu, time });
                    let done = host.cpus.handle_interrupt(cpu, time);
                    self.schedule_visit(machine);
                    self.network.schedule(done, Due::Packet(packet));
                    return;
                }
            }
        }
    }

    fn put(&mut self, at: Endpoint, packet: Packet, by: Option<By>) {
        let ring = self.object_at(at);
        match self.machines[at.machine.index()].put(ring, packet) {
            None => self.lose(packet),
            Some(None) => {}
            Some(Some(Notified { delay, kick })) => {
                self.charge(by, kick);
                match by {
                    Some(By { task, later: true }) => {
                        self.network.deferred_notifies.push((task, at.machine, ring, delay))
                    }
                    _ => self.notify_after(at.machine, ring, delay),
                }
            }
        }
    }

    /// Ends a pass of a server, and sends the notifications that the server deferred to the end of the pass.
    fn end_pass(&mut self, machine: MachineId, entity: EntityId) {
        if self.network.deferred_notifies.is_empty() {
            return;
        }
        let (now, rest) =
            std::mem::take(&mut self.network.deferred_notifies).into_iter().partition(|it| it.0 == (machine, entity));
        self.network.deferred_notifies = rest;
        let now: Vec<DeferredNotify> = now;
        for (_, machine, ring, delay) in now {
            self.notify_after(machine, ring, delay);
        }
    }

    fn notify_after(&mut self, machine: MachineId, ring: ObjectId, delay: Nanos) {
        if delay.is_zero() {
            self.notify(machine, ring);
        } else {
            self.network.schedule(self.now.saturating_add(delay), Due::Notice(machine, ring));
        }
    }

    /// Charges a task of a guest for the hypercall that notifies the server of a ring, and for `kick`.
    fn charge(&mut self, by: Option<By>, kick: Nanos) {
        let Some(By { task: (machine, entity), .. }) = by else { return };
        let it = &mut self.machines[machine.index()];
        if !it.cpus.is_guest || !it.machine.is_attached(entity) || !it.tasks.follows(entity) {
            return;
        }
        let time = it.cpus.costs.hypercall + kick;
        match it.cpus.seat_of(entity) {
            Some(cpu) if it.cpus.is_at_work(cpu) => it.cpus.delay(cpu, time),
            _ => it.tasks.of(entity).owes += time,
        }
    }

    fn notify(&mut self, machine: MachineId, object: ObjectId) {
        let it = &mut self.machines[machine.index()];
        it.cpus.now = self.now;
        it.notify(object);
        self.schedule_visit(machine);
    }

    /// Delivers a packet that has passed its last hop.
    fn arrive(&mut self, packet: Packet) {
        let Packet { flow, bytes, sent, .. } = packet;
        if packet.kind == Kind::Ack {
            return self.make_room(flow, bytes);
        }
        let stream = &mut self.network.streams[flow as usize];
        let (machine, inbox) = (stream.flow.to.machine, stream.inbox);
        let it = &mut self.machines[machine.index()];
        it.cpus.now = self.now;
        if !it.deliver(inbox, flow, bytes) {
            return self.lose(packet);
        }
        let counts = &mut stream.counts;
        counts.arrived += 1;
        counts.bytes_arrived += bytes;
        let took: Nanos = self.now.since(sent);
        it.show(|| Event::Arrived { flow, bytes, took });
        it.notify(inbox);
        self.schedule_visit(machine);
    }

    /// Drops a packet for lack of room. A reliable flow sends its packet again later.
    fn lose(&mut self, packet: Packet) {
        if self.network.resend(self.now, packet) || packet.kind == Kind::Completion {
            return;
        }
        let Packet { flow, bytes, .. } = packet;
        if packet.kind == Kind::Data {
            let stream = &mut self.network.streams[flow as usize];
            stream.counts.lost += 1;
            stream.counts.bytes_lost += bytes;
            let it = &mut self.machines[stream.flow.to.machine.index()];
            it.cpus.now = self.now;
            it.show(|| Event::Lost { flow, bytes });
        }
        self.make_room(flow, bytes);
    }

    /// Checks the law of conservation: every sent data packet of a flow has arrived, was lost, or is in transit. No
    /// more bytes were read than have arrived.
    ///
    /// # Panics
    /// The law is broken.
    pub(super) fn check_flows(&self) {
        let mut on_its_way = vec![0; self.network.streams.len()];
        self.network.count_in_air(&mut on_its_way);
        let objects = self.machines.iter().flat_map(|machine| &machine.tasks.objects);
        // A run that cannot continue may end before all traffic has left its machine.
        let leaving = self.machines.iter().flat_map(|machine| machine.cpus.outbox.traffic());
        let leaving =
            leaving.filter_map(|out| if let Traffic::Onward { packet, .. } = out { Some(packet) } else { None });
        let packets = objects.flat_map(|object| object.packets()).chain(leaving);
        for packet in packets.filter(|packet| packet.kind == Kind::Data) {
            on_its_way[packet.flow as usize] += 1;
        }
        for (stream, on_its_way) in self.network.streams.iter().zip(on_its_way) {
            let FlowCounts { sent, arrived, lost, bytes_arrived, bytes_read, .. } = stream.counts;
            let name = &stream.flow.name;
            assert_eq!(
                sent,
                arrived + lost + on_its_way,
                "flow {name}: of {sent} sent, {arrived} arrived, {lost} lost, {on_its_way} on their way"
            );
            assert!(bytes_read <= bytes_arrived, "flow {name}: {bytes_read} bytes were read of {bytes_arrived}");
        }
    }
}
