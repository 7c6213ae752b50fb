//! [`Event`]: everything that goes into a machine and comes out of it, and what its workloads do.

use crate::world::MachineId;
use sched::{Action, Alarm, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Notice, Params, Wake};

/// What a trace says about the run as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The policy's name.
    pub policy: String,
    /// How many CPUs the machine has.
    pub cpus: usize,
    /// The seed of the run.
    pub seed: u64,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A group was created.
    GroupCreated {
        /// Its id.
        group: GroupId,
        /// What people call it.
        name: String,
        /// The group above it.
        parent: GroupId,
        /// What is asked for it.
        params: GroupParams,
    },
    /// What is asked for a group changed.
    GroupAdjusted {
        /// Which.
        group: GroupId,
        /// What is asked now.
        params: GroupParams,
    },
    /// A group was removed.
    GroupRemoved {
        /// Which.
        group: GroupId,
    },
    /// An entity was attached.
    Attach {
        /// Its id.
        entity: EntityId,
        /// What people call it.
        name: String,
        /// What is asked for it.
        params: Box<Params>,
    },
    /// What is asked for an entity changed.
    Adjust {
        /// Which.
        entity: EntityId,
        /// What is asked now.
        params: Box<Params>,
    },
    /// An entity left.
    Detach {
        /// Which.
        entity: EntityId,
    },
    /// An entity was woken.
    Wake {
        /// Which.
        entity: EntityId,
        /// Why.
        why: Wake,
    },
    /// An interrupt or packet came for an entity that was not blocked.
    Interrupt {
        /// For which.
        entity: EntityId,
    },
    /// An entity that was not blocked has waited for a spin lock.
    SpinWait {
        /// Which.
        entity: EntityId,
        /// How long.
        waited: Nanos,
    },
    /// The entity on a CPU blocked.
    Block {
        /// Where.
        cpu: CpuId,
    },
    /// The entity on a CPU yielded.
    Yield {
        /// Where.
        cpu: CpuId,
    },
    /// The entity on a CPU yielded to another.
    YieldTo {
        /// Where.
        cpu: CpuId,
        /// To which.
        to: EntityId,
    },
    /// A slice ended.
    Expire {
        /// Where.
        cpu: CpuId,
    },
    /// A kick arrived.
    Kicked {
        /// Where.
        cpu: CpuId,
    },
    /// An alarm went off.
    Alarm {
        /// Which.
        alarm: Alarm,
    },
    /// An entity was paused.
    Pause {
        /// Which.
        entity: EntityId,
    },
    /// The entity on a CPU has had this much CPU time since it was last said, or since it came there.
    Ran {
        /// Where.
        cpu: CpuId,
        /// How much.
        time: Nanos,
    },
    /// An entity has had CPU time that was not given to it here: its host's own scheduler let it run in between.
    Background {
        /// Which.
        entity: EntityId,
        /// How much.
        time: Nanos,
    },
    /// A period of a reservation ended, as who enforced it saw it.
    Period {
        /// Whose.
        entity: EntityId,
        /// What was due in it: the slice, less what the period before had delivered too much.
        due: Nanos,
        /// What was delivered in it.
        delivered: Nanos,
        /// Whether the entity wanted to run throughout.
        throughout: bool,
    },
    /// An entity has begun a job that it slept for, as it tells of itself.
    Woke {
        /// Which.
        entity: EntityId,
        /// How long after the job's release.
        late: Nanos,
    },
    /// An entity is a vCPU: what runs on it is up to a guest, whose own events are told apart by its machine.
    Vcpu {
        /// Which.
        entity: EntityId,
        /// The guest.
        guest: MachineId,
        /// Its CPU that the entity is.
        cpu: CpuId,
    },
    /// This CPU of a guest has no CPU to run on, because that was taken away or because it has halted: until it thaws, nothing goes
    /// on here, and whoever runs here gets nothing.
    Freeze {
        /// Which.
        cpu: CpuId,
    },
    /// This CPU of a guest goes on.
    Thaw {
        /// Which.
        cpu: CpuId,
    },
    /// An interrupt that has nothing to do with who runs takes time from a CPU: whoever runs there, or comes there meanwhile, pays.
    Irq {
        /// Where.
        cpu: CpuId,
        /// How much, after what interrupts still take that came before.
        time: Nanos,
    },
    /// A timer that leaves out beats which have passed altogether has left out some.
    Skipped {
        /// Whose.
        entity: EntityId,
        /// How many.
        beats: u64,
    },
    /// An entity has sent something on its way to another machine, or to a device.
    Sent {
        /// Who.
        entity: EntityId,
        /// On which of the world's flows.
        flow: u32,
        /// How much.
        bytes: u64,
    },
    /// An entity has handled one I/O event of others: a packet, a request, a completion.
    Served {
        /// Who.
        entity: EntityId,
    },
    /// Something has come here from another machine, or from a device.
    Arrived {
        /// On which of the world's flows.
        flow: u32,
        /// How much.
        bytes: u64,
        /// How long it was on its way.
        took: Nanos,
    },
    /// A coordinator boosts an entity beyond what is asked for it, or does so no more. What it asks instead follows at once; nothing does
    /// where that is what is asked for the entity already, and boosts it no more.
    Boosted {
        /// Which. Of a host: a vCPU.
        entity: EntityId,
        /// Whether it is boosted from now on.
        boosted: bool,
    },
    /// Something on its way here was dropped, because there was no room for it.
    Lost {
        /// On which of the world's flows.
        flow: u32,
        /// How much.
        bytes: u64,
    },
    /// A job was released.
    Release {
        /// By which entity.
        entity: EntityId,
        /// When it should be done.
        deadline: Instant,
    },
    /// The oldest unfinished job was completed.
    Complete {
        /// By which entity.
        entity: EntityId,
    },
    /// An entity stopped running.
    Stop {
        /// Where.
        cpu: CpuId,
        /// Which.
        entity: EntityId,
    },
    /// An entity runs.
    Run {
        /// Where.
        cpu: CpuId,
        /// Which.
        entity: EntityId,
        /// The end of its slice.
        until: Instant,
    },
    /// Who runs goes on, with another end of its slice.
    Extend {
        /// Where.
        cpu: CpuId,
        /// The end of its slice.
        until: Instant,
    },
    /// A CPU was asked to pick again.
    Kick {
        /// Which.
        cpu: CpuId,
    },
    /// An entity is kept from running, or (0) no longer.
    Held {
        /// Which.
        entity: EntityId,
        /// The reasons, as [`sched::Held`] bits.
        reasons: u8,
    },
    /// An alarm was set.
    SetAlarm {
        /// Which.
        alarm: Alarm,
        /// Where it goes off.
        on: CpuId,
        /// When.
        at: Instant,
    },
    /// An alarm was cleared.
    ClearAlarm {
        /// Which.
        alarm: Alarm,
    },
    /// The run ended here: what ran until now ran until now.
    End,
}

impl From<Input> for Event {
    fn from(input: Input) -> Event {
        match input {
            Input::Wake { entity, why } => Event::Wake { entity, why },
            Input::Event { entity, what: Notice::Interrupt } => Event::Interrupt { entity },
            Input::Event { entity, what: Notice::SpinWait { waited } } => Event::SpinWait { entity, waited },
            Input::Block { cpu } => Event::Block { cpu },
            Input::Yield { cpu } => Event::Yield { cpu },
            Input::YieldTo { cpu, to } => Event::YieldTo { cpu, to },
            Input::Expire { cpu } => Event::Expire { cpu },
            Input::Kicked { cpu } => Event::Kicked { cpu },
            Input::Alarm { alarm } => Event::Alarm { alarm },
            Input::Pause { entity } => Event::Pause { entity },
            Input::Ran { cpu, time } => Event::Ran { cpu, time },
            Input::Freeze { cpu, .. } => Event::Freeze { cpu },
            Input::Thaw { cpu, .. } => Event::Thaw { cpu },
        }
    }
}

impl From<Action> for Event {
    fn from(action: Action) -> Event {
        match action {
            Action::Stop { cpu, entity } => Event::Stop { cpu, entity },
            Action::Run { cpu, entity, until } => Event::Run { cpu, entity, until },
            Action::Extend { cpu, until } => Event::Extend { cpu, until },
            Action::Kick { cpu } => Event::Kick { cpu },
            Action::Held { entity, reasons } => Event::Held { entity, reasons },
            Action::SetAlarm { alarm, on, at, .. } => Event::SetAlarm { alarm, on, at },
            Action::ClearAlarm { alarm, .. } => Event::ClearAlarm { alarm },
        }
    }
}

/// Where events go, in the order in which they happen.
pub trait Sink {
    /// One more event.
    fn record(&mut self, at: Instant, event: &Event);
}

/// A whole run, kept in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// What is true of all of it.
    pub header: Header,
    /// What happened, in order.
    pub events: Vec<(Instant, Event)>,
}

impl Trace {
    /// A trace with nothing in it yet.
    #[must_use]
    pub fn new(header: Header) -> Trace {
        Trace { header, events: Vec::new() }
    }

    /// Shows everything to `sink`, as it was shown to this trace.
    pub fn replay(&self, sink: &mut dyn Sink) {
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
