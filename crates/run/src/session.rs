//! [`Session`]: a world in which a scenario is played, and the ids that its entities have there.

use crate::cables::{Cables, Seat};
use crate::choose::Choice;
use crate::manager::{self, Manager, Watcher};
use crate::{Grant, HOST, Run};
use input::problem::{Problem, Problems, Wrong};
use input::source::Span;
use measure::Meter;
use scenario::{AppSpec, EntitySpec, Group, GuestSpec, Scenario};
use sched::{Descriptor, EntityId, GroupId, Instant, Params, Refused};
use sim::coordination::Coordinated;
use sim::{Stuck, Workload, World};
use std::rc::Rc;
use trace::MachineId;
use workloads::metrics::{FlowNames, Metrics};
use workloads::network::At;

/// What happens at one moment, in this order: departures make room for arrivals, and a guest boots once all its vCPUs are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    Leaves,
    Comes,
    Boots,
    Adjusts,
}

/// The subject of a change, by its place in the scenario: on the host (`None`) or in a guest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    Entity(Option<usize>, usize),
    Application(Option<usize>, usize),
    Guest(usize),
    /// The entity whose reservation changes, and how often it has changed before.
    Reservation(usize, usize),
}

/// A world, and the ids that the entities of a scenario have in it.
pub(super) struct Session<'s, 'w> {
    run: &'s Run<'s>,
    choices: &'s [Choice],
    pub(super) world: World<'w>,
    pub(super) host: IdMap,
    pub(super) guests: Vec<Option<IdMap>>,
    /// Of each guest.
    meters: Vec<Option<(&'w mut Meter, &'w mut Metrics)>>,
    pub(super) manager: Option<Manager<'s>>,
    /// How many changes of each entity of the host were refused.
    pub(super) refused: Vec<u64>,
    pub(super) cables: Cables<'s>,
    flow_owners: FlowOwners,
    /// What had come of the coordination of each guest when measuring began; `None`: it has not.
    before: Option<Vec<Option<Coordinated>>>,
}

/// The owners of flows, for the metrics of applications on each host and in each guest.
#[derive(Debug, Default)]
pub(super) struct FlowOwners {
    pub(super) hosts: Vec<FlowNames>,
    pub(super) guests: Vec<FlowNames>,
}

/// The ids on one machine, or on all hosts together.
#[derive(Debug)]
pub(super) struct IdMap {
    /// Of hosts: the first.
    pub(super) machine: MachineId,
    groups: Vec<GroupId>,
    pub(super) entities: Vec<Option<EntityId>>,
    /// Each with its parts: where they are, and their numbers there.
    applications: Vec<Option<Vec<(Seat, u32)>>>,
}

impl<'s, 'w> Session<'s, 'w> {
    pub(super) fn new(
        run: &'s Run<'s>,
        choices: &'s [Choice],
        meters: &'w mut [Meter],
        measures: &'w mut [Metrics],
        flow_owners: FlowOwners,
    ) -> Result<Session<'s, 'w>, Problems> {
        let Run { scenario, policy, knobs, seed, .. } = *run;
        let mut world = World::new(seed);
        for (guest, within) in scenario.guests.iter().zip(choices) {
            crate::suits::coordination(scenario, guest, (policy, knobs), within)?;
        }
        for host in 0..scenario.hosts {
            let name = scenario.host_name(host);
            let machine = world.add_host(&name, policy, scenario.host, knobs, scenario.costs);
            let machine = machine.map_err(|why| refused_policy(scenario, policy, &why))?;
            assert_eq!(machine, machine_of_host(host), "hosts come first");
        }
        let cables = Cables::new(scenario, &mut world)?;
        let host = IdMap {
            machine: HOST,
            groups: Vec::new(),
            entities: vec![None; scenario.entities.len()],
            applications: vec![None; scenario.applications.len()],
        };
        let guests = scenario.guests.iter().map(|_| None).collect();
        let refused = vec![0; scenario.entities.len()];
        let meters = meters.iter_mut().zip(measures).map(Some).collect();
        Ok(Session {
            run,
            choices,
            world,
            host,
            guests,
            meters,
            manager: None,
            refused,
            cables,
            flow_owners,
            before: None,
        })
    }

    /// The workload manager comes, if there is one, and watches through `watcher`.
    pub(super) fn employ(&mut self, watcher: &'w mut Watcher) {
        if let Some(spec) = &self.run.scenario.manager {
            self.manager = Some(Manager::new(self.run.scenario, spec, Rc::clone(&watcher.0)));
            self.world.watch(HOST, watcher);
        }
    }

    pub(super) fn play(&mut self, grants: &mut [Option<Grant>]) -> Result<(), Problems> {
        let scenario = self.run.scenario;
        self.host.groups = create_groups(scenario, &scenario.groups, &mut self.world, machine_of_host)?;
        let end = Instant::ZERO + scenario.length;
        for (at, change, subject) in changes(scenario, end) {
            self.advance(at)?;
            match (change, subject) {
                (_, Subject::Guest(guest)) => self.boot(guest)?,
                (_, Subject::Reservation(index, nth)) => self.adjust(index, nth),
                (Change::Leaves, subject) => self.leave(subject),
                (_, subject) => self.come(subject, grants)?,
            }
        }
        self.advance(end)?;
        if self.manager.as_ref().is_some_and(|manager| manager.next == end) {
            self.manage();
        }
        self.world.finish(end).map_err(|stuck| self.stuck(&stuck))
    }

    /// Lets everything before `at` happen, and sees what has come of coordination where measuring begins.
    fn advance(&mut self, at: Instant) -> Result<(), Problems> {
        let from = self.run.scenario.measured_from();
        if self.before.is_none() && from <= at {
            self.pass(from)?;
            self.before = Some(self.coordinated());
        }
        self.pass(at)
    }

    /// What has come of the coordination of each guest since measuring began.
    pub(super) fn coordinated_since(&self) -> Vec<Option<Coordinated>> {
        let mut coordinated = self.coordinated();
        for (got, before) in coordinated.iter_mut().zip(self.before.iter().flatten()) {
            *got = got.map(|got| before.map_or(got, |before| got.since(&before)));
        }
        coordinated
    }

    /// What has come of the coordination of each guest; `None`: it does not coordinate, or has not booted.
    fn coordinated(&self) -> Vec<Option<Coordinated>> {
        let machines = self.guests.iter().map(|cast| cast.as_ref().map(|cast| cast.machine));
        machines.map(|machine| self.world.coordinated(machine?)).collect()
    }

    /// Lets everything before `at` happen, with the turns of the manager. Arrivals and departures at the moment of a turn come before it.
    fn pass(&mut self, at: Instant) -> Result<(), Problems> {
        while let Some(turn) = self.manager.as_ref().map(|manager| manager.next).filter(|&turn| turn < at) {
            self.world.run_until(turn).map_err(|stuck| self.stuck(&stuck))?;
            self.manage();
        }
        self.world.run_until(at).map_err(|stuck| self.stuck(&stuck))
    }

    fn manage(&mut self) {
        let IdMap { machine, groups, entities, .. } = &self.host;
        let host = manager::HostIds { machine: *machine, groups, entities };
        if let Some(manager) = &mut self.manager {
            manager.turn(host, &mut self.world);
        }
    }

    fn cast(&mut self, guest: Option<usize>) -> &mut IdMap {
        match guest {
            None => &mut self.host,
            Some(guest) => self.guests[guest].as_mut().expect("an entity comes after its guest boots"),
        }
    }

    /// The machine of an entity in a guest, or on a host.
    fn machine(&mut self, guest: Option<usize>, host: usize) -> MachineId {
        if guest.is_none() { machine_of_host(host) } else { self.cast(guest).machine }
    }

    fn boot(&mut self, guest: usize) -> Result<(), Problems> {
        let scenario = self.run.scenario;
        let spec = &scenario.guests[guest];
        let Choice { policy, knobs } = &self.choices[guest];
        let vcpus: Vec<EntityId> =
            self.host.entities[spec.vcpus.clone()].iter().map(|id| id.expect("its vCPUs have come")).collect();
        let cpus = sched::Topology::new(vcpus.len());
        let host = machine_of_host(scenario.host_of(guest));
        let built = self.world.add_guest(host, &spec.name, &vcpus, *policy, cpus, knobs, spec.guest, scenario.costs);
        let machine = built.map_err(|why| {
            Problems::from(Wrong::from(&why).said_of(&spec.name).anywhere(placed(spec.place)).within(&scenario.source))
        })?;
        if let Some((meter, metrics)) = self.meters.get_mut(guest).and_then(Option::take) {
            self.world.watch(machine, meter);
            if !metrics.is_empty() {
                self.world.watch(machine, metrics);
            }
        }
        let groups = create_groups(scenario, &spec.groups, &mut self.world, |_| machine)?;
        let vm = scenario.entities[spec.vcpus.start].group.map_or(GroupId::ROOT, |group| self.host.groups[group]);
        let laid = self.cables.boot(guest, machine, vm, &mut self.world);
        laid.map_err(|why| refused(scenario, &spec.name, spec.place, &why))?;
        let (entities, applications) = (vec![None; spec.entities.len()], vec![None; spec.applications.len()]);
        self.guests[guest] = Some(IdMap { machine, groups, entities, applications });
        Ok(())
    }

    fn come(&mut self, subject: Subject, grants: &mut [Option<Grant>]) -> Result<(), Problems> {
        let scenario = self.run.scenario;
        match subject {
            Subject::Entity(of, index) => {
                let asking = &entities(scenario, of)[index];
                let machine = self.machine(of, asking.host);
                let group = asking.group.map_or(GroupId::ROOT, |group| self.cast(of).groups[group]);
                let params = Params { group, ..asking.params };
                let is_vcpu = of.is_none() && scenario.guests.iter().any(|guest| guest.vcpus.contains(&index));
                let workload = if is_vcpu { Workload::Vcpu } else { asking.workload };
                let attached = self.world.attach(machine, &asking.name, params, workload);
                let id = attached.map_err(|why| refused(scenario, &asking.name, asking.place, &why))?;
                self.cast(of).entities[index] = Some(id);
                if let Some(switch) = asking.switch {
                    self.world.set_switch(machine, id, switch);
                }
                if of.is_none() {
                    grants[index] = granted(&self.world, machine, id);
                }
            }
            Subject::Application(of, index) => {
                let spec = &applications(scenario, of)[index];
                let machine = self.machine(of, spec.host);
                let group = spec.group.map_or(GroupId::ROOT, |group| self.cast(of).groups[group]);
                let started = self.world.start(machine, &spec.application, group);
                let (id, _) = started.map_err(|why| refused(scenario, &spec.name, spec.place, &why))?;
                let parts = self.connect(of, id, spec)?;
                self.cast(of).applications[index] = Some(parts);
            }
            Subject::Guest(_) | Subject::Reservation(..) => unreachable!("guests boot, and reservations are adjusted"),
        }
        Ok(())
    }

    /// The reservation of an entity of the host changes for the `nth` time; where the policy refuses that, it stays as it was.
    fn adjust(&mut self, index: usize, nth: usize) {
        let spec = &self.run.scenario.entities[index];
        let id = self.host.entities[index].expect("an entity changes after it came");
        let machine = machine_of_host(spec.host);
        let old = *self.world.machine(machine).machine().params(id);
        let params = Params { reservation: Some(spec.changes[nth].1), ..old };
        if self.world.adjust(machine, id, params).is_err() {
            self.refused[index] += 1;
        }
    }

    /// Starts the other parts of application number `id`, and lays the links between them.
    fn connect(&mut self, of: Option<usize>, id: u32, spec: &AppSpec) -> Result<Vec<(Seat, u32)>, Problems> {
        let scenario = self.run.scenario;
        let mut parts = vec![(of.map_or(Seat::Host(spec.host), Seat::Guest), id)];
        for peer in &spec.reach.peers {
            let seat = match &peer.at {
                At::Outside => Seat::Outside,
                At::Vm(name) => Seat::Guest(scenario.guest_of(name).expect("its VMs exist")),
            };
            let started = self.world.start(self.cables.machine(seat), &peer.application, GroupId::ROOT);
            let (id, _) = started.map_err(|why| refused(scenario, &spec.name, spec.place, &why))?;
            parts.push((seat, id));
        }
        let tape = of.map_or(self.flow_owners.hosts.get(spec.host), |guest| self.flow_owners.guests.get(guest));
        for (number, link) in (0..).zip(&spec.reach.links) {
            let flow = self.cables.connect(link, &parts, &mut self.world);
            if let (Some(tape), 0) = (tape, link.to.part) {
                tape.borrow_mut().insert(flow.0, (spec.name.clone(), number));
            }
        }
        Ok(parts)
    }

    fn leave(&mut self, subject: Subject) {
        match subject {
            Subject::Entity(of, index) => {
                let machine = self.machine(of, entities(self.run.scenario, of)[index].host);
                let id = self.cast(of).entities[index].expect("an entity leaves after it came");
                self.world.detach(machine, id);
            }
            Subject::Application(of, index) => {
                let cast = self.cast(of);
                let parts = cast.applications[index].take().expect("an application leaves after it came");
                for (seat, id) in parts {
                    self.world.stop(self.cables.machine(seat), id);
                }
            }
            Subject::Guest(_) | Subject::Reservation(..) => unreachable!("guests and reservations stay"),
        }
    }

    /// The run cannot go on. Where one application alone can be meant, its place is shown.
    fn stuck(&self, stuck: &Stuck) -> Problems {
        let scenario = self.run.scenario;
        let mut all = scenario.applications.iter().chain(scenario.guests.iter().flat_map(|guest| &guest.applications));
        let only = all.next().filter(|_| all.next().is_none()).and_then(|application| placed(application.place));
        let mut lines = vec![stuck.help.to_string()];
        lines.extend(stuck.waits());
        let problem =
            Problem::new(format!("at {} on {}: {}", stuck.at, stuck.machine, stuck.why)).help(lines.join("\n"));
        match only {
            Some(place) => problem.at(place, "of this").within(&scenario.source).into(),
            None => problem.into(),
        }
    }
}

pub(crate) fn placed(place: Span) -> Option<Span> {
    (place != Span::default()).then_some(place)
}

fn entities(scenario: &Scenario, guest: Option<usize>) -> &[EntitySpec] {
    guest.map_or(&scenario.entities, |guest| &scenario.guests[guest].entities)
}

fn applications(scenario: &Scenario, guest: Option<usize>) -> &[AppSpec] {
    guest.map_or(&scenario.applications, |guest| &scenario.guests[guest].applications)
}

fn refused(scenario: &Scenario, name: &str, place: Span, why: &Refused) -> Problems {
    Wrong::from(why).said_of(name).anywhere(placed(place)).within(&scenario.source).into()
}

/// The machine of host number `host`: hosts come first.
#[expect(clippy::cast_possible_truncation, reason = "there are few hosts")]
pub(crate) fn machine_of_host(host: usize) -> MachineId {
    MachineId(host as u32)
}

fn granted(world: &World<'_>, machine: MachineId, entity: EntityId) -> Option<Grant> {
    let promise = world.machine(machine).machine().promise(entity)?;
    Some(Grant { slice: promise.slice, period: promise.period })
}

fn create_groups(
    scenario: &Scenario,
    groups: &[Group],
    world: &mut World<'_>,
    machine_of: impl Fn(usize) -> MachineId,
) -> Result<Vec<GroupId>, Problems> {
    let mut ids: Vec<GroupId> = Vec::with_capacity(groups.len());
    for group in groups {
        let parent = group.parent.map_or(GroupId::ROOT, |parent| ids[parent]);
        let created = world.create_group(machine_of(group.host), &group.name, group.params, parent);
        ids.push(created.map_err(|why| refused(scenario, &group.name, group.place, &why))?);
    }
    Ok(ids)
}

/// When a guest boots: with the last of its vCPUs.
fn boots(scenario: &Scenario, guest: &GuestSpec) -> Instant {
    let vcpus = scenario.entities[guest.vcpus.clone()].iter();
    vcpus.map(|vcpu| vcpu.arrival).max().unwrap_or(Instant::ZERO)
}

/// The guests in the order in which they boot.
pub(crate) fn boot_order(scenario: &Scenario) -> Vec<usize> {
    let end = Instant::ZERO + scenario.length;
    let mut order: Vec<(Instant, usize)> =
        scenario.guests.iter().enumerate().map(|(index, guest)| (boots(scenario, guest), index)).collect();
    order.retain(|(at, _)| *at < end);
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}

/// The changes before the end, in the order in which they happen.
fn changes(scenario: &Scenario, end: Instant) -> Vec<(Instant, Change, Subject)> {
    let mut changes = Vec::new();
    let mut add = |arrival: Instant, leaves: Option<Instant>, comes: Change, subject: Subject| {
        if arrival < end {
            changes.push((arrival, comes, subject));
        }
        if let Some(leaves) = leaves.filter(|&leaves| leaves < end) {
            changes.push((leaves, Change::Leaves, subject));
        }
    };
    for of in std::iter::once(None).chain((0..scenario.guests.len()).map(Some)) {
        // In a guest, an entity that comes at the boot comes after it.
        let comes = if of.is_none() { Change::Comes } else { Change::Boots };
        for (index, entity) in entities(scenario, of).iter().enumerate() {
            add(entity.arrival, entity.leaves, comes, Subject::Entity(of, index));
        }
        for (index, application) in applications(scenario, of).iter().enumerate() {
            // One with parts in guests comes when they have booted, too.
            let reaches = application.reach.peers.iter().any(|peer| peer.at != At::Outside);
            let comes = if reaches { Change::Boots } else { comes };
            add(application.arrival, application.leaves, comes, Subject::Application(of, index));
        }
    }
    for (index, entity) in scenario.entities.iter().enumerate() {
        for (nth, (at, _)) in entity.changes.iter().enumerate() {
            add(*at, None, Change::Adjusts, Subject::Reservation(index, nth));
        }
    }
    for (index, guest) in scenario.guests.iter().enumerate() {
        add(boots(scenario, guest), None, Change::Boots, Subject::Guest(index));
    }
    // Guests first among those of one moment that come after all of the host.
    let guests_first = |subject: &Subject| (!matches!(subject, Subject::Guest(_)), *subject);
    changes.sort_unstable_by_key(|(at, change, subject)| (*at, *change, guests_first(subject)));
    changes
}

/// The policy cannot be had like this on this machine.
fn refused_policy(scenario: &Scenario, policy: &Descriptor, why: &Refused) -> Problems {
    let chosen = scenario.policy.as_ref().filter(|chosen| chosen.name == policy.name);
    let place = chosen.and_then(|chosen| placed(chosen.place));
    let problem = Wrong::from(why).said_of(policy.name).anywhere(place);
    if place.is_some() { problem.within(&scenario.source).into() } else { problem.into() }
}
