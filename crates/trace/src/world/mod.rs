//! A world of several machines: hosts, and guests whose CPUs are entities of a host. Each machine has its own events
//! and its own ids. A [`WorldSink`] receives each event with its machine.

mod timeline;
mod watch;

use crate::account::Account;
use crate::event::{Event, Header, Trace};
use crate::machine_id::{MACHINES_MAX, MachineId};
use sched::id::CPUS_MAX;
use sched::{EntityId, Instant};

pub(crate) use timeline::Levels;
pub use timeline::{Links, WorldTimeline, WorldTimelineBuilder};
pub use watch::WorldWatch;

/// The header of one machine of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineHeader {
    /// Name of the machine: `host` (with several hosts `host-1`, `host-2`, …), `outside`, or the name of the VM.
    pub name: String,
    /// Header of the machine's own trace.
    pub header: Header,
    /// Host of the machine, if the machine is a guest.
    pub host: Option<MachineId>,
}

impl MachineHeader {
    /// Checks that machine `id` of a world can have this header.
    ///
    /// # Errors
    /// The header is invalid. The message describes the contradiction and a remedy.
    pub(crate) fn check(&self, id: MachineId) -> Result<(), String> {
        let cpus = self.header.cpus;
        if id.index() >= MACHINES_MAX {
            return Err(format!("{id} is one machine too many; help: use at most {MACHINES_MAX}"));
        }
        if !(1..=CPUS_MAX).contains(&cpus) {
            return Err(format!("{id} has {cpus} CPUs; help: use 1 to {CPUS_MAX}"));
        }
        match self.host {
            Some(host) if host >= id => Err(format!(
                "the host of {id} is {host}, which does not come before it; help: put a host before its guests"
            )),
            _ => Ok(()),
        }
    }
}

/// The headers of a world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorldHeader {
    /// Headers of the machines, by [`MachineId`]. Length: 1 to [`MACHINES_MAX`].
    pub machines: Vec<MachineHeader>,
}

impl WorldHeader {
    /// Returns the ids of all machines, except those beyond [`MACHINES_MAX`].
    pub fn ids(&self) -> impl Iterator<Item = MachineId> + Clone + use<> {
        let count = u32::try_from(self.machines.len().min(MACHINES_MAX)).expect("there are not that many machines");
        (0..count).map(MachineId)
    }

    /// Returns the header of `id`. `None`: the world does not contain the machine.
    #[must_use]
    pub fn machine(&self, id: MachineId) -> Option<&MachineHeader> {
        self.machines.get(id.index())
    }

    /// Returns the guests of `host`, by id.
    pub fn guests(&self, host: MachineId) -> impl Iterator<Item = MachineId> + '_ {
        self.ids().filter(move |&id| host < id && self.machines[id.index()].host == Some(host))
    }

    /// Checks the headers of all machines.
    ///
    /// # Errors
    /// The header is invalid. The message describes the contradiction and a remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=MACHINES_MAX).contains(&self.machines.len()) {
            return Err(format!("a world of {} machines; help: use 1 to {MACHINES_MAX}", self.machines.len()));
        }
        self.ids().try_for_each(|id| self.machines[id.index()].check(id))
    }

    /// Returns every machine with the number of its ancestors: hosts by id, each followed by its guests.
    pub(crate) fn tree(&self) -> Vec<(MachineId, usize)> {
        let mut guests: Vec<Vec<MachineId>> = vec![Vec::new(); self.machines.len()];
        let mut stack = Vec::new();
        for id in self.ids().collect::<Vec<_>>().into_iter().rev() {
            match self.machines[id.index()].host.filter(|&host| host < id) {
                Some(host) => guests[host.index()].push(id),
                None => stack.push((id, 0)),
            }
        }
        let mut tree = Vec::with_capacity(self.machines.len());
        while let Some((id, depth)) = stack.pop() {
            tree.push((id, depth));
            stack.extend(guests[id.index()].iter().map(|&guest| (guest, depth + 1)));
        }
        tree
    }
}

/// The trace of a world, in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct WorldTrace {
    /// Headers of the world's machines.
    pub header: WorldHeader,
    /// Events of the run in order, each with its machine.
    pub events: Vec<(MachineId, Instant, Event)>,
}

impl WorldTrace {
    /// Creates an empty trace.
    #[must_use]
    pub fn new(header: WorldHeader) -> WorldTrace {
        WorldTrace { header, events: Vec::new() }
    }

    /// Returns the events of one machine, as a separate trace. `None`: the world does not contain the machine.
    #[must_use]
    pub fn of(&self, machine: MachineId) -> Option<Trace> {
        let mut trace = Trace::new(self.header.machine(machine)?.header.clone());
        let own = self.events.iter().filter(|(of, ..)| *of == machine);
        trace.events = own.map(|(_, at, event)| (*at, event.clone())).collect();
        Some(trace)
    }

    /// Passes every event to `sink`, in order.
    pub fn show(&self, sink: &mut dyn WorldSink) {
        for (machine, at, event) in &self.events {
            sink.record(*machine, *at, event);
        }
    }
}

impl WorldSink for WorldTrace {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        self.events.push((machine, at, event.clone()));
    }
}

/// A receiver of the events of a world, in order.
pub trait WorldSink {
    /// Processes the next event, which is an event of `machine`.
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event);

    /// Returns whether the sink ignores all further events, so that the world may stop passing events to the sink.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns whether the sink reads the accounts of policies. The answer must not change.
    fn reads_accounts(&self) -> bool {
        false
    }

    /// Processes the account that the policy of `machine` keeps for `entity`. The simulator calls this function for every
    /// attached entity after each settle of the machine, if [`reads_accounts`](WorldSink::reads_accounts) is true.
    fn account(&mut self, _machine: MachineId, _at: Instant, _entity: EntityId, _account: &Account) {}
}

impl<S: WorldSink + ?Sized> WorldSink for &mut S {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        (**self).record(machine, at, event);
    }

    fn is_over(&self) -> bool {
        (**self).is_over()
    }

    fn reads_accounts(&self) -> bool {
        (**self).reads_accounts()
    }

    fn account(&mut self, machine: MachineId, at: Instant, entity: EntityId, account: &Account) {
        (**self).account(machine, at, entity, account);
    }
}
