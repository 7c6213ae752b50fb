//! [`WorldTimeline`]: the trace of a world turned into intervals, machine by machine, and who is whose CPU.

use super::{MachineId, WorldHeader, WorldSink, WorldTrace};
use crate::timeline::{Timeline, TimelineBuilder};
use crate::{Event, Inconsistent, Sink};
use sched::{CpuId, EntityId, Instant};
use std::collections::BTreeMap;

/// Which entities of hosts are which CPUs of guests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Links {
    cpus: BTreeMap<(MachineId, EntityId), (MachineId, CpuId)>,
    entities: BTreeMap<(MachineId, CpuId), EntityId>,
}

impl Links {
    /// The guest and its CPU that `entity` of `host` is, if it is a vCPU.
    #[must_use]
    pub fn vcpu(&self, host: MachineId, entity: EntityId) -> Option<(MachineId, CpuId)> {
        self.cpus.get(&(host, entity)).copied()
    }

    /// The entity of its host that `cpu` of `guest` is.
    #[must_use]
    pub fn entity(&self, guest: MachineId, cpu: CpuId) -> Option<EntityId> {
        self.entities.get(&(guest, cpu)).copied()
    }
}

/// What is true of a world beyond each of its machines: one time, and who is whose CPU.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) header: WorldHeader,
    pub(crate) links: Links,
    now: Instant,
    number: u64,
}

impl Levels {
    /// Nothing has happened yet.
    ///
    /// # Errors
    /// There can be no such world.
    pub(crate) fn new(header: &WorldHeader) -> Result<Levels, Inconsistent> {
        let wrong = |reason| Inconsistent { number: 0, at: Instant::ZERO, reason };
        header.check().map_err(wrong)?;
        Ok(Levels { header: header.clone(), links: Links::default(), now: Instant::ZERO, number: 0 })
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// One more event, which its machine has yet to be asked about.
    ///
    /// # Errors
    /// The event contradicts those before it.
    pub(crate) fn take(&mut self, machine: MachineId, at: Instant, event: &Event) -> Result<(), Inconsistent> {
        self.number += 1;
        let wrong = |reason| Inconsistent { number: self.number, at, reason };
        if at < self.now {
            return Err(wrong(format!("time goes back from {}", self.now)));
        }
        if self.header.machine(machine).is_none() {
            let count = self.header.machines.len();
            return Err(wrong(format!(
                "there is no {machine}; right would be one below m{count}, the header's number"
            )));
        }
        self.now = at;
        match *event {
            Event::Vcpu { entity, guest, cpu } => self.link(machine, entity, guest, cpu),
            _ => Ok(()),
        }
        .map_err(|reason| self.wrong(machine, at, &reason))
    }

    /// What is wrong with the last event, which was one of `machine`.
    pub(crate) fn wrong(&self, machine: MachineId, at: Instant, reason: &str) -> Inconsistent {
        let name = &self.header.machines[machine.index()].name;
        Inconsistent { number: self.number, at, reason: format!("{machine} ({}): {reason}", name.escape_debug()) }
    }

    fn link(&mut self, host: MachineId, entity: EntityId, guest: MachineId, cpu: CpuId) -> Result<(), String> {
        let what = format!("{entity} is CPU {cpu} of {guest}");
        let Some(machine) = self.header.machine(guest).filter(|machine| machine.host == Some(host)) else {
            return Err(format!("{what}, which is no guest of {host}; right would be a machine with `host={host}`"));
        };
        let cpus = machine.header.cpus;
        if cpu.index() >= cpus {
            return Err(format!("{what}, which has only {cpus}; right would be a CPU below {cpus}"));
        }
        if let Some(other) = self.links.entities.get(&(guest, cpu)) {
            return Err(format!("{what}, but {other} is; right would be one entity for each CPU"));
        }
        if let Some((guest, cpu)) = self.links.cpus.get(&(host, entity)) {
            return Err(format!("{what}, but also CPU {cpu} of {guest}; right would be one CPU for each entity"));
        }
        self.links.cpus.insert((host, entity), (guest, cpu));
        self.links.entities.insert((guest, cpu), entity);
        Ok(())
    }
}

/// The trace of a world as intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct WorldTimeline {
    /// What is true of all of it.
    pub header: WorldHeader,
    /// The instant of the first event; zero if there is none.
    pub from: Instant,
    /// The instant of the last event; zero if there is none.
    pub to: Instant,
    /// By [`MachineId`]; all end together.
    pub machines: Vec<Timeline>,
    /// Who is whose CPU.
    pub links: Links,
}

impl WorldTimeline {
    /// The intervals of a whole trace.
    ///
    /// # Errors
    /// The first event that contradicts those before it.
    pub fn of(trace: &WorldTrace) -> Result<WorldTimeline, Inconsistent> {
        let mut builder = WorldTimelineBuilder::new(&trace.header);
        trace.show(&mut builder);
        builder.finish()
    }

    /// The timeline of the first machine with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Timeline> {
        let place = self.header.machines.iter().position(|machine| machine.name == name)?;
        self.machines.get(place)
    }
}

/// Makes a [`WorldTimeline`] from events as they happen, without keeping the events.
#[derive(Debug)]
pub struct WorldTimelineBuilder {
    /// Or the first contradiction.
    levels: Result<Levels, Inconsistent>,
    machines: Vec<TimelineBuilder>,
    from: Option<Instant>,
}

impl WorldTimelineBuilder {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(header: &WorldHeader) -> WorldTimelineBuilder {
        let levels = Levels::new(header);
        // A world that there cannot be gets no room.
        let known = levels.iter().flat_map(|levels| &levels.header.machines);
        let machines = known.map(|machine| TimelineBuilder::new(&machine.header)).collect();
        WorldTimelineBuilder { levels, machines, from: None }
    }

    /// Everything has happened.
    ///
    /// # Errors
    /// The first event that contradicted those before it.
    pub fn finish(self) -> Result<WorldTimeline, Inconsistent> {
        let levels = self.levels?;
        let to = levels.now();
        let machines = levels.header.ids().zip(self.machines).map(|(id, mut builder)| {
            // A machine on which nothing happens at the end is there nevertheless.
            builder.record(to, &Event::End);
            builder.finish().map_err(|error| levels.wrong(id, error.at, &error.reason))
        });
        let machines = machines.collect::<Result<Vec<Timeline>, Inconsistent>>()?;
        let Levels { header, links, .. } = levels;
        Ok(WorldTimeline { header, from: self.from.unwrap_or_default(), to, machines, links })
    }
}

impl WorldSink for WorldTimelineBuilder {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        let Ok(levels) = &mut self.levels else { return };
        self.from.get_or_insert(at);
        let outcome = levels.take(machine, at, event).and_then(|()| {
            let builder = &mut self.machines[machine.index()];
            builder.record(at, event);
            builder.error().map_or(Ok(()), |error| Err(levels.wrong(machine, at, &error.reason)))
        });
        if let Err(error) = outcome {
            self.levels = Err(error);
        }
    }
}
