//! From what was typed to what it means: defaults, references, and what has to hold between values.

use super::file::{File, GroupTable, Kind, MemberTable, PolicyTable};
use super::table::Given;
use super::{EntitySpec, GROUP_DEPTH_MAX, Group, PolicyChoice, Real, SCENARIO_ENTITIES_MAX, Scenario, Workload};
use crate::problem::{Findings, Problem, Wrong, nearest, quoted};
use crate::source::{Placed, Span};
use sched::id::CPUS_MAX;
use sched::{GroupParams, Host, Instant, Limit, Nanos, Params, Refused, Reservation};
use std::collections::BTreeMap;

/// The scenario that `file` means; `None` if anything is wrong, which `findings` then holds.
pub(super) fn check(file: File, findings: &mut Findings) -> Option<Scenario> {
    let host = host(&file, findings);
    if file.name.is_absent() {
        missing("the scenario has no name", "name = \"three VMs\"", findings);
    }
    if file.length.is_absent() {
        missing("the scenario has no length", "length = \"1s\"", findings);
    }
    if file.members.is_empty() && findings.is_empty() {
        missing("nothing runs in this scenario", "at least one [[vm]] or [[task]]", findings);
    }
    let names = names(&file, findings);
    let tree = Tree::check(&file.groups, &names, findings);
    let parents: Vec<Option<usize>> =
        file.members.iter().map(|member| parent(&member.group, member.kind.noun(), &names, findings)).collect();
    let length = file.length.right();
    let asked: Vec<Option<Asked>> =
        file.members.iter().map(|member| Asked::check(member, host.as_ref(), length, findings)).collect();
    too_many(&file.members, findings);
    twice(&file.members, findings);
    if !findings.is_empty() {
        return None;
    }
    let (mut groups, index) = tree.ordered(file.groups);
    let mut entities = Vec::new();
    for ((member, parent), asked) in file.members.into_iter().zip(parents).zip(asked) {
        let parent = parent.map(|group| index[group]);
        expand(member, parent, asked?, &mut groups, &mut entities);
    }
    Some(Scenario {
        name: file.name.value()?,
        host: host?,
        length: length?.value,
        seed: file.seed.value(),
        policy: file.policy.value().and_then(chosen),
        costs: file.costs,
        groups,
        entities,
        source: findings.source().clone(),
    })
}

fn missing(message: &str, right: &str, findings: &mut Findings) {
    findings.add(Problem::new(message).at(Span::default(), "in this file").help(format!("right would be {right}")));
}

fn chosen(policy: PolicyTable) -> Option<PolicyChoice> {
    let Placed { value: name, at: place } = policy.name.right()?;
    Some(PolicyChoice { name, place, knobs: policy.knobs })
}

/// The machine; `None` if something is wrong with it.
fn host(file: &File, findings: &mut Findings) -> Option<Host> {
    if file.cpus.is_absent() {
        missing("the scenario has no number of CPUs", &format!("cpus = 1, up to {CPUS_MAX}"), findings);
    }
    let (cpus, smt, llc) = (file.cpus.right()?, file.smt.right(), file.llc.right());
    let mut host = Host::new(cpus.value);
    host.smt = smt.map_or(1, |smt| smt.value);
    host.llc = llc.map_or(cpus.value, |llc| llc.value);
    let mut divides = |(what, part): (&str, Placed<usize>), (of, whole): (&str, Placed<usize>)| {
        let divides = whole.value % part.value == 0;
        if !divides {
            let message = format!("`{what}` ({}) does not divide `{of}` ({})", part.value, whole.value);
            let right: Vec<String> =
                (1..=whole.value).filter(|n| whole.value % n == 0).map(|n| n.to_string()).collect();
            let problem = Problem::new(message).at(part.at, "does not divide it").at(whole.at, format!("`{of}`"));
            findings.add(problem.help(format!("right would be one of {}", right.join(", "))));
        }
        divides
    };
    let cores = smt.is_none_or(|smt| divides(("smt", smt), ("cpus", cpus)));
    let caches = llc.is_none_or(|llc| divides(("llc", llc), ("cpus", cpus)));
    if let (Some(smt), Some(llc), true, true) = (smt, llc, cores, caches) {
        divides(("smt", smt), ("llc", llc));
    }
    Some(host)
}

/// What a name names: a group, by its number, or a member.
#[derive(Clone, Copy)]
enum Named {
    Group(usize),
    Member(Kind),
}

/// Everything by its name. Names are unique: a trace tells things apart by them.
fn names<'a>(file: &'a File, findings: &mut Findings) -> BTreeMap<&'a str, (Named, Span)> {
    let groups = file.groups.iter().enumerate().map(|(i, group)| (group, Named::Group(i), "the group"));
    let members = file.members.iter().map(|member| (&member.group, Named::Member(member.kind), member.kind.noun()));
    let mut all: Vec<(&GroupTable, Named, &str)> = groups.chain(members).collect();
    all.sort_by_key(|(table, ..)| table.at);
    let mut names = BTreeMap::new();
    for (table, named, noun) in all {
        let Given::Right(name) = &table.name else {
            if table.name.is_absent() {
                let problem = Problem::new(format!("{noun} has no name")).at(table.at, "no name");
                findings.add(problem.help("right would be a name of its own, such as name = \"web\""));
            }
            continue;
        };
        let first = names.entry(name.value.as_str()).or_insert((named, name.at)).1;
        if first != name.at {
            let message = format!("the name {} is taken", quoted(&name.value));
            let problem = Problem::new(message).at(name.at, "again").at(first, "first here");
            findings
                .add(problem.help("right would be a name of its own: groups, VMs and tasks share one set of names"));
        }
    }
    names
}

/// The group that `table` names as its parent.
fn parent(
    table: &GroupTable,
    noun: &str,
    names: &BTreeMap<&str, (Named, Span)>,
    findings: &mut Findings,
) -> Option<usize> {
    let Given::Right(parent) = &table.parent else { return None };
    let other = match names.get(parent.value.as_str()) {
        Some(&(Named::Group(group), _)) => return Some(group),
        Some(&(Named::Member(kind), at)) => Some((kind, at)),
        None => None,
    };
    findings.add_at(parent.at, || match other {
        Some((kind, at)) => {
            let kind = if kind == Kind::Vm { "a vm" } else { "a task" };
            let message = format!("the parent of {noun} is {kind}, {}", quoted(&parent.value));
            let problem = Problem::new(message).at(parent.at, "not a group").at(at, kind);
            problem.help("right would be the name of a [[group]]")
        }
        None => {
            let groups = names.iter().filter(|(_, (named, _))| matches!(named, Named::Group(_)));
            let help = match nearest(&parent.value, groups.map(|(name, _)| *name)) {
                Some(near) => format!("did you mean `{near}`? right would be the name of a [[group]]"),
                None => "right would be the name of a [[group]]".to_string(),
            };
            let problem = Problem::new(format!("there is no group {}", quoted(&parent.value)));
            problem.at(parent.at, "unknown group").help(help)
        }
    });
    None
}

/// The tree of the named groups.
struct Tree {
    parents: Vec<Option<usize>>,
    /// How far below the root, from 1; 0 while unknown.
    depths: Vec<usize>,
}

impl Tree {
    fn check(groups: &[GroupTable], names: &BTreeMap<&str, (Named, Span)>, findings: &mut Findings) -> Tree {
        let parents: Vec<Option<usize>> =
            groups.iter().map(|group| parent(group, "the group", names, findings)).collect();
        let mut tree = Tree { depths: vec![0; parents.len()], parents };
        // On which walk a group was first met: meeting it again on the same walk closes a cycle.
        let mut met = vec![usize::MAX; groups.len()];
        for start in 0..groups.len() {
            let mut path = Vec::new();
            let mut next = Some(start);
            while let Some(group) = next.filter(|&group| tree.depths[group] == 0) {
                if met[group] == start {
                    findings.add(cycle(&tree, groups, group));
                    break;
                }
                met[group] = start;
                path.push(group);
                next = tree.parents[group];
            }
            let mut depth = next.map_or(0, |group| tree.depths[group]);
            for &group in path.iter().rev() {
                depth += 1;
                tree.depths[group] = depth;
                // Only the first that is too deep: all below it are, too.
                if depth == GROUP_DEPTH_MAX + 1 {
                    let problem = Problem::new("groups are nested too deep");
                    let at = groups[group].parent.at().unwrap_or(groups[group].at);
                    let help = format!("right would be at most {GROUP_DEPTH_MAX} groups inside each other");
                    findings.add(problem.at(at, format!("level {depth}")).help(help));
                }
            }
        }
        tree
    }

    /// The groups, each after its parent, and the new number of each.
    fn ordered(&self, tables: Vec<GroupTable>) -> (Vec<Group>, Vec<usize>) {
        let mut order: Vec<usize> = (0..tables.len()).collect();
        order.sort_by_key(|&group| (self.depths[group], group));
        let mut index = vec![0; tables.len()];
        for (new, &old) in order.iter().enumerate() {
            index[old] = new;
        }
        let mut tables: Vec<Option<GroupTable>> = tables.into_iter().map(Some).collect();
        let groups = order.iter().map(|&old| {
            let table = tables[old].take().expect("each group comes once");
            group(table, self.parents[old].map(|parent| index[parent]))
        });
        (groups.collect(), index)
    }
}

/// The cycle that `group` is part of, told at its first group in the order of the file.
fn cycle(tree: &Tree, groups: &[GroupTable], group: usize) -> Problem {
    let ring: Vec<usize> = std::iter::successors(tree.parents[group], |&group| tree.parents[group])
        .take_while(|&next| next != group)
        .chain([group])
        .collect();
    let first = (0..ring.len()).min_by_key(|&i| ring[i]).unwrap_or(0);
    let named =
        |i: usize| groups[ring[(first + i) % ring.len()]].name.value_ref().map_or(String::new(), |name| quoted(name));
    let shown: Vec<String> = (0..ring.len().min(4)).map(named).collect();
    let rest = if ring.len() > 4 { "… in " } else { "" };
    let message = format!("groups are inside each other: {} in {rest}{}", shown.join(" in "), named(0));
    let at = groups[ring[first]].parent.at().unwrap_or(groups[ring[first]].at);
    Problem::new(message).at(at, "leads back here").help("right would be a parent that is not inside this group")
}

/// What a member asks for, checked.
struct Asked {
    arrival: Instant,
    leaves: Option<Instant>,
    params: Params,
    real: Option<Placed<Real>>,
}

impl Asked {
    fn check(
        member: &MemberTable,
        host: Option<&Host>,
        length: Option<Placed<Nanos>>,
        findings: &mut Findings,
    ) -> Option<Asked> {
        let params = Params {
            weight: member.group.weight.value().unwrap_or_default(),
            reservation: reservation(member, host, findings),
            class: member.class.value().unwrap_or_default(),
            latency: member.latency.value(),
            warp: member.warp.value(),
            ..Params::default()
        };
        let affinity = member.affinity.right();
        if let (Some(affinity), Some(host)) = (affinity, host)
            && let Err(refused) = (Params { affinity: affinity.value, ..Params::default() }).check(host)
        {
            findings.add(Wrong::from(&refused).at(affinity.at));
        }
        let arrival = member.arrival.right();
        if let (Some(arrival), Some(length)) = (arrival, length)
            && arrival.value >= length.value
        {
            let message =
                format!("{} arrives ({}) at or after the end ({})", member.kind.noun(), arrival.value, length.value);
            let problem = Problem::new(message).at(arrival.at, "never there").at(length.at, "the end");
            findings.add(problem.help(format!("right would be an arrival before {}", length.value)));
        }
        let came = arrival.map_or(Nanos::ZERO, |arrival| arrival.value);
        if let Some(leaves) = member.leaves.right()
            && leaves.value <= came
        {
            let message = format!("{} leaves ({}) no later than it arrives ({came})", member.kind.noun(), leaves.value);
            let problem = Problem::new(message).at(leaves.at, "too early");
            let problem = if let Some(arrival) = arrival { problem.at(arrival.at, "the arrival") } else { problem };
            findings.add(problem.help(format!("right would be later than {came}; both count from the start")));
        }
        Some(Asked {
            arrival: Instant::ZERO + came,
            leaves: member.leaves.value().map(|leaves| Instant::ZERO + leaves),
            real: real(member, findings),
            params: Params { affinity: affinity.map_or(params.affinity, |affinity| affinity.value), ..params },
        })
    }
}

/// Slice and period belong together, start and limit belong to them.
fn reservation(member: &MemberTable, host: Option<&Host>, findings: &mut Findings) -> Option<Reservation> {
    let pairs =
        [(&member.slice, &member.period, "slice", "period"), (&member.period, &member.slice, "period", "slice")];
    for (one, other, what, lacking) in pairs {
        if let (Some(at), true) = (one.at(), other.is_absent()) {
            let problem =
                Problem::new(format!("there is a {what} without a {lacking}")).at(at, format!("no {lacking}"));
            findings.add(problem.help("right would be both, such as slice = \"20ms\" and period = \"50ms\""));
        }
    }
    if member.slice.is_absent() && member.period.is_absent() {
        let parts = [(member.deadline.at(), "deadline"), (member.start.at(), "start"), (member.limit.at(), "limit")];
        for (given, what) in parts {
            if let Some(at) = given {
                let problem = Problem::new(format!("there is a {what} without a reservation")).at(at, "of what?");
                findings.add(problem.help("right would be a slice and a period with it"));
            }
        }
    }
    let (slice, period) = (member.slice.right()?, member.period.right()?);
    let reservation = Reservation {
        slice: slice.value,
        period: period.value,
        deadline: member.deadline.value(),
        start: member.start.value().map(|start| Instant::ZERO + start),
        limit: member.limit.value().unwrap_or(Limit::Soft),
    };
    let any = Host::new(1);
    let asked = Params { reservation: Some(reservation), ..Params::default() };
    if let Err(refused) = asked.check(host.unwrap_or(&any)) {
        let problem = Wrong::from(&refused).at(slice.at);
        findings.add(match refused {
            Refused::SliceAbovePeriod { .. } => problem.at(period.at, "the period"),
            Refused::OutOfRange { .. } => Wrong::from(&refused).at(member.deadline.at().unwrap_or(slice.at)),
            _ => problem,
        });
    }
    Some(reservation)
}

/// The process that a member is.
fn real(member: &MemberTable, findings: &mut Findings) -> Option<Placed<Real>> {
    let noun = member.kind.noun();
    if let (Some(command), Some(pid)) = (member.command.at(), member.pid.at()) {
        let (first, second) = (command.min(pid), command.max(pid));
        let problem =
            Problem::new(format!("{noun} has a command and a pid")).at(second, "again").at(first, "first here");
        let right = "right would be one of both: `command` is begun with the run, `pid` is there before it";
        findings.add(problem.help(right));
        return None;
    }
    let command = member.command.value_ref().cloned().map(Real::Command).zip(member.command.at());
    let pid = member.pid.value_ref().copied().map(Real::Pid).zip(member.pid.at());
    let (value, at) = command.or(pid)?;
    if let Some(vcpus) = member.vcpus.value_ref().filter(|&&vcpus| vcpus > 1) {
        let message = format!("{noun} is one process and has {vcpus} vCPUs");
        let problem = Problem::new(message).at(member.vcpus.at()?, "more than one").at(at, "the process");
        let right = "right would be vcpus = 1, as a process gets the time of one CPU, or a [[vm]] for each of several processes";
        findings.add(problem.help(right));
    }
    Some(Placed { value, at })
}

/// Says so where one process is there under two names.
fn twice(members: &[MemberTable], findings: &mut Findings) {
    let mut met: BTreeMap<u32, Span> = BTreeMap::new();
    for pid in members.iter().filter_map(|member| member.pid.right()) {
        let first = *met.entry(pid.value).or_insert(pid.at);
        if first != pid.at {
            let problem = Problem::new(format!("the process {} is there twice", pid.value));
            let problem = problem.at(pid.at, "again").at(first, "first here");
            findings.add(problem.help("right would be one promise for each process"));
        }
    }
}

/// Says so where the number of entities passes the limit.
fn too_many(members: &[MemberTable], findings: &mut Findings) {
    let mut entities = 0;
    for member in members {
        let vcpus = member.vcpus.right();
        entities += vcpus.map_or(1, |vcpus| vcpus.value);
        if entities > SCENARIO_ENTITIES_MAX {
            let at = vcpus.map_or(member.group.at, |vcpus| vcpus.at);
            let problem = Problem::new("there are too many entities").at(at, "too many from here on");
            findings
                .add(problem.help(format!("right would be at most {SCENARIO_ENTITIES_MAX} tasks and vCPUs in all")));
            return;
        }
    }
}

fn group(table: GroupTable, parent: Option<usize>) -> Group {
    let place = table.name.at().unwrap_or(table.at);
    let params = GroupParams {
        weight: table.weight.value().unwrap_or_default(),
        quota: table.quota.value(),
        cap_percent: table.cap.value(),
        gang: table.gang.value().unwrap_or(false),
    };
    Group { name: table.name.value().unwrap_or_default(), parent, params, place }
}

/// The entities of a member, and the group of a VM.
fn expand(
    member: MemberTable,
    parent: Option<usize>,
    asked: Asked,
    groups: &mut Vec<Group>,
    entities: &mut Vec<EntitySpec>,
) {
    let place = member.slice.at().or(member.group.name.at()).unwrap_or(member.group.at);
    let vcpus = member.vcpus.value().unwrap_or(1);
    // Nothing is known of a process that is real until it runs.
    let workload = member.workload.value().unwrap_or(Workload::Hog);
    let (name, group) = match member.kind {
        Kind::Task => (member.group.name.value().unwrap_or_default(), parent),
        Kind::Vm => {
            groups.push(self::group(member.group, parent));
            (groups[groups.len() - 1].name.clone(), Some(groups.len() - 1))
        }
    };
    let Asked { arrival, leaves, params, real } = asked;
    let (real, real_place) = real.map_or((None, Span::default()), |real| (Some(real.value), real.at));
    let entity = |name| {
        let real = real.clone();
        EntitySpec { name, group, arrival, leaves, params, workload, real, real_place, place }
    };
    match vcpus {
        1 => entities.push(entity(name)),
        _ => entities.extend((0..vcpus).map(|vcpu| entity(format!("{name}/{vcpu}")))),
    }
}
