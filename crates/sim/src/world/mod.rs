//! [`World`]: the hosts and guests of a simulation, in virtual time. The CPUs of a guest are entities of its host.
//!
//! The world keeps all machines in one list. For each vCPU, the world knows its entity on the host and its CPU in the
//! guest. An instant consists of rounds. A round delivers packets, reviews boosts and halts vCPUs. Then the guests, and
//! after them the hosts, process due work in the order of their ids, and settle. After a host has settled, each vCPU
//! that lost or received a CPU is frozen or thawed, and its guest processes deferred work in the next round. The
//! instant ends when no work is due. The order of events depends on nothing else, so equal calls give equal runs.

mod coordination;
mod guest_coordination;
mod network;
mod part;
mod rounds;
mod vcpu;
mod vcpu_state;

use crate::calendar::Calendar;
use crate::costs::Costs;
use crate::driver::{Driver, Watchers};
use crate::guest::Guest;
use crate::network::Network;
use crate::program::Application;
use crate::workload::Workload;
use guest_coordination::GuestCoordination;
use part::Part;
use sched::{
    CpuId, EntityId, GroupId, GroupParams, Instant, Kicks, Knobs, Machine, Nanos, Params, PolicySource, Refused, Wake,
};
use std::cell::RefCell;
use std::rc::Rc;
use trace::{Event, MachineId, Sink, WorldSink};
use vcpu_state::Vcpu;

/// The position of a machine among the machines and vCPUs of its world.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The machine whose entities are the CPUs of this machine. `None`: this machine is a host.
    host: Option<MachineId>,
    /// For a guest, the index of its first vCPU in `World::vcpus`.
    vcpus: usize,
    /// Number of the machine in its agenda: among the guests, or among the hosts.
    number: usize,
}

/// The instant at which each machine next has due work. Hosts and guests have separate agendas, because a world has few
/// hosts and many guests.
#[derive(Debug)]
struct Agenda {
    calendar: Calendar,
    /// Index of each machine, by number.
    machines: Vec<usize>,
}

impl Agenda {
    fn new() -> Agenda {
        Agenda { calendar: Calendar::new(1), machines: Vec::new() }
    }

    /// Adds the machine with this index, and returns its number in the agenda.
    fn add(&mut self, index: usize) -> usize {
        self.machines.push(index);
        self.calendar.reserve(self.machines.len());
        self.machines.len() - 1
    }

    /// Returns the index of the machine whose work is due first.
    #[inline]
    fn first(&self) -> usize {
        self.machines[self.calendar.first()]
    }

    #[inline]
    fn next(&self) -> Instant {
        self.calendar.next()
    }

    #[inline]
    fn set(&mut self, number: usize, at: Instant) {
        self.calendar.set(number, at);
    }

    fn get(&self, number: usize) -> Instant {
        self.calendar.get(number)
    }
}

/// The hosts and guests of a simulation, and the network between them.
pub struct World<'a> {
    machines: Vec<Driver<'a>>,
    places: Vec<Place>,
    vcpus: Vec<Vcpu>,
    /// Number of the vCPU that an entity represents, by machine and entity index. `None`: the entity is not a vCPU.
    vcpu_of: Vec<Vec<Option<u32>>>,
    /// Instants at which guests have due work. In a round, all guests precede all hosts.
    guests: Agenda,
    hosts: Agenda,
    /// Instants at which idle vCPUs halt, by vCPU.
    halts: Calendar,
    /// Coordination of a guest with its host, by machine.
    coordination: Vec<Option<Box<GuestCoordination>>>,
    /// Whether any guest coordinates.
    coordinates: bool,
    /// Instants of boost reviews, by machine.
    reviews: Calendar,
    /// Number of vCPUs that may be polling.
    polling: usize,
    network: Network,
    watchers: Watchers<'a>,
    now: Instant,
    /// Number of rounds of the current instant.
    rounds: usize,
    /// Part of the round at which the next call continues.
    part: Part,
    /// The host that was visited last.
    last_host: usize,
    /// Amount of work that the current call may still do, in the unit of [`run_within`](World::run_within).
    budget: u64,
    seed: u64,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).field("machines", &self.machines).finish_non_exhaustive()
    }
}

impl<'a> World<'a> {
    /// Creates a world without machines, at time zero. `seed`: seed of the random numbers from which lengths are drawn.
    #[must_use]
    pub fn new(seed: u64) -> World<'a> {
        World {
            machines: Vec::new(),
            places: Vec::new(),
            vcpus: Vec::new(),
            vcpu_of: Vec::new(),
            guests: Agenda::new(),
            hosts: Agenda::new(),
            halts: Calendar::new(1),
            coordination: Vec::new(),
            coordinates: false,
            reviews: Calendar::new(1),
            polling: 0,
            network: Network::default(),
            watchers: Rc::new(RefCell::new(Vec::new())),
            now: Instant::ZERO,
            rounds: 0,
            part: Part::Arrivals,
            last_host: 0,
            budget: 0,
            seed,
        }
    }

    // ---- Machines ----

    /// Adds an idle host.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this topology.
    pub fn add_host(
        &mut self,
        name: &str,
        policy: &dyn PolicySource,
        host: sched::Topology,
        knobs: &Knobs,
        costs: Costs,
    ) -> Result<MachineId, Refused> {
        let machine = Driver::new(policy, host, knobs, costs)?;
        Ok(self.add(name, machine, None))
    }

    /// Adds a guest whose CPUs are `vcpus`: entities of `host` that were attached as [`Workload::Vcpu`] and belong to
    /// no guest yet.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this topology.
    ///
    /// # Panics
    /// The number of vCPUs differs from the number of CPUs of the guest, or a vCPU already belongs to a guest.
    #[expect(clippy::too_many_arguments, reason = "a machine is made of that many things")]
    pub fn add_guest(
        &mut self,
        host: MachineId,
        name: &str,
        vcpus: &[EntityId],
        policy: &dyn PolicySource,
        topology: sched::Topology,
        knobs: &Knobs,
        guest: Guest,
        costs: Costs,
    ) -> Result<MachineId, Refused> {
        assert_eq!(vcpus.len(), topology.cpus, "a guest has as many CPUs as vCPUs");
        let kicks = if costs.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        let mut machine = Driver::around(Machine::build(policy, topology, knobs, kicks)?, costs);
        machine.guest = Some(guest);
        machine.cpus.is_guest = true;
        let id = self.add(name, machine, Some(host));
        if let Some(coordination) = guest.coordination {
            self.coordinate_with(host, id, vcpus, coordination);
        }
        for (cpu, &entity) in vcpus.iter().enumerate() {
            let cpu = CpuId::new(cpu);
            self.link(host, entity, id, cpu);
            self.machines[id.index()].freeze(cpu, false);
            if guest.idle_polls {
                self.call(self.places[id.index()].vcpus + cpu.index(), Wake::New { parent: None });
            }
        }
        Ok(id)
    }

    fn add(&mut self, name: &str, mut machine: Driver<'a>, host: Option<MachineId>) -> MachineId {
        let id = MachineId(u32::try_from(self.machines.len()).expect("a world has fewer than 2^32 machines"));
        machine.name = name.to_string();
        machine.cpus.now = self.now;
        // The random numbers of a machine are independent of the random numbers of other machines.
        machine.seed(self.seed.wrapping_add(u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        if !self.watchers.borrow().is_empty() {
            machine.watch_as(id, &self.watchers);
        }
        self.machines.push(machine);
        self.coordination.push(None);
        let agenda = if host.is_some() { &mut self.guests } else { &mut self.hosts };
        let number = agenda.add(id.index());
        self.places.push(Place { host, vcpus: self.vcpus.len(), number });
        self.vcpu_of.push(Vec::new());
        self.reviews.reserve(self.machines.len());
        id
    }

    fn link(&mut self, host: MachineId, entity: EntityId, guest: MachineId, cpu: CpuId) {
        let number = u32::try_from(self.vcpus.len()).expect("a world has fewer than 2^32 vCPUs");
        let of = &mut self.vcpu_of[host.index()];
        if of.len() <= entity.index() {
            of.resize(entity.index() + 1, None);
        }
        assert!(of[entity.index()].replace(number).is_none(), "{entity} is a vCPU already");
        self.vcpus.push(Vcpu::new(host, entity, guest, cpu, self.now));
        self.halts.reserve(self.vcpus.len());
        self.machines[host.index()].show(|| Event::Vcpu { entity, guest, cpu });
    }

    /// Passes all later events of `machine` to `sink`.
    pub fn watch(&mut self, machine: MachineId, sink: impl Sink + 'a) {
        self.watch_boxed(machine, Box::new(sink));
    }

    /// Passes all later events of `machine` to a boxed sink, like [`watch`](World::watch).
    pub fn watch_boxed(&mut self, machine: MachineId, sink: Box<dyn Sink + 'a>) {
        self.machines[machine.index()].watch_boxed(sink);
    }

    /// Passes all later events of every machine to `sink`.
    pub fn watch_all(&mut self, sink: impl WorldSink + 'a) {
        self.watch_all_boxed(Box::new(sink));
    }

    /// Passes all later events of every machine to a boxed sink, like [`watch_all`](World::watch_all).
    pub fn watch_all_boxed(&mut self, sink: Box<dyn WorldSink + 'a>) {
        self.watchers.borrow_mut().push(sink);
        for (index, machine) in self.machines.iter_mut().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "a world has fewer than 2^32 machines")]
            let id = MachineId(index as u32);
            machine.watch_as(id, &self.watchers);
        }
    }

    // ---- Membership ----

    /// Creates a group on `machine`.
    ///
    /// # Errors
    /// The machine's policy refuses the group.
    pub fn create_group(
        &mut self,
        machine: MachineId,
        name: &str,
        params: GroupParams,
        parent: GroupId,
    ) -> Result<GroupId, Refused> {
        self.change(machine, |it| it.create_group(name, params, parent))
    }

    /// Adds an entity to `machine` and starts its workload.
    ///
    /// # Errors
    /// The policy refuses the entity; nothing has changed.
    pub fn attach(
        &mut self,
        machine: MachineId,
        name: &str,
        params: Params,
        workload: Workload,
    ) -> Result<EntityId, Refused> {
        self.change(machine, |it| it.attach(name, params, workload))
    }

    /// Starts the tasks of an application on `machine`, all in `group`. Returns the number of the application and its
    /// tasks.
    ///
    /// # Errors
    /// The policy refuses a task or a group. In this case, no task of the application remains.
    pub fn start(
        &mut self,
        machine: MachineId,
        application: &Application,
        group: GroupId,
    ) -> Result<(u32, Vec<EntityId>), Refused> {
        self.change(machine, |it| it.start(application, group))
    }

    /// Ends the tasks of an application and all their children. A task on a vCPU without a physical CPU ends when the
    /// vCPU receives one.
    pub fn stop(&mut self, machine: MachineId, application: u32) {
        self.change(machine, |it| it.stop(application));
    }

    /// Changes the parameters of an entity.
    ///
    /// # Errors
    /// The policy refuses the parameters; nothing has changed.
    pub fn adjust(&mut self, machine: MachineId, entity: EntityId, params: Params) -> Result<(), Refused> {
        self.change(machine, |it| it.adjust(entity, params))?;
        self.rebase(machine, entity, params);
        Ok(())
    }

    /// Sets the time that a CPU of `machine` needs to switch to `entity`, in place of the machine's cost.
    pub fn set_switch(&mut self, machine: MachineId, entity: EntityId, time: Nanos) {
        self.machines[machine.index()].set_switch(entity, time);
    }

    /// Changes the parameters of a group.
    ///
    /// # Errors
    /// The policy refuses the parameters; nothing has changed.
    pub fn adjust_group(&mut self, machine: MachineId, group: GroupId, params: GroupParams) -> Result<(), Refused> {
        self.change(machine, |it| it.adjust_group(group, params))
    }

    /// Removes an entity that is not a vCPU. An entity on a vCPU without a physical CPU leaves when the vCPU receives
    /// one.
    ///
    /// # Panics
    /// The entity is a vCPU: a machine does not lose CPUs.
    pub fn detach(&mut self, machine: MachineId, entity: EntityId) {
        let of = &self.vcpu_of[machine.index()];
        assert!(of.get(entity.index()).is_none_or(Option::is_none), "{entity} is a vCPU");
        self.change(machine, |it| it.dismiss(entity));
    }

    fn change<R>(&mut self, machine: MachineId, change: impl FnOnce(&mut Driver<'a>) -> R) -> R {
        let it = &mut self.machines[machine.index()];
        it.cpus.now = self.now;
        let answer = change(it);
        self.schedule_visit(machine);
        answer
    }

    /// Schedules a visit of `machine` at this instant.
    fn schedule_visit(&mut self, machine: MachineId) {
        let Place { host, number, .. } = self.places[machine.index()];
        let agenda = if host.is_some() { &mut self.guests } else { &mut self.hosts };
        agenda.set(number, self.now);
    }

    // ---- Queries ----

    /// Returns the current instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns a machine.
    #[must_use]
    pub fn machine(&self, machine: MachineId) -> &Driver<'a> {
        &self.machines[machine.index()]
    }

    /// Returns the number of machines. The ids of machines count up from 0.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.machines.len()
    }

    /// Returns the number of inputs to all machines, except freezes and thaws.
    #[must_use]
    pub fn inputs(&self) -> u64 {
        self.machines.iter().map(|machine| machine.inputs).sum()
    }

    /// Returns the total duration of the finished polls of CPU `cpu` of `guest` (halt polling).
    #[must_use]
    pub fn polled(&self, guest: MachineId, cpu: CpuId) -> Nanos {
        self.vcpus[self.places[guest.index()].vcpus + cpu.index()].polled
    }
}
