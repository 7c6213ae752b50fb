//! [`Session`]: a run in progress, and the ids that its world assigned to the entities of the scenario.

use crate::cables::{Cables, Seat};
use crate::changes::{Change, Subject, applications, changes, entities};
use crate::choose::Choice;
use crate::machines::{HOST, machine_of_host};
use crate::manager::{self, Consumed, Manager};
use crate::meters::{AllMeters, unshare};
use crate::observers::Observers;
use crate::outcome::{Grant, GuestOutcome, Outcome};
use crate::readings::Readings;
use crate::run::Run;
use crate::samples;
use coordination::Coordinated;
use input::problem::{Problem, Problems, Wrong};
use input::source::Span;
use measure::Siblings;
use scenario::{AppSpec, Group, Scenario};
use sched::{EntityId, GroupId, GroupParams, Instant, Params, Refused};
use sim::{Stuck, Workload, World};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use trace::{Counts, MachineId};
use workloads::network::At;

/// The maximum work of one step. Each release, alarm, input of a machine, visit of a machine and change of the scenario
/// counts as one unit of work. A step may end between two events of the same instant. A step exceeds its budget by at
/// most the decisions and messages of one machine at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Budget(pub u64);

impl Budget {
    /// A budget with which a step takes far less than 50 ms: a unit of work takes 0.1 to 10 us.
    pub const STEP: Budget = Budget(1_000);
}

/// Totals that the machines of a run count themselves, without the overhead of the meters of an [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Number of inputs that all machines together accepted, except freezes and thaws.
    pub inputs: u64,
    /// Totals of all hosts together from the start of the run, including the warm-up.
    pub counts: Counts,
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Simulated time reached so far.
    pub now: Instant,
    /// Simulated time at the end of the run.
    pub end: Instant,
    /// Whether the run is over.
    pub is_done: bool,
}

/// A run in progress. Only [`step`](Session::step) advances the run. Dropping the session cancels the run.
pub struct Session<'a> {
    pub(crate) run: Run,
    choices: Vec<Choice>,
    pub(crate) world: World<'a>,
    pub(crate) host: IdMap,
    guests: Vec<Option<IdMap>>,
    meters: AllMeters,
    manager: Option<Manager>,
    /// Reservation that the policy granted to each entity of the hosts when the entity was attached.
    grants: Vec<Option<Grant>>,
    /// Number of refused changes of the reservation of each entity of the hosts.
    refused: Vec<u64>,
    cables: Cables,
    /// Totals of each guest's coordination at the start of the measurement. `None`: the measurement has not started.
    before: Option<Vec<Option<Coordinated>>>,
    /// Changes of the scenario that have not happened yet, in order of time.
    pub(crate) changes: VecDeque<(Instant, Change, Subject)>,
    /// Present parameters of each group of the hosts.
    pub(crate) group_params: Vec<GroupParams>,
    is_done: bool,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("run", &self.run).field("progress", &self.progress()).finish_non_exhaustive()
    }
}

/// The event for which a session stops its world and acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The measurement begins.
    Measure,
    /// An interval of the workload manager ends.
    Turn,
    /// The next change of the scenario happens.
    Change,
    /// The run ends.
    End,
}

/// The ids of the groups, entities and applications of one guest, or of all hosts together.
#[derive(Debug)]
pub(crate) struct IdMap {
    /// The guest, or the first host.
    machine: MachineId,
    pub(crate) groups: Vec<GroupId>,
    pub(crate) entities: Vec<Option<EntityId>>,
    /// Parts of each application: the machine of each part, and the number of the part on this machine.
    applications: Vec<Option<Vec<(Seat, u32)>>>,
}

impl Run {
    /// Begins this run. `observers` receive its events.
    ///
    /// # Errors
    /// The hosts' policy rejects its knobs or the machine, or refuses a group. A guest's policy does not exist, or a
    /// policy does not support a guest's coordination. Each problem has its location in the scenario, if the scenario
    /// was read from a file.
    pub fn start<'a>(&self, observers: Observers<'a>) -> Result<Session<'a>, Problems> {
        Session::new(self.clone(), AllMeters::of(&self.scenario), observers)
    }

    /// Begins this run without meters: the caller measures through `observers`, and the run uses no more memory the
    /// longer it is. Its outcome has no measurements.
    ///
    /// # Errors
    /// The errors of [`start`](Run::start).
    pub fn start_unmeasured<'a>(&self, observers: Observers<'a>) -> Result<Session<'a>, Problems> {
        Session::new(self.clone(), AllMeters::default(), observers)
    }

    /// Plays this run to its end and returns its outcome.
    ///
    /// # Errors
    /// The errors of [`start`](Run::start) and [`Session::step`].
    pub fn play(&self, observers: Observers<'_>) -> Result<Outcome, Problems> {
        let played = self.play_while(observers, |_| true)?;
        Ok(played.expect("nothing cancels it"))
    }

    /// Plays this run in steps of [`Budget::STEP`]. Calls `goes_on` after each step, and cancels the run if `goes_on`
    /// returns false. `None`: the run was cancelled.
    ///
    /// # Errors
    /// The errors of [`start`](Run::start) and [`Session::step`].
    pub fn play_while(
        &self,
        observers: Observers<'_>,
        goes_on: impl FnMut(Progress) -> bool,
    ) -> Result<Option<Outcome>, Problems> {
        let mut session = self.start(observers)?;
        Ok(session.step_while(goes_on)?.then(|| session.outcome()))
    }

    /// Plays this run like [`play_while`](Run::play_while), but without observers and meters. Only a workload manager
    /// still measures CPU time. Returns the totals of the machines, or `None` if the run was cancelled.
    ///
    /// # Errors
    /// The errors of [`play`](Run::play).
    pub fn tally_while(&self, goes_on: impl FnMut(Progress) -> bool) -> Result<Option<Tally>, Problems> {
        let mut session = Session::new(self.clone(), AllMeters::default(), Observers::none())?;
        Ok(session.step_while(goes_on)?.then(|| session.tally()))
    }
}

impl<'a> Session<'a> {
    fn new(run: Run, meters: AllMeters, observers: Observers<'a>) -> Result<Session<'a>, Problems> {
        let scenario = Arc::clone(&run.scenario);
        let choices = run.guest_choices()?;
        let mut world = World::new(run.seed);
        for (guest, within) in scenario.guests.iter().zip(&choices) {
            crate::suits::coordination(&scenario, guest, &run.choice, within)?;
        }
        for host in 0..scenario.hosts {
            let name = scenario.host_name(host);
            let Choice { policy, knobs } = &run.choice;
            let machine = world.add_host(&name, &**policy, scenario.host, knobs, scenario.costs);
            let machine = machine.map_err(|why| refused_policy(&scenario, policy.name(), &why))?;
            assert_eq!(machine, machine_of_host(host), "hosts come first");
        }
        let cables = Cables::new(&scenario, &mut world)?;
        let consumed = Rc::new(RefCell::new(Consumed::default()));
        let manager = Manager::of(&scenario, &consumed);
        if manager.is_some() {
            world.watch(HOST, consumed);
        }
        for (host, meters) in meters.hosts.iter().enumerate() {
            world.watch(machine_of_host(host), Rc::clone(meters));
        }
        if let (Some(outside), Some(clients)) = (cables.outside(), &meters.outside) {
            world.watch(outside, Rc::clone(clients));
        }
        observers.host.into_iter().for_each(|sink| world.watch_boxed(HOST, sink));
        observers.world.into_iter().for_each(|sink| world.watch_all_boxed(sink));
        let host = IdMap {
            machine: HOST,
            groups: create_groups(&scenario, &scenario.groups, &mut world, machine_of_host)?,
            entities: vec![None; scenario.entities.len()],
            applications: vec![None; scenario.applications.len()],
        };
        Ok(Session {
            choices,
            world,
            host,
            guests: scenario.guests.iter().map(|_| None).collect(),
            meters,
            manager,
            grants: vec![None; scenario.entities.len()],
            refused: vec![0; scenario.entities.len()],
            cables,
            before: None,
            changes: changes(&scenario, Instant::ZERO + scenario.length).into(),
            group_params: scenario.groups.iter().map(|group| group.params).collect(),
            is_done: false,
            run,
        })
    }

    /// Advances the run until `budget` is used up or the run is over. The sizes of the steps do not affect the outcome.
    ///
    /// # Errors
    /// A policy refuses a guest's machine, a group or the parameters of an entity, or tasks wait for each other so that
    /// none can continue. The problem has its location in the scenario, if the scenario was read from a file. After an
    /// error, the run cannot continue.
    pub fn step(&mut self, budget: Budget) -> Result<Progress, Problems> {
        self.step_until(Instant::NEVER, budget)
    }

    /// Advances the run like [`step`](Session::step), but not beyond `until`. Once the run is at `until`, all events
    /// before this instant have happened.
    ///
    /// # Errors
    /// The errors of [`step`](Session::step).
    pub fn step_until(&mut self, until: Instant, budget: Budget) -> Result<Progress, Problems> {
        let mut left = budget.0.max(1);
        while left > 0 && !self.is_done && self.world.now() < until {
            let (at, stop) = self.next_stop();
            if !self.world.run_within(at.min(until), &mut left).map_err(|stuck| self.stuck(&stuck))? {
                break;
            }
            if at > until {
                break;
            }
            left = left.saturating_sub(1);
            match stop {
                Stop::Measure => self.before = Some(self.coordinated()),
                Stop::Turn => self.manage(),
                Stop::Change => self.change()?,
                Stop::End => self.end()?,
            }
        }
        Ok(self.progress())
    }

    /// Steps until the run is over, or until `goes_on`, which is called after each step, returns false. Returns whether
    /// the run is over.
    fn step_while(&mut self, mut goes_on: impl FnMut(Progress) -> bool) -> Result<bool, Problems> {
        loop {
            let progress = self.step(Budget::STEP)?;
            if progress.is_done || !goes_on(progress) {
                return Ok(progress.is_done);
            }
        }
    }

    /// Returns the progress of the run.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { now: self.world.now(), end: Instant::ZERO + self.run.scenario.length, is_done: self.is_done }
    }

    /// Returns the next stop and its instant. Arrivals and departures at the instant of a manager's turn happen before
    /// the turn.
    fn next_stop(&self) -> (Instant, Stop) {
        let end = Instant::ZERO + self.run.scenario.length;
        let mut next = self.changes.front().map_or((end, Stop::End), |(at, ..)| (*at, Stop::Change));
        let from = self.run.scenario.measured_from();
        if self.before.is_none() && from <= next.0 {
            next = (from, Stop::Measure);
        }
        match self.manager.as_ref().map(|manager| manager.next) {
            Some(turn) if turn < next.0 => (turn, Stop::Turn),
            _ => next,
        }
    }

    fn change(&mut self) -> Result<(), Problems> {
        let (_, change, subject) = self.changes.pop_front().expect("there is a next change");
        match (change, subject) {
            (_, Subject::Guest(guest)) => self.boot(guest),
            (_, Subject::Reservation(index, nth)) => {
                self.adjust(index, nth);
                Ok(())
            }
            (Change::Leaves, subject) => {
                self.leave(subject);
                Ok(())
            }
            (_, subject) => self.come(subject),
        }
    }

    fn end(&mut self) -> Result<(), Problems> {
        let end = Instant::ZERO + self.run.scenario.length;
        if self.manager.as_ref().is_some_and(|manager| manager.next == end) {
            self.manage();
        }
        self.is_done = true;
        self.world.finish(end).map_err(|stuck| self.stuck(&stuck))
    }

    /// Returns the number of inputs of all machines, and the totals of all hosts.
    fn tally(&self) -> Tally {
        let hosts = (0..self.run.scenario.hosts).map(|host| self.world.machine(machine_of_host(host)).counts());
        Tally { inputs: self.world.inputs(), counts: hosts.fold(Counts::default(), Counts::and) }
    }

    /// Returns the outcome of the run.
    ///
    /// # Panics
    /// Panics if the run is not over.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        assert!(self.is_done, "the run is over");
        let (coordinated, stalls) = (self.coordinated_since(), self.world.stalls().cloned().collect());
        let Session { run, choices, world, host, meters, manager, grants, refused, .. } = self;
        drop(world);
        let (scenario, from) = (&run.scenario, run.scenario.measured_from());
        let end = Instant::ZERO + scenario.length;
        let mut readings = Readings::new(meters.outside.map_or_else(Vec::new, |clients| unshare(clients).read(end)));
        let (mut all, mut siblings, mut metrics, mut samplers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for meters in meters.hosts.into_iter().map(unshare) {
            all.push(meters.meter);
            siblings.push(meters.siblings.unwrap_or_else(|| Siblings::from(from)));
            metrics.extend(meters.metrics);
            samplers.extend(meters.sampler);
        }
        let applications = readings.of(None, &scenario.applications, metrics, end);
        let guests = scenario.guests.iter().zip(choices).zip(meters.guests.into_iter().map(unshare)).zip(coordinated);
        let guests = guests.map(|(((guest, choice), meters), coordinated)| {
            let metrics = meters.metrics.into_iter().collect();
            let applications = readings.of(Some(&guest.name), &guest.applications, metrics, end);
            GuestOutcome { choice, meter: meters.meter, applications, coordinated }
        });
        let guests = guests.collect();
        let samples = scenario.samples.is_some().then(|| samples::of_vms(scenario, &host.entities, samplers));
        let managed = manager.map(Manager::into_vms);
        Outcome { run, meters: all, siblings, grants, refused, applications, guests, managed, samples, stalls }
    }

    /// Returns the totals of each guest's coordination since the start of the measurement.
    fn coordinated_since(&self) -> Vec<Option<Coordinated>> {
        let mut coordinated = self.coordinated();
        for (got, before) in coordinated.iter_mut().zip(self.before.iter().flatten()) {
            *got = got.map(|got| before.map_or(got, |before| got.since(&before)));
        }
        coordinated
    }

    /// Returns the totals of each guest's coordination. `None`: the guest does not coordinate, or has not booted.
    fn coordinated(&self) -> Vec<Option<Coordinated>> {
        let machines = self.guests.iter().map(|cast| cast.as_ref().map(|cast| cast.machine));
        machines.map(|machine| self.world.coordinated(machine?)).collect()
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

    /// Returns the machine of `guest`, or of host number `host` if `guest` is `None`.
    fn machine(&mut self, guest: Option<usize>, host: usize) -> MachineId {
        if guest.is_none() { machine_of_host(host) } else { self.cast(guest).machine }
    }

    fn boot(&mut self, guest: usize) -> Result<(), Problems> {
        let scenario = Arc::clone(&self.run.scenario);
        let spec = &scenario.guests[guest];
        let Choice { policy, knobs } = &self.choices[guest];
        let vcpus: Vec<EntityId> =
            self.host.entities[spec.vcpus.clone()].iter().map(|id| id.expect("its vCPUs have come")).collect();
        let cpus = sched::Topology::new(vcpus.len());
        let host = machine_of_host(scenario.host_of(guest));
        let built = self.world.add_guest(host, &spec.name, &vcpus, &**policy, cpus, knobs, spec.guest, scenario.costs);
        let machine = built.map_err(|why| {
            Problems::from(Wrong::from(&why).said_of(&spec.name).anywhere(spec.place.known()).within(&scenario.source))
        })?;
        if let Some(meters) = self.meters.guests.get(guest) {
            self.world.watch(machine, Rc::clone(meters));
        }
        let groups = create_groups(&scenario, &spec.groups, &mut self.world, |_| machine)?;
        let vm = scenario.entities[spec.vcpus.start].group.map_or(GroupId::ROOT, |group| self.host.groups[group]);
        let laid = self.cables.boot(guest, machine, vm, &mut self.world);
        laid.map_err(|why| refused(&scenario, &spec.name, spec.place, &why))?;
        let (entities, applications) = (vec![None; spec.entities.len()], vec![None; spec.applications.len()]);
        self.guests[guest] = Some(IdMap { machine, groups, entities, applications });
        Ok(())
    }

    fn come(&mut self, subject: Subject) -> Result<(), Problems> {
        let scenario = Arc::clone(&self.run.scenario);
        match subject {
            Subject::Entity(of, index) => {
                let asking = &entities(&scenario, of)[index];
                let machine = self.machine(of, asking.host);
                let group = asking.group.map_or(GroupId::ROOT, |group| self.cast(of).groups[group]);
                let params = Params { group, ..asking.params };
                let is_vcpu = of.is_none() && scenario.guests.iter().any(|guest| guest.vcpus.contains(&index));
                let workload = if is_vcpu { Workload::Vcpu } else { asking.workload };
                let attached = self.world.attach(machine, &asking.name, params, workload);
                let id = attached.map_err(|why| refused(&scenario, &asking.name, asking.place, &why))?;
                self.cast(of).entities[index] = Some(id);
                if let Some(switch) = asking.switch {
                    self.world.set_switch(machine, id, switch);
                }
                if of.is_none() {
                    self.grants[index] = granted(&self.world, machine, id);
                }
            }
            Subject::Application(of, index) => {
                let spec = &applications(&scenario, of)[index];
                let machine = self.machine(of, spec.host);
                let group = spec.group.map_or(GroupId::ROOT, |group| self.cast(of).groups[group]);
                let started = self.world.start(machine, &spec.application, group);
                let (id, _) = started.map_err(|why| refused(&scenario, &spec.name, spec.place, &why))?;
                let parts = self.connect(of, id, spec)?;
                self.cast(of).applications[index] = Some(parts);
            }
            Subject::Guest(_) | Subject::Reservation(..) => unreachable!("guests boot, and reservations are adjusted"),
        }
        Ok(())
    }

    /// Applies change number `nth`, counted from 0, to the reservation of an entity of a host. If the policy refuses
    /// the change, the entity keeps its reservation.
    fn adjust(&mut self, index: usize, nth: usize) {
        let id = self.host.entities[index].expect("an entity changes after it came");
        let spec = &self.run.scenario.entities[index];
        let old = *self.world.machine(machine_of_host(spec.host)).machine().params(id);
        let params = Params { reservation: Some(spec.changes[nth].1), ..old };
        if self.request(index, params).is_err() {
            self.refused[index] += 1;
        }
    }

    /// Starts the other parts of application number `id`, and creates the links between all parts. Returns the seat and
    /// the number of each part.
    fn connect(&mut self, of: Option<usize>, id: u32, spec: &AppSpec) -> Result<Vec<(Seat, u32)>, Problems> {
        let scenario = Arc::clone(&self.run.scenario);
        let mut parts = vec![(of.map_or(Seat::Host(spec.host), Seat::Guest), id)];
        for peer in &spec.reach.peers {
            let seat = match &peer.at {
                At::Outside => Seat::Outside,
                At::Vm(name) => Seat::Guest(scenario.guest_of(name).expect("its VMs exist")),
            };
            let started = self.world.start(self.cables.machine(seat), &peer.application, GroupId::ROOT);
            let (id, _) = started.map_err(|why| refused(&scenario, &spec.name, spec.place, &why))?;
            parts.push((seat, id));
        }
        let tape =
            of.map_or(self.meters.flow_owners.hosts.get(spec.host), |guest| self.meters.flow_owners.guests.get(guest));
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
                let machine = self.machine(of, entities(&self.run.scenario, of)[index].host);
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

    /// Returns the problem of a run that cannot continue. If the scenario has only one application, the problem has the
    /// location of this application.
    fn stuck(&self, stuck: &Stuck) -> Problems {
        let scenario = Arc::clone(&self.run.scenario);
        let mut all = scenario.applications.iter().chain(scenario.guests.iter().flat_map(|guest| &guest.applications));
        let only = all.next().filter(|_| all.next().is_none()).and_then(|application| application.place.known());
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

fn refused(scenario: &Scenario, name: &str, place: Span, why: &Refused) -> Problems {
    Wrong::from(why).said_of(name).anywhere(place.known()).within(&scenario.source).into()
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

/// Returns the problem of a policy that rejects its knobs or the machine.
fn refused_policy(scenario: &Scenario, policy: &str, why: &Refused) -> Problems {
    let chosen = scenario.policy.as_ref().filter(|chosen| chosen.name == policy);
    let place = chosen.and_then(|chosen| chosen.place.known());
    let problem = Wrong::from(why).said_of(policy).anywhere(place);
    if place.is_some() { problem.within(&scenario.source).into() } else { problem.into() }
}
