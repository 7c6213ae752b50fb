//! [`WorldTimeline`]: the trace of a world as one timeline per machine, with the links between vCPUs and the CPUs of
//! guests.

use super::{MachineId, WorldHeader, WorldSink, WorldTrace};
use crate::timeline::{Timeline, TimelineBuilder};
use crate::{Event, Inconsistent, Sink};
use sched::{CpuId, EntityId, Instant};
use std::collections::BTreeMap;

/// The links between entities of hosts and CPUs of guests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Links {
    cpus: BTreeMap<(MachineId, EntityId), (MachineId, CpuId)>,
    entities: BTreeMap<(MachineId, CpuId), EntityId>,
}

impl Links {
    /// Returns the guest and CPU of the vCPU `entity` of `host`. `None`: `entity` is not a vCPU.
    #[must_use]
    pub fn vcpu(&self, host: MachineId, entity: EntityId) -> Option<(MachineId, CpuId)> {
        self.cpus.get(&(host, entity)).copied()
    }

    /// Returns the entity of the host that is the vCPU for `cpu` of `guest`. `None`: no vCPU has been linked to `cpu`
    /// yet.
    #[must_use]
    pub fn entity(&self, guest: MachineId, cpu: CpuId) -> Option<EntityId> {
        self.entities.get(&(guest, cpu)).copied()
    }
}

/// The state of a world that belongs to no single machine: its time, and the links between vCPUs and the CPUs of
/// guests.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) header: WorldHeader,
    pub(crate) links: Links,
    now: Instant,
    number: u64,
}

impl Levels {
    /// Returns the state before the first event.
    ///
    /// # Errors
    /// The header is invalid.
    pub(crate) fn new(header: &WorldHeader) -> Result<Levels, Inconsistent> {
        let wrong = |reason| Inconsistent { number: 0, at: Instant::ZERO, reason };
        header.check().map_err(wrong)?;
        Ok(Levels { header: header.clone(), links: Links::default(), now: Instant::ZERO, number: 0 })
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Processes the next event, before the follower of its machine does.
    ///
    /// # Errors
    /// The event contradicts earlier events.
    #[inline]
    pub(crate) fn take(&mut self, machine: MachineId, at: Instant, event: &Event) -> Result<(), Inconsistent> {
        self.number += 1;
        let count = self.header.machines.len();
        if at < self.now || machine.index() >= count {
            let reason = if at < self.now {
                format!("time goes back from {}", self.now)
            } else {
                format!("there is no {machine}; help: use a machine below m{count}, the number in the header")
            };
            return Err(Inconsistent { number: self.number, at, reason });
        }
        self.now = at;
        if let Event::Vcpu { entity, guest, cpu } = *event {
            self.link(machine, entity, guest, cpu).map_err(|reason| self.wrong(machine, at, &reason))?;
        }
        Ok(())
    }

    /// Returns an error about the last event, which was an event of `machine`.
    pub(crate) fn wrong(&self, machine: MachineId, at: Instant, reason: &str) -> Inconsistent {
        let name = &self.header.machines[machine.index()].name;
        Inconsistent { number: self.number, at, reason: format!("{machine} ({}): {reason}", name.escape_debug()) }
    }

    fn link(&mut self, host: MachineId, entity: EntityId, guest: MachineId, cpu: CpuId) -> Result<(), String> {
        let what = format!("{entity} is CPU {cpu} of {guest}");
        let Some(machine) = self.header.machine(guest).filter(|machine| machine.host == Some(host)) else {
            return Err(format!("{what}, which is no guest of {host}; help: name a machine with `host={host}`"));
        };
        let cpus = machine.header.cpus;
        if cpu.index() >= cpus {
            return Err(format!("{what}, which has only {cpus}; help: use a CPU below {cpus}"));
        }
        if let Some(other) = self.links.entities.get(&(guest, cpu)) {
            return Err(format!("{what}, but {other} is; help: link one entity to each CPU"));
        }
        if let Some((guest, cpu)) = self.links.cpus.get(&(host, entity)) {
            return Err(format!("{what}, but also CPU {cpu} of {guest}; help: link one CPU to each entity"));
        }
        self.links.cpus.insert((host, entity), (guest, cpu));
        self.links.entities.insert((guest, cpu), entity);
        Ok(())
    }
}

/// The trace of a world as intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct WorldTimeline {
    /// Headers of the world and its machines.
    pub header: WorldHeader,
    /// Instant of the first event. Zero if there is no event.
    pub from: Instant,
    /// Instant of the last event. Zero if there is no event.
    pub to: Instant,
    /// Timelines of the machines, by [`MachineId`]. All have the same end.
    pub machines: Vec<Timeline>,
    /// Links between vCPUs and the CPUs of guests.
    pub links: Links,
}

impl WorldTimeline {
    /// Returns the timelines of a whole trace.
    ///
    /// # Errors
    /// The header is invalid, or an event contradicts earlier events. The first such error is returned.
    pub fn of(trace: &WorldTrace) -> Result<WorldTimeline, Inconsistent> {
        let mut builder = WorldTimelineBuilder::new(&trace.header);
        trace.show(&mut builder);
        builder.finish()
    }

    /// Returns the timeline of the first machine with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Timeline> {
        let place = self.header.machines.iter().position(|machine| machine.name == name)?;
        self.machines.get(place)
    }
}

/// Builds a [`WorldTimeline`] from events as they arrive, without storing the events.
#[derive(Debug)]
pub struct WorldTimelineBuilder {
    /// State of the world, or the first error: an invalid header or a contradiction.
    levels: Result<Levels, Inconsistent>,
    machines: Vec<TimelineBuilder>,
    from: Option<Instant>,
}

impl WorldTimelineBuilder {
    /// Creates a builder that has not received any event.
    #[must_use]
    pub fn new(header: &WorldHeader) -> WorldTimelineBuilder {
        let levels = Levels::new(header);
        // No memory is allocated for the machines of an invalid world.
        let known = levels.iter().flat_map(|levels| &levels.header.machines);
        let machines = known.map(|machine| TimelineBuilder::new(&machine.header)).collect();
        WorldTimelineBuilder { levels, machines, from: None }
    }

    /// Ends the trace and returns the timeline.
    ///
    /// # Errors
    /// The header is invalid, or an event contradicted earlier events. The first such error is returned.
    pub fn finish(self) -> Result<WorldTimeline, Inconsistent> {
        let levels = self.levels?;
        let to = levels.now();
        let machines = levels.header.ids().zip(self.machines).map(|(id, mut builder)| {
            // All timelines end at the same instant.
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
        if let Err(error) = levels.take(machine, at, event) {
            self.levels = Err(error);
            return;
        }
        let builder = &mut self.machines[machine.index()];
        builder.record(at, event);
        if let Some(error) = builder.error() {
            self.levels = Err(levels.wrong(machine, at, &error.reason));
        }
    }
}
