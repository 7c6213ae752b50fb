//! Networks and devices: [`Flow`]s of packets from the [`Port`](crate::Object::Port) of a task to the
//! [`Inbox`](crate::Object::Inbox) of another task. Both tasks may be on one machine. Packets move hop by hop.
//!
//! A packet spends time at three types of [`Hop`]. A line (a wire, a switch, a disk) takes no CPU time. A
//! [`Ring`](crate::Object::Ring) has a server task (Xen's driver domain, a vhost thread, a kernel thread). An interrupt
//! takes time from the entity on a CPU (I/O in the hypervisor).
//!
//! All data is counted: sent data has arrived, was dropped, or is in transit. Completions are events about packets. A
//! full ring drops completions. A packet that is sent again causes its completions again.

pub(crate) mod line;

pub use line::Line;

use crate::program::{Length, ObjectId};
use line::Running;
use sched::{CpuId, EntityId, Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use trace::MachineId;

/// The time after which a dropped packet is sent again. Source: TCP_RTO_MIN, include/net/tcp.h of Linux 6.18.
const RESEND: Nanos = Nanos::ms(200);
/// The size of an acknowledgement on a line: headers alone. Source: RFC 791 and RFC 9293, 20 bytes each. Unit: bytes.
const ACK_BYTES: u64 = 40;
/// The longest delay of an acknowledgement. Source: TCP_DELACK_MIN, include/net/tcp.h of Linux 6.18; RFC 5681, section
/// 4.2, demands less than 500 ms.
pub(crate) const ACK_DELAY: Nanos = Nanos::ms(40);

/// A line of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineId(pub u32);

/// A flow of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowId(pub u32);

/// An object of an application on a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// Machine of the object.
    pub machine: MachineId,
    /// Number of the application on the machine, from [`World::start`](crate::World::start).
    pub application: u32,
    /// Number of the object in its application.
    pub object: ObjectId,
}

/// A hop of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// The packet crosses a line.
    Line(LineId),
    /// The packet waits in a ring until a server of the ring has handled the packet.
    Ring(Endpoint),
    /// The packet puts a completion into a ring, as an additional event for the ring's server, and continues.
    Completion(Endpoint),
    /// The server of the next ring needs this CPU time for the packet, in place of the ring's cost. Intended for a
    /// thread that handles several devices.
    Cost(Length),
    /// The packet takes time from the entity on this CPU of a host, and then continues.
    Interrupt {
        /// Host of the CPU.
        machine: MachineId,
        /// Number of the CPU.
        cpu: CpuId,
        /// CPU time of the interrupt.
        time: Nanos,
    },
}

/// The rules by which the receiver of a flow acknowledges read data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acks {
    /// Number of full packets per acknowledgement. When all sent data has been read, the rest is acknowledged at once.
    /// Read data is acknowledged after 40 ms at the latest (TCP_DELACK_MIN of Linux). Range: 1 …. TCP's value is 2 (RFC
    /// 5681, section 4.2).
    pub every: u32,
    /// Hops of the acknowledgements back to the sender.
    pub way: Vec<Hop>,
}

/// Packets from a port to an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Name of the flow.
    pub name: String,
    /// Port through which tasks send.
    pub from: Endpoint,
    /// Inbox from which tasks receive.
    pub to: Endpoint,
    /// Maximum size of a packet. Unit: bytes. Range: 1 ….
    pub packet: u32,
    /// Hops between the port and the inbox.
    pub way: Vec<Hop>,
    /// Acknowledgements of read data. `None`: the sender learns of read data at once, at no cost.
    pub acks: Option<Acks>,
    /// Whether dropped data is sent again, 200 ms later (TCP_RTO_MIN of Linux). Otherwise, a drop frees the room at the
    /// sender.
    pub reliable: bool,
}

/// The counts of the packets of a flow, without acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlowCounts {
    /// Number of sent packets.
    pub sent: u64,
    /// Number of packets that have arrived in the inbox.
    pub arrived: u64,
    /// Number of packets that were dropped and not sent again.
    pub lost: u64,
    /// Number of packets that were dropped and sent again.
    pub resent: u64,
    /// Number of sent bytes.
    pub bytes_sent: u64,
    /// Number of bytes that have arrived in the inbox.
    pub bytes_arrived: u64,
    /// Number of bytes that were dropped and not sent again.
    pub bytes_lost: u64,
    /// Number of bytes that were read from the inbox.
    pub bytes_read: u64,
}

/// The type of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A packet that carries data.
    Data,
    /// An acknowledgement of read data.
    Ack,
    /// The completion of another packet.
    Completion,
}

/// A packet in transit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    pub(crate) kind: Kind,
    /// Index of the next hop.
    pub(crate) hop: u16,
    /// Number of bytes that the packet carries or acknowledges.
    pub(crate) bytes: u64,
    /// Instant at which the packet was sent.
    pub(crate) sent: Instant,
    /// CPU time of the packet in the next or the current ring. `None`: the ring's cost.
    pub(crate) cost: Option<Length>,
}

impl Packet {
    /// Returns the size of the packet on a line.
    pub(crate) fn size(&self) -> u64 {
        if self.kind == Kind::Ack { ACK_BYTES } else { self.bytes }
    }
}

/// An event of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// A packet reaches its next hop.
    Packet(Packet),
    /// A notice for the server of a ring.
    Notice(MachineId, ObjectId),
    /// The delayed acknowledgement of a flow.
    Ack(u32),
}

/// An entry of the event queue. Entries are ordered by time, then by the order in which they were scheduled.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    number: u64,
    due: Due,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A flow in use.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) flow: Flow,
    /// Numbers of the port and of the inbox, each among the objects of its machine.
    pub(crate) port: ObjectId,
    pub(crate) inbox: ObjectId,
    pub(crate) counts: FlowCounts,
    /// Number of bytes that were read and not yet acknowledged.
    pub(crate) unacked_bytes: u64,
    /// Whether the acknowledgement of read bytes is scheduled.
    pub(crate) ack_scheduled: bool,
}

/// A notification that a task sends at the end of its pass: the task, the machine and ring, and the delay.
pub(crate) type DeferredNotify = ((MachineId, EntityId), MachineId, ObjectId, Nanos);

/// The lines and flows of a world, and the packets in transit.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) lines: Vec<Running>,
    pub(crate) streams: Vec<Stream>,
    /// The flow of each port.
    pub(crate) flow_of: BTreeMap<(MachineId, ObjectId), u32>,
    /// Notifications that servers send at the end of their passes.
    pub(crate) deferred_notifies: Vec<DeferredNotify>,
    air: BinaryHeap<Reverse<Entry>>,
    scheduled: u64,
}

impl Network {
    /// Returns the instant of the next due entry.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.air.peek().map_or(Instant::NEVER, |Reverse(entry)| entry.at)
    }

    pub(crate) fn schedule(&mut self, at: Instant, due: Due) {
        self.scheduled += 1;
        self.air.push(Reverse(Entry { at, number: self.scheduled, due }));
    }

    /// Removes and returns the next due entry.
    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.air.pop().map(|Reverse(entry)| entry.due)
    }

    /// Schedules a dropped packet to be sent again, if its flow is reliable. Returns whether the packet is scheduled.
    pub(crate) fn resend(&mut self, now: Instant, packet: Packet) -> bool {
        let stream = &mut self.streams[packet.flow as usize];
        if !stream.flow.reliable || packet.kind == Kind::Completion {
            return false;
        }
        stream.counts.resent += u64::from(packet.kind == Kind::Data);
        self.schedule(now.saturating_add(RESEND), Due::Packet(Packet { hop: 0, cost: None, ..packet }));
        true
    }

    /// Adds to each flow's count the number of its data packets that are on lines, are in an interrupt, or wait to be
    /// sent again.
    pub(crate) fn count_in_air(&self, on_its_way: &mut [u64]) {
        for Reverse(entry) in &self.air {
            if let Due::Packet(Packet { flow, kind: Kind::Data, .. }) = entry.due {
                on_its_way[flow as usize] += 1;
            }
        }
    }
}
