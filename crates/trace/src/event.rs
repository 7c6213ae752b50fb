//! [`Event`]: every input and action of a machine, and what its workloads do.

use crate::machine_id::MachineId;
use sched::{Action, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Params};
use std::cell::RefCell;
use std::rc::Rc;

/// The header of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The policy's name.
    pub policy: String,
    /// The number of CPUs of the machine.
    pub cpus: usize,
    /// The seed of the run.
    pub seed: u64,
}

/// One thing that happened on a machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The machine was given a fact.
    Input(Input),
    /// The machine decided on an action.
    Action(Action),
    /// The machine settled although the events around do not imply it; see [`replay`](crate::replay).
    Settled,
    /// A group was created.
    GroupCreated {
        /// Its id.
        group: GroupId,
        /// Its name.
        name: String,
        /// The group above it.
        parent: GroupId,
        /// Its parameters.
        params: Box<GroupParams>,
    },
    /// The parameters of a group changed.
    GroupAdjusted {
        /// The group.
        group: GroupId,
        /// The new parameters.
        params: Box<GroupParams>,
    },
    /// A group was removed.
    GroupRemoved {
        /// The group.
        group: GroupId,
    },
    /// An entity was attached.
    Attach {
        /// Its id.
        entity: EntityId,
        /// Its name.
        name: String,
        /// Its parameters.
        params: Box<Params>,
    },
    /// The parameters of an entity changed.
    Adjust {
        /// The entity.
        entity: EntityId,
        /// The new parameters.
        params: Box<Params>,
    },
    /// An entity was detached.
    Detach {
        /// The entity.
        entity: EntityId,
    },
    /// The machine refused a request.
    Refused(Box<Request>),
    /// An entity has had CPU time that was not given to it here: its host's own scheduler ran it in between.
    Background {
        /// The entity.
        entity: EntityId,
        /// The CPU time.
        time: Nanos,
    },
    /// A period of a reservation ended, as the enforcer of the reservation saw it.
    Period {
        /// The entity with the reservation.
        entity: EntityId,
        /// The CPU time due in the period: the slice, less the excess of the period before.
        due: Nanos,
        /// The CPU time delivered in the period.
        delivered: Nanos,
        /// Whether the entity was runnable throughout the period.
        throughout: bool,
    },
    /// An entity reports that it has begun a job that it slept for.
    Woke {
        /// The entity.
        entity: EntityId,
        /// The time from the job's release.
        late: Nanos,
    },
    /// An entity is a vCPU: a guest, a machine with events of its own, decides what runs on it.
    Vcpu {
        /// The entity.
        entity: EntityId,
        /// The guest.
        guest: MachineId,
        /// The CPU of the guest that the entity is.
        cpu: CpuId,
    },
    /// An interrupt unrelated to the running entity takes time from a CPU. The entity that runs there pays for it.
    Irq {
        /// The CPU.
        cpu: CpuId,
        /// The time, beyond the rest of earlier interrupts.
        time: Nanos,
    },
    /// A timer that skips missed beats has skipped some.
    Skipped {
        /// The entity with the timer.
        entity: EntityId,
        /// The number of beats.
        beats: u64,
    },
    /// An entity has sent data to another machine or to a device.
    Sent {
        /// The sender.
        entity: EntityId,
        /// The flow, by its number in the world.
        flow: u32,
        /// The number of bytes.
        bytes: u64,
    },
    /// An entity gets a spin lock for which it waited. This is no input of the machine.
    SpinWait {
        /// The entity.
        entity: EntityId,
        /// The time it waited.
        waited: Nanos,
    },
    /// An entity has handled one I/O event of other entities: a packet, a request, a completion.
    Served {
        /// The entity.
        entity: EntityId,
    },
    /// Data has arrived from another machine or from a device.
    Arrived {
        /// The flow, by its number in the world.
        flow: u32,
        /// The number of bytes.
        bytes: u64,
        /// The time since it was sent.
        took: Nanos,
    },
    /// A coordinator begins or ends a boost of an entity. The boosted parameters follow at the same instant, unless they equal the
    /// entity's own; then the boost is over.
    Boosted {
        /// The entity; on a host: a vCPU.
        entity: EntityId,
        /// Whether it is boosted from now on.
        boosted: bool,
    },
    /// Data on its way here was dropped for lack of room.
    Lost {
        /// The flow, by its number in the world.
        flow: u32,
        /// The number of bytes.
        bytes: u64,
    },
    /// A job was released.
    Release {
        /// The entity with the job.
        entity: EntityId,
        /// The deadline of the job.
        deadline: Instant,
    },
    /// The oldest unfinished job was completed.
    Complete {
        /// The entity with the job.
        entity: EntityId,
    },
    /// The run ended. Entities that run now ran until now.
    End,
}

/// What a machine was asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// To create a group.
    CreateGroup {
        /// Its name.
        name: String,
        /// The group above it.
        parent: GroupId,
        /// Its parameters.
        params: GroupParams,
    },
    /// To change the parameters of a group.
    AdjustGroup {
        /// The group.
        group: GroupId,
        /// The new parameters.
        params: GroupParams,
    },
    /// To attach an entity.
    Attach {
        /// Its name.
        name: String,
        /// Its parameters.
        params: Params,
    },
    /// To change the parameters of an entity.
    Adjust {
        /// The entity.
        entity: EntityId,
        /// The new parameters.
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

/// Takes events, in the order in which they happen.
pub trait Sink {
    /// Takes the next event.
    fn record(&mut self, at: Instant, event: &Event);
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, at: Instant, event: &Event) {
        (**self).record(at, event);
    }
}

/// A sink that its owner reads while it is in use, or afterwards.
impl<S: Sink> Sink for Rc<RefCell<S>> {
    fn record(&mut self, at: Instant, event: &Event) {
        self.borrow_mut().record(at, event);
    }
}

/// A run, in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The header.
    pub header: Header,
    /// The events, in order.
    pub events: Vec<(Instant, Event)>,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(header: Header) -> Trace {
        Trace { header, events: Vec::new() }
    }

    /// Shows every event to `sink`, in order.
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
