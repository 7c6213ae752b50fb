//! [`XenMon`]: the CPU time, waiting time and blocked time of every domain of a host, and the numbers of its executions
//! and I/O events, from the events of a world.
//!
//! The measures are those of Xen's performance monitor: CPU time, waiting and blocked time, executions, I/O count, and
//! the allocation at each execution. Source: tools/xenmon/README of Xen, and Cherkasova, Gupta and Vahdat, "Comparison
//! of the three CPU schedulers in Xen", 2007, section 5.1. This module differs from XenMon in two points. XenMon
//! counted page flips between a domain and Dom0 as I/O; this module counts I/O events that were
//! [served](Event::Served). XenMon reported each CPU separately; this module sums over all CPUs of a host.
//!
//! A *domain* is a VM with all its vCPUs, with or without a guest, or all entities outside VMs that have the same name.

use sched::{Action, CpuId, EntityId, GroupId, Input, Instant, Nanos};
use std::collections::BTreeMap;
use trace::{Event, MachineId, WorldSink};

/// The state of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Doing {
    Running,
    Waiting,
    #[default]
    Blocked,
}

/// The measurements of a domain, as sums over its vCPUs, or over its tasks of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DomainMeasures {
    /// Time for which the domain's vCPUs were attached.
    pub there: Nanos,
    /// CPU time, including the costs of dispatches.
    pub cpu: Nanos,
    /// Time for which a vCPU was ready to run but did not run, whether or not the policy held the vCPU.
    pub waited: Nanos,
    /// Time for which a vCPU was neither running nor ready to run.
    pub blocked: Nanos,
    /// Number of time slices given to a vCPU of the domain. A slice is given at a dispatch, or at the end of a slice if
    /// another slice follows at once.
    pub executions: u64,
    /// Total length of the domain's time slices of limited length.
    pub allocated: Nanos,
    /// Number of executions with a time slice of limited length.
    pub bounded: u64,
    /// Number of I/O events that the domain or its tasks have served.
    pub io: u64,
}

impl DomainMeasures {
    /// Adds the measurements of `other`.
    pub fn add(&mut self, other: &DomainMeasures) {
        self.there += other.there;
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.blocked += other.blocked;
        self.executions += other.executions;
        self.allocated += other.allocated;
        self.bounded += other.bounded;
        self.io += other.io;
    }

    fn spend(&mut self, doing: Doing, time: Nanos) {
        match doing {
            Doing::Running => self.cpu += time,
            Doing::Waiting => self.waited += time,
            Doing::Blocked => self.blocked += time,
        }
    }
}

/// A VM, or all tasks of a host with the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Display name of the domain.
    pub name: String,
    /// Number of the domain's entities that were ever attached: vCPUs, or tasks with the same name.
    pub vcpus: u64,
    /// Measurements of the domain.
    pub got: DomainMeasures,
}

/// A host, with the measurements of its domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostMeasures {
    /// Id of the host.
    pub machine: MachineId,
    /// Domains in the order of their first arrival.
    pub domains: Vec<Domain>,
    /// Whether a part of the CPU time comes from counters of a kernel ([`Event::Background`]). The sum may then exceed
    /// the capacity of the host slightly.
    pub is_counted: bool,
}

/// An entity that is attached.
#[derive(Clone, Copy, Debug)]
struct Present {
    entity: EntityId,
    domain: usize,
    runnable: bool,
    on: Option<CpuId>,
    came: Instant,
    upto: Instant,
}

impl Present {
    fn doing(&self) -> Doing {
        match (self.on, self.runnable) {
            (Some(_), _) => Doing::Running,
            (None, true) => Doing::Waiting,
            (None, false) => Doing::Blocked,
        }
    }
}

/// A machine that may be a host.
#[derive(Debug, Default)]
struct Watched {
    groups: BTreeMap<GroupId, String>,
    domains: Vec<Domain>,
    /// Index of each domain, by name.
    places: BTreeMap<String, usize>,
    /// For each entity index, the attached entity with this index.
    present: Vec<Option<Present>>,
    /// Running entity of each CPU.
    running: Vec<Option<EntityId>>,
    /// Instant at which a time slice last expired, by CPU.
    expired: Vec<Option<Instant>>,
    is_counted: bool,
}

impl Watched {
    fn find(&mut self, entity: EntityId) -> Option<&mut Present> {
        self.present.get_mut(entity.index())?.as_mut().filter(|it| it.entity == entity)
    }

    /// Applies `change` to `entity` at `now`, after accounting for the time until then.
    fn change(&mut self, entity: EntityId, (from, now): (Instant, Instant), change: impl FnOnce(&mut Present)) {
        let Some(present) = self.find(entity) else { return };
        let (doing, domain) = (present.doing(), present.domain);
        let passed = now.saturating_since(present.upto.max(from));
        present.upto = present.upto.max(now);
        change(present);
        self.domains[domain].got.spend(doing, passed);
    }

    fn attach(&mut self, entity: EntityId, name: &str, group: GroupId, now: Instant) {
        let vm = self.groups.get(&group).filter(|vm| is_vcpu(name, vm));
        let domain = vm.map_or(name, String::as_str).to_string();
        let place = *self.places.entry(domain.clone()).or_insert(self.domains.len());
        if place == self.domains.len() {
            self.domains.push(Domain { name: domain, vcpus: 0, got: DomainMeasures::default() });
        }
        self.domains[place].vcpus += 1;
        if self.present.len() <= entity.index() {
            self.present.resize(entity.index() + 1, None);
        }
        self.present[entity.index()] =
            Some(Present { entity, domain: place, runnable: false, on: None, came: now, upto: now });
    }

    /// Removes `entity` when the entity is detached or the run ends.
    fn leave(&mut self, entity: EntityId, (from, now): (Instant, Instant)) {
        self.change(entity, (from, now), |_| ());
        let Some(&mut Present { domain, came, .. }) = self.find(entity) else { return };
        self.domains[domain].got.there += now.saturating_since(came.max(from));
        self.present[entity.index()] = None;
    }

    fn run(&mut self, cpu: CpuId, entity: EntityId, until: Instant, time: (Instant, Instant)) {
        if self.running.len() <= cpu.index() {
            self.running.resize(cpu.index() + 1, None);
        }
        self.running[cpu.index()] = Some(entity);
        self.change(entity, time, |it| it.on = Some(cpu));
        self.give(entity, until, time);
    }

    /// Counts another execution, up to `until`, of the entity on `cpu`, if its previous time slice ended at this
    /// instant.
    fn extend(&mut self, cpu: CpuId, until: Instant, time: (Instant, Instant)) {
        let ended = self.expired.get(cpu.index()).copied().flatten();
        if let Some(entity) = self.on(cpu).filter(|_| ended == Some(time.1)) {
            self.give(entity, until, time);
        }
    }

    fn expire(&mut self, cpu: CpuId, now: Instant) {
        if self.expired.len() <= cpu.index() {
            self.expired.resize(cpu.index() + 1, None);
        }
        self.expired[cpu.index()] = Some(now);
    }

    /// Counts an execution of `entity`, up to `until`.
    fn give(&mut self, entity: EntityId, until: Instant, (from, now): (Instant, Instant)) {
        let Some(domain) = self.find(entity).map(|it| it.domain).filter(|_| now >= from) else { return };
        let got = &mut self.domains[domain].got;
        got.executions += 1;
        if until != Instant::NEVER {
            got.bounded += 1;
            got.allocated += until.saturating_since(now);
        }
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId, time: (Instant, Instant)) {
        self.change(entity, time, |it| it.on = None);
        if let Some(running) = self.running.get_mut(cpu.index()) {
            *running = None;
        }
    }

    /// Counts `cpu_time` that `entity` had without being dispatched. Until now, this time counted as waiting or blocked.
    fn ran_beside(&mut self, entity: EntityId, cpu_time: Nanos, time: (Instant, Instant)) {
        self.is_counted = true;
        self.change(entity, time, |_| ());
        let Some(domain) = self.find(entity).map(|it| it.domain).filter(|_| time.1 >= time.0) else { return };
        let got = &mut self.domains[domain].got;
        let waited = cpu_time.min(got.waited);
        let blocked = cpu_time.saturating_sub(waited).min(got.blocked);
        (got.waited, got.blocked) = (got.waited - waited, got.blocked - blocked);
        got.cpu += waited + blocked;
    }

    fn on(&self, cpu: CpuId) -> Option<EntityId> {
        self.running.get(cpu.index()).copied().flatten()
    }

    fn record(&mut self, from: Instant, now: Instant, event: &Event) {
        let time = (from, now);
        match *event {
            Event::GroupCreated { group, ref name, .. } => {
                self.groups.insert(group, name.clone());
            }
            Event::Attach { entity, ref name, ref params } => self.attach(entity, name, params.group, now),
            Event::Detach { entity } => self.leave(entity, time),
            Event::Input(Input::Wake { entity, .. }) => self.change(entity, time, |it| it.runnable = true),
            Event::Input(Input::Pause { entity }) => self.change(entity, time, |it| it.runnable = false),
            Event::Input(Input::Block { cpu }) => {
                if let Some(entity) = self.on(cpu) {
                    self.change(entity, time, |it| it.runnable = false);
                }
            }
            Event::Action(Action::Run { cpu, entity, until }) => self.run(cpu, entity, until, time),
            Event::Action(Action::Extend { cpu, until }) => self.extend(cpu, until, time),
            Event::Input(Input::Expire { cpu }) => self.expire(cpu, now),
            Event::Action(Action::Stop { cpu, entity }) => self.stop(cpu, entity, time),
            Event::Background { entity, time: cpu_time } => self.ran_beside(entity, cpu_time, time),
            Event::Served { entity } if now >= from => {
                if let Some(domain) = self.find(entity).map(|it| it.domain) {
                    self.domains[domain].got.io += 1;
                }
            }
            Event::End => {
                let there: Vec<EntityId> = self.present.iter().flatten().map(|it| it.entity).collect();
                there.into_iter().for_each(|entity| self.leave(entity, time));
                for Domain { name, got, .. } in &self.domains {
                    assert!(
                        self.is_counted || got.cpu + got.waited + got.blocked == got.there,
                        "time of {name} is lost, or counted twice"
                    );
                }
            }
            // Other events change no entity's state.
            _ => {}
        }
    }
}

/// Returns whether `name` is a vCPU of `vm`. The vCPUs of VM `a` are named `a`, or `a/0`, `a/1`, …; no other name has a
/// `/` after `a`.
fn is_vcpu(name: &str, vm: &str) -> bool {
    name.strip_prefix(vm).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Measures the domains of every host of a world, as a [`WorldSink`]. The measurements are complete after
/// [`Event::End`].
#[derive(Debug, Default)]
pub struct XenMon {
    /// Start of the measurement: earlier events are not counted.
    from: Instant,
    /// Whether the events come from a host, which may lose some of them.
    is_of_host: bool,
    machines: BTreeMap<MachineId, Watched>,
    /// Host of each guest, and the guest's domain on that host.
    guests: BTreeMap<MachineId, (MachineId, usize)>,
}

impl XenMon {
    /// Returns a monitor that has recorded no event, and excludes everything before `from`.
    #[must_use]
    pub fn new(from: Instant) -> XenMon {
        XenMon { from, ..XenMon::default() }
    }

    /// Returns a monitor of a real host. Its events may be incomplete, so its sums are not checked.
    #[must_use]
    pub fn of_host() -> XenMon {
        XenMon { is_of_host: true, ..XenMon::default() }
    }

    /// Returns the measurements of the domains of each host, by machine.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostMeasures> {
        let hosts = self.machines.iter().filter(|(machine, _)| !self.guests.contains_key(machine));
        hosts
            .map(|(&machine, it)| HostMeasures { machine, domains: it.domains.clone(), is_counted: it.is_counted })
            .collect()
    }

    fn link(&mut self, host: MachineId, entity: EntityId, guest: MachineId) {
        if let Some(domain) = self.machines.get_mut(&host).and_then(|it| it.find(entity)).map(|it| it.domain) {
            self.guests.insert(guest, (host, domain));
            self.machines.remove(&guest);
        }
    }

    /// Counts an I/O event that a task of `guest` has served, for the VM of `guest` and for every VM that contains it.
    fn serve(&mut self, mut guest: MachineId) {
        while let Some(&(host, domain)) = self.guests.get(&guest) {
            if let Some(it) = self.machines.get_mut(&host) {
                it.domains[domain].got.io += 1;
            }
            guest = host;
        }
    }
}

impl WorldSink for XenMon {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if self.guests.contains_key(&machine) {
            if matches!(event, Event::Served { .. }) && at >= self.from {
                self.serve(machine);
            }
            return;
        }
        if let Event::Vcpu { entity, guest, .. } = *event {
            self.link(machine, entity, guest);
        }
        let watched = self.machines.entry(machine).or_default();
        watched.is_counted |= self.is_of_host;
        watched.record(self.from, at, event);
    }
}

#[cfg(test)]
mod tests;
