//! Converts the tables of one machine, the host or a guest, to groups, entities, applications and guests.

use super::application::{Applications, Made};
use super::asked::Asked;
use super::checked::Checked;
use super::homes::homes;
use super::kind::Kind;
use super::policy::chosen;
use super::tables::{GuestTable, Level, MemberTable};
use super::tree::{Tree, group, names, parent};
use super::work::Work;
use super::{AppSpec, EntitySpec, GuestSpec, SCENARIO_ENTITIES_MAX, Workload};
use input::problem::{Findings, Problem};
use input::source::{Placed, Span};
use input::table::Given;

use sched::{Instant, Nanos, Topology};
use std::collections::BTreeMap;

/// State that all machines share: the number of entities so far, and the files of rt-app.
#[derive(Debug, Default)]
pub(super) struct Counts {
    entities: u64,
    /// Whether the error that there are too many entities has been reported.
    said: bool,
    applications: Applications,
}

impl Counts {
    /// Counts `more` entities, requested at `at`. Returns whether the total is within the maximum.
    fn add(&mut self, more: u64, at: Span, findings: &mut Findings) -> bool {
        self.entities = self.entities.saturating_add(more);
        let fits = self.entities <= SCENARIO_ENTITIES_MAX as u64;
        if !fits && !self.said {
            self.said = true;
            let problem = Problem::new("there are too many entities").at(at, "too many from here on");
            findings.add(problem.help(format!("use at most {SCENARIO_ENTITIES_MAX} tasks and vCPUs in all")));
        }
        fits
    }
}

/// Returns the groups, entities, applications and guests of `level`, on `hosts` machines with the topology `host`.
/// `None`: the values have a problem, which `findings` contains.
pub(super) fn check(
    mut level: Level,
    (host, hosts): (Option<&Topology>, usize),
    length: Option<Placed<Nanos>>,
    counts: &mut Counts,
    findings: &mut Findings,
) -> Option<Checked> {
    let guests: Vec<Option<GuestTable>> = level.members.iter_mut().map(|member| member.guest.take()).collect();
    let names = names(&level, findings);
    let tree = Tree::check(&level.groups, &names, findings);
    let parents: Vec<Option<usize>> =
        level.members.iter().map(|member| parent(&member.group, member.kind.noun(), &names, findings)).collect();
    let homes = homes(&level, &tree, &parents, hosts, findings);
    let asked: Vec<Option<Asked>> =
        level.members.iter().map(|member| Asked::check(member, host, length, findings)).collect();
    twice(&level.members, findings);
    let mut made = Vec::with_capacity(level.members.len());
    for (member, asked) in level.members.iter().zip(&asked) {
        made.push(make(member, asked.as_ref(), host, counts, findings));
    }
    let mut below = Vec::with_capacity(guests.len());
    for (member, guest) in level.members.iter().zip(guests) {
        below.push(guest.and_then(|guest| under(member, guest, length, counts, findings)));
    }
    if !findings.is_empty() {
        return None;
    }
    let (groups, index) = tree.ordered(level.groups, &homes.groups);
    let mut checked = Checked { groups, ..Checked::default() };
    let parts = parents.into_iter().zip(homes.members).zip(asked).zip(made).zip(below);
    for (member, ((((parent, host), asked), made), guest)) in level.members.into_iter().zip(parts) {
        checked.expand(member, (parent.map(|group| index[group]), host), asked?, made?, guest);
    }
    Some(checked)
}

/// Reports a pid that is listed twice.
fn twice(members: &[MemberTable], findings: &mut Findings) {
    let mut met: BTreeMap<u32, Span> = BTreeMap::new();
    for pid in members.iter().filter_map(|member| member.pid.right()) {
        let first = *met.entry(pid.value).or_insert(pid.at);
        if first != pid.at {
            let problem = Problem::new(format!("the process {} occurs twice", pid.value));
            let problem = problem.at(pid.at, "again").at(first, "first here");
            findings.add(problem.help("use one promise for each process"));
        }
    }
}

/// Returns the workload of a member. `None`: the member has a problem, or the number of entities exceeds the maximum.
fn make(
    member: &MemberTable,
    asked: Option<&Asked>,
    host: Option<&Topology>,
    counts: &mut Counts,
    findings: &mut Findings,
) -> Option<Made> {
    let vcpus = member.vcpus.right();
    let (work, at) = match &member.work {
        Given::Right(Placed { value: Work::Application(it), at }) => (Work::Application(it.clone()), *at),
        Given::Right(Placed { value: Work::RtApp(file), at }) => (Work::RtApp(file.clone()), *at),
        work => {
            let (count, at) = vcpus.map_or((1, member.group.at), |vcpus| (vcpus.value as u64, vcpus.at));
            // Without a `workload`, a real process is modelled as a hog, because its behaviour is unknown.
            let workload = match work.value_ref() {
                Some(Work::Entity(workload)) => *workload,
                _ => Workload::Hog,
            };
            return counts.add(count, at, findings).then_some(Made::Entity(workload));
        }
    };
    let process = member.command.at().or(member.pid.at());
    if let Some(process) = process {
        let problem =
            Problem::new("a process of this machine is no application of simulated tasks").at(process, "the process");
        findings.add(problem.at(at, "the application").help("use one of the two, or workload = \"hog\""));
        return None;
    }
    let tasks = match &work {
        Work::Application(it) => it.tasks(),
        _ => 0,
    };
    if !counts.add(tasks, at, findings) {
        return None;
    }
    let made = counts.applications.make(&work, at, member, asked?, host, findings)?;
    counts.add(made.1, at, findings).then_some(made.0)
}

/// Returns the guest of `member`, with its groups, entities and applications.
fn under(
    member: &MemberTable,
    guest: GuestTable,
    length: Option<Placed<Nanos>>,
    counts: &mut Counts,
    findings: &mut Findings,
) -> Option<GuestSpec> {
    let clashes = [
        (member.work.at(), "a workload", "in a guest, tasks do the work: [[vm.task]]"),
        (member.command.at(), "a command", "a process has no simulated guest"),
        (member.pid.at(), "a pid", "a process has no simulated guest"),
        (member.leaves.at(), "a departure", "a VM with a guest stays to the end"),
    ];
    for (at, what, why) in clashes {
        if let Some(at) = at {
            let problem = Problem::new(format!("the vm has a guest and {what}")).at(at, "not with a guest");
            findings.add(problem.at(guest.at, "the guest").help(format!("use one of the two: {why}")));
        }
    }
    let vcpus = member.vcpus.right().map_or(1, |vcpus| vcpus.value);
    let checked = check(guest.level, (Some(&Topology::new(vcpus)), 1), length, counts, findings)?;
    let spec = GuestSpec {
        name: String::new(),
        vcpus: 0..0,
        policy: guest.policy.value().and_then(chosen),
        guest: guest.guest,
        coordination_places: guest.coordination,
        groups: checked.groups,
        entities: checked.entities,
        applications: checked.applications,
        place: guest.at,
    };
    Some(spec)
}

impl Checked {
    /// Adds a member: its entities or its application, and for a VM also its group and guest.
    fn expand(
        &mut self,
        member: MemberTable,
        (parent, host): (Option<usize>, usize),
        asked: Asked,
        made: Made,
        guest: Option<GuestSpec>,
    ) {
        let place = member.slice.at().or(member.group.name.at()).unwrap_or(member.group.at);
        let vcpus = member.vcpus.value().unwrap_or(1);
        let switch = member.switch.map(|switch| switch.value);
        let (name, group) = match member.kind {
            Kind::Task => (member.group.name.value().unwrap_or_default(), parent),
            Kind::Vm => {
                self.groups.push(group(member.group, parent, host));
                (self.groups[self.groups.len() - 1].name.clone(), Some(self.groups.len() - 1))
            }
        };
        let Asked { arrival, leaves, params, changes, real, mechanism, stagger } = asked;
        let workload = match made {
            Made::Application { application, reach, duration, metric, place } => {
                let ends = duration.map(|duration| arrival.saturating_add(duration));
                let leaves = [leaves, ends].into_iter().flatten().min();
                let application = workloads::called(&name, &application);
                self.applications.push(AppSpec {
                    name,
                    group,
                    host,
                    arrival,
                    leaves,
                    application,
                    metric,
                    reach: *reach,
                    place,
                });
                return;
            }
            Made::Entity(_) if guest.is_some() => Workload::Vcpu,
            Made::Entity(workload) => workload,
        };
        let (real, real_place) = real.map_or((None, Span::default()), |real| (Some(real.value), real.at));
        let entity = |name| {
            let (real, changes) = (real.clone(), changes.clone());
            EntitySpec {
                name,
                group,
                host,
                arrival,
                leaves,
                params,
                changes,
                workload,
                switch,
                real,
                real_place,
                mechanism,
                place,
            }
        };
        let first = self.entities.len();
        match vcpus {
            1 => self.entities.push(entity(name.clone())),
            _ => self.entities.extend((0..vcpus).map(|vcpu| entity(format!("{name}/{vcpu}")))),
        }
        set_apart(&mut self.entities[first..], stagger);
        if let Some(spec) = guest {
            let vcpus = first..self.entities.len();
            self.guests.push(GuestSpec { name, vcpus, ..spec }.come(arrival));
        }
    }
}

/// Sets the start of the first period of each vCPU `stagger` after that of the previous vCPU, if `stagger` is not zero.
fn set_apart(vcpus: &mut [EntitySpec], stagger: Nanos) {
    if stagger.is_zero() {
        return;
    }
    for (nth, vcpu) in vcpus.iter_mut().enumerate() {
        if let Some(reservation) = &mut vcpu.params.reservation {
            let first = reservation.start.unwrap_or(vcpu.arrival);
            reservation.start = Some(first.saturating_add(stagger.saturating_mul(nth as u64)));
        }
    }
}

impl GuestSpec {
    /// Returns the guest of a VM that arrives at `arrival`. Entities and applications in the guest arrive at `arrival`
    /// or later.
    fn come(mut self, arrival: Instant) -> GuestSpec {
        for peer in self.applications.iter_mut().flat_map(|spec| &mut spec.reach.peers) {
            // On the machine of a peer, tasks for several VMs need distinct names.
            peer.application = workloads::within(&self.name, &peer.application);
        }
        for entity in &mut self.entities {
            entity.arrival = entity.arrival.max(arrival);
        }
        for application in &mut self.applications {
            application.arrival = application.arrival.max(arrival);
        }
        self
    }
}
