//! Networks and devices: [`Flow`]s of packets between the [`Port`](crate::Object::Port) of a task and the
//! [`Inbox`](crate::Object::Inbox) of another, on the same machine or on another, hop by hop.
//!
//! A [`Hop`] is a line (a wire, a switch, a disk: it takes no CPU time), a [`Ring`](crate::Object::Ring) that a task serves (Xen's
//! driver domain, a vhost thread, a kernel thread), or an interrupt that takes time from the entity on a CPU (I/O in the hypervisor).
//! All data are counted: what was sent has arrived, was dropped, or is on its way. Completions are events about packets: a full ring
//! drops them, and a packet that is sent again has them again.

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
    /// The machine.
    pub machine: MachineId,
    /// The number of the application there, as [`World::start`](crate::World::start) gave it.
    pub application: u32,
    /// Its object.
    pub object: ObjectId,
}

/// One part of the way of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// It goes over a line.
    Line(LineId),
    /// It waits in a ring until a task that serves it has handled it.
    Ring(Endpoint),
    /// It puts a completion into a ring, one more event to be handled there, and goes on.
    Completion(Endpoint),
    /// It takes this CPU time at the next ring, in place of the ring's cost: for a thread that handles several devices.
    Cost(Length),
    /// It takes time from the entity on this CPU of a host, and then goes on.
    Interrupt {
        /// The host.
        machine: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// How much.
        time: Nanos,
    },
}

/// How the receiver of a flow acknowledges to its sender what was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acks {
    /// One for so many full packets, one when all that was sent has been read, and one 40 ms after what none was sent for
    /// (TCP_DELACK_MIN of Linux). Range: 1 …. TCP's is 2 (RFC 5681, section 4.2).
    pub every: u32,
    /// The way back.
    pub way: Vec<Hop>,
}

/// Packets from a port to an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Where tasks send.
    pub from: Endpoint,
    /// Where tasks receive.
    pub to: Endpoint,
    /// The most that a packet carries. Unit: bytes. Range: 1 ….
    pub packet: u32,
    /// What is between them.
    pub way: Vec<Hop>,
    /// How the sender learns what was read; `None`: at once, at no cost.
    pub acks: Option<Acks>,
    /// Whether what was dropped is sent again, 200 ms later (TCP_RTO_MIN of Linux); if not, the sender gets its room back.
    pub reliable: bool,
}

/// The counts of the packets of a flow, without acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlowCounts {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that have arrived in the inbox.
    pub arrived: u64,
    /// Packets that were dropped for good.
    pub lost: u64,
    /// Times that a packet was dropped and sent again.
    pub resent: u64,
    /// Bytes that were sent.
    pub bytes_sent: u64,
    /// Bytes that have arrived in the inbox.
    pub bytes_arrived: u64,
    /// Bytes that were dropped for good.
    pub bytes_lost: u64,
    /// Bytes that were read from the inbox.
    pub bytes_read: u64,
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It carries data.
    Data,
    /// It acknowledges data that were read.
    Ack,
    /// The completion of another packet.
    Completion,
}

/// Something on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    pub(crate) kind: Kind,
    /// The next hop.
    pub(crate) hop: u16,
    /// The bytes that it carries or acknowledges.
    pub(crate) bytes: u64,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// The CPU time that it takes in the next or the current ring. `None`: the ring's cost.
    pub(crate) cost: Option<Length>,
}

impl Packet {
    /// Its size on a line.
    pub(crate) fn size(&self) -> u64 {
        if self.kind == Kind::Ack { ACK_BYTES } else { self.bytes }
    }
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// A packet is at its next hop.
    Packet(Packet),
    /// The server of a ring is notified.
    Notice(MachineId, ObjectId),
    /// The acknowledgement of a flow.
    Ack(u32),
}

/// An entry of the event queue, in order of time, then of scheduling.
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
    /// The port, among the objects of its machine; and the inbox.
    pub(crate) port: ObjectId,
    pub(crate) inbox: ObjectId,
    pub(crate) counts: FlowCounts,
    /// Bytes that were read and not yet acknowledged.
    pub(crate) unacked_bytes: u64,
    /// Whether their acknowledgement is scheduled.
    pub(crate) ack_scheduled: bool,
}

/// A notification that a task sends at the end of its pass: the task, the machine and ring, and the delay.
pub(crate) type DeferredNotify = ((MachineId, EntityId), MachineId, ObjectId, Nanos);

/// The lines and flows of a world, and what is on its way.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) lines: Vec<Running>,
    pub(crate) streams: Vec<Stream>,
    /// The flow that begins at a port.
    pub(crate) flow_of: BTreeMap<(MachineId, ObjectId), u32>,
    /// Notifications that servers send at the end of their passes.
    pub(crate) deferred_notifies: Vec<DeferredNotify>,
    air: BinaryHeap<Reverse<Entry>>,
    scheduled: u64,
}

impl Network {
    /// When the next thing is due.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.air.peek().map_or(Instant::NEVER, |Reverse(entry)| entry.at)
    }

    pub(crate) fn schedule(&mut self, at: Instant, due: Due) {
        self.scheduled += 1;
        self.air.push(Reverse(Entry { at, number: self.scheduled, due }));
    }

    /// What is due first.
    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.air.pop().map(|Reverse(entry)| entry.due)
    }

    /// Schedules a dropped packet to be sent again, if its flow is reliable. Returns whether it does.
    pub(crate) fn resend(&mut self, now: Instant, packet: Packet) -> bool {
        let stream = &mut self.streams[packet.flow as usize];
        if !stream.flow.reliable || packet.kind == Kind::Completion {
            return false;
        }
        stream.counts.resent += u64::from(packet.kind == Kind::Data);
        self.schedule(now.saturating_add(RESEND), Due::Packet(Packet { hop: 0, cost: None, ..packet }));
        true
    }

    /// Adds the number of packets with data of each flow that are on lines or wait to be sent again.
    pub(crate) fn count_in_air(&self, on_its_way: &mut [u64]) {
        for Reverse(entry) in &self.air {
            if let Due::Packet(Packet { flow, kind: Kind::Data, .. }) = entry.due {
                on_its_way[flow as usize] += 1;
            }
        }
    }
}
