//! [`Event`]: every input and action of a machine, and the events of its workloads.

use crate::machine_id::MachineId;
use sched::{Action, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Params};
use std::cell::RefCell;
use std::rc::Rc;

/// The header of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Name of the policy.
    pub policy: String,
    /// Number of CPUs of the machine.
    pub cpus: usize,
    /// Seed of the run.
    pub seed: u64,
}

/// An event of a machine.
#[derive(Clone, PartialEq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// An input of the machine.
    Input(Input),
    /// An action of the machine.
    Action(Action),
    /// A settle of the machine that the surrounding events do not imply; see [`replay`](crate::replay).
    Settled,
    /// A group was created.
    GroupCreated {
        /// Id of the group.
        group: GroupId,
        /// Name of the group.
        name: String,
        /// Parent of the group.
        parent: GroupId,
        /// Parameters of the group.
        params: Box<GroupParams>,
    },
    /// The parameters of a group changed.
    GroupAdjusted {
        /// The group.
        group: GroupId,
        /// New parameters of the group.
        params: Box<GroupParams>,
    },
    /// A group was removed.
    GroupRemoved {
        /// The group.
        group: GroupId,
    },
    /// An entity was attached.
    Attach {
        /// Id of the entity.
        entity: EntityId,
        /// Name of the entity.
        name: String,
        /// Parameters of the entity.
        params: Box<Params>,
    },
    /// The parameters of an entity changed.
    Adjust {
        /// The entity.
        entity: EntityId,
        /// New parameters of the entity.
        params: Box<Params>,
    },
    /// An entity was detached.
    Detach {
        /// The entity.
        entity: EntityId,
    },
    /// The machine refused a request.
    Refused(Box<Request>),
    /// An entity used CPU time that this machine did not grant: the scheduler of the host's kernel ran the entity.
    Background {
        /// The entity.
        entity: EntityId,
        /// The CPU time.
        time: Nanos,
    },
    /// A period of a reservation ended. The driver that enforces the reservation measured the times.
    Period {
        /// The entity with the reservation.
        entity: EntityId,
        /// CPU time due in the period: the slice minus the excess of the previous period.
        due: Nanos,
        /// CPU time delivered in the period.
        delivered: Nanos,
        /// Whether the entity was runnable throughout the period.
        throughout: bool,
    },
    /// The promise to an entity stops being kept, or is kept again. The driver that enforces the reservation judges this
    /// by the latest periods in which the entity was runnable throughout.
    Kept {
        /// The entity with the reservation.
        entity: EntityId,
        /// Whether the promise is kept from now on.
        kept: bool,
        /// Number of these periods in which the entity received less than was due.
        missed: u64,
        /// Number of these periods.
        of: u64,
    },
    /// An entity that slept until the release of a job starts the job. A task whose jobs wait for their predecessors
    /// reports the start of every job.
    Woke {
        /// The entity.
        entity: EntityId,
        /// Time from the job's release to this start.
        late: Nanos,
    },
    /// An entity is a vCPU. Its guest, a machine with a trace of its own, decides which task runs on the vCPU.
    Vcpu {
        /// The entity.
        entity: EntityId,
        /// The guest.
        guest: MachineId,
        /// CPU of the guest that corresponds to the entity.
        cpu: CpuId,
    },
    /// A CPU handles an interrupt, such as the arrival of a packet. The entity on this CPU loses the time.
    Irq {
        /// The CPU.
        cpu: CpuId,
        /// Time that the handling takes. The CPU handles earlier interrupts first.
        time: Nanos,
    },
    /// A periodic timer skipped expirations that it had missed.
    Skipped {
        /// The entity with the timer.
        entity: EntityId,
        /// Number of skipped expirations.
        beats: u64,
    },
    /// An entity sent data to another machine or to a device.
    Sent {
        /// The sender.
        entity: EntityId,
        /// Number of the flow in the world.
        flow: u32,
        /// Number of sent bytes.
        bytes: u64,
    },
    /// An entity stops spinning: it acquires a spin lock after a wait, or passes a spinning barrier. This event is not
    /// an input of the machine.
    SpinWait {
        /// The entity.
        entity: EntityId,
        /// Time since the start of the wait.
        waited: Nanos,
    },
    /// An entity handled one I/O event of other entities: a packet, a request or a completion.
    Served {
        /// The entity.
        entity: EntityId,
    },
    /// Data arrived from another machine or from a device.
    Arrived {
        /// Number of the flow in the world.
        flow: u32,
        /// Number of arrived bytes.
        bytes: u64,
        /// Time since the data was sent.
        took: Nanos,
    },
    /// A coordinator begins or ends a boost of an entity. The coordinator requests the resulting parameters at the same
    /// instant, unless the entity already has these parameters.
    Boosted {
        /// The entity. On a host, a vCPU.
        entity: EntityId,
        /// Whether the entity is boosted from now on.
        boosted: bool,
    },
    /// A full queue dropped data that was sent to this machine.
    Lost {
        /// Number of the flow in the world.
        flow: u32,
        /// Number of dropped bytes.
        bytes: u64,
    },
    /// A job was released.
    Release {
        /// The entity with the job.
        entity: EntityId,
        /// The deadline of the job.
        deadline: Instant,
    },
    /// The oldest unfinished job of an entity was completed.
    Complete {
        /// The entity with the job.
        entity: EntityId,
    },
    /// The oldest unfinished job of an entity was aborted at its deadline.
    Aborted {
        /// The entity with the job.
        entity: EntityId,
        /// Whether the job had executed.
        executed: bool,
    },
    /// The run ended. Entities that still run stop at this instant.
    End,
}

/// A request to a machine.
#[derive(Clone, PartialEq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Request {
    /// A request to create a group.
    CreateGroup {
        /// Name of the group.
        name: String,
        /// Parent of the group.
        parent: GroupId,
        /// Parameters of the group.
        params: GroupParams,
    },
    /// A request to change the parameters of a group.
    AdjustGroup {
        /// The group.
        group: GroupId,
        /// New parameters of the group.
        params: GroupParams,
    },
    /// A request to attach an entity.
    Attach {
        /// Name of the entity.
        name: String,
        /// Parameters of the entity.
        params: Params,
    },
    /// A request to change the parameters of an entity.
    Adjust {
        /// The entity.
        entity: EntityId,
        /// New parameters of the entity.
        params: Params,
    },
}

impl From<Input> for Event {
    fn from(input: Input) -> Event {
        Event::Input(input)
    }
}

impl From<Action> for Event {
    fn from(action: Action) -> Event {
        Event::Action(action)
    }
}

/// A receiver of events in order.
pub trait Sink {
    /// Processes the next event.
    fn record(&mut self, at: Instant, event: &Event);
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, at: Instant, event: &Event) {
        (**self).record(at, event);
    }
}

/// A shared sink. The owner can read the sink during the run or afterwards.
impl<S: Sink> Sink for Rc<RefCell<S>> {
    fn record(&mut self, at: Instant, event: &Event) {
        self.borrow_mut().record(at, event);
    }
}

/// The trace of a run, in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// Header of the run.
    pub header: Header,
    /// Events of the run, in order.
    pub events: Vec<(Instant, Event)>,
}

impl Trace {
    /// Creates an empty trace.
    #[must_use]
    pub fn new(header: Header) -> Trace {
        Trace { header, events: Vec::new() }
    }

    /// Passes every event to `sink`, in order.
    pub fn show(&self, sink: &mut dyn Sink) {
        for (at, event) in &self.events {
            sink.record(*at, event);
        }
    }
}

impl Sink for Trace {
    fn record(&mut self, at: Instant, event: &Event) {
        self.events.push((at, event.clone()));
    }
}
