//! The groups and members by name, and the nesting of groups.

use super::kind::Kind;
use super::tables::{GroupTable, Level};
use super::{GROUP_DEPTH_MAX, Group};
use input::problem::{Findings, Problem, nearest, quoted};
use input::source::Span;
use input::table::Given;
use sched::GroupParams;
use std::collections::BTreeMap;

/// The owner of a name: a group, by its number, or a member.
#[derive(Clone, Copy)]
pub(super) enum Named {
    Group(usize),
    Member(Kind),
}

/// Returns all groups and members by name. Names are unique, because reports and metrics identify their subjects by
/// name.
pub(super) fn names<'a>(level: &'a Level, findings: &mut Findings) -> BTreeMap<&'a str, (Named, Span)> {
    let groups = level.groups.iter().enumerate().map(|(i, group)| (group, Named::Group(i), "the group"));
    let members = level.members.iter().map(|member| (&member.group, Named::Member(member.kind), member.kind.noun()));
    let mut all: Vec<(&GroupTable, Named, &str)> = groups.chain(members).collect();
    all.sort_by_key(|(table, ..)| table.at);
    let mut names = BTreeMap::new();
    for (table, named, noun) in all {
        let Given::Right(name) = &table.name else {
            if table.name.is_absent() {
                let problem = Problem::new(format!("{noun} has no name")).at(table.at, "no name");
                findings.add(problem.help("use a name of its own, such as name = \"web\""));
            }
            continue;
        };
        let first = names.entry(name.value.as_str()).or_insert((named, name.at)).1;
        if first != name.at {
            let message = format!("the name {} is taken", quoted(&name.value));
            let problem = Problem::new(message).at(name.at, "again").at(first, "first here");
            findings.add(problem.help("use a name of its own: groups, VMs and tasks share one set of names"));
        }
    }
    names
}

/// Returns the group that `table` names as its parent.
pub(super) fn parent(
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
            problem.help("use the name of a [[group]]")
        }
        None => {
            let groups = names.iter().filter(|(_, (named, _))| matches!(named, Named::Group(_)));
            let help = match nearest(&parent.value, groups.map(|(name, _)| *name)) {
                Some(near) => format!("did you mean `{near}`? use the name of a [[group]]"),
                None => "use the name of a [[group]]".to_string(),
            };
            let problem = Problem::new(format!("there is no group {}", quoted(&parent.value)));
            problem.at(parent.at, "unknown group").help(help)
        }
    });
    None
}

/// The tree of the named groups.
pub(super) struct Tree {
    parents: Vec<Option<usize>>,
    /// Depth of each group below the root, from 1. Zero while unknown.
    depths: Vec<usize>,
}

impl Tree {
    pub(super) fn check(groups: &[GroupTable], names: &BTreeMap<&str, (Named, Span)>, findings: &mut Findings) -> Tree {
        let parents: Vec<Option<usize>> =
            groups.iter().map(|group| parent(group, "the group", names, findings)).collect();
        let mut tree = Tree { depths: vec![0; parents.len()], parents };
        // The start of the walk that last visited each group. A second visit in the same walk means a cycle.
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
                // Only the first group that is too deep is reported, because all groups below it are also too deep.
                if depth == GROUP_DEPTH_MAX + 1 {
                    let problem = Problem::new("groups are nested too deep");
                    let at = groups[group].parent.at().unwrap_or(groups[group].at);
                    let help = format!("use at most {GROUP_DEPTH_MAX} groups inside each other");
                    findings.add(problem.at(at, format!("level {depth}")).help(help));
                }
            }
        }
        tree
    }

    /// Returns the groups, each after its parent.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.parents.len()).collect();
        order.sort_by_key(|&group| (self.depths[group], group));
        order
    }

    /// Returns the parent of `group`.
    pub(super) fn parent(&self, group: usize) -> Option<usize> {
        self.parents[group]
    }

    /// Returns the groups on their hosts, each group after its parent, and the new number of each group.
    pub(super) fn ordered(&self, tables: Vec<GroupTable>, hosts: &[usize]) -> (Vec<Group>, Vec<usize>) {
        let order = self.order();
        let mut index = vec![0; tables.len()];
        for (new, &old) in order.iter().enumerate() {
            index[old] = new;
        }
        let mut tables: Vec<Option<GroupTable>> = tables.into_iter().map(Some).collect();
        let groups = order.iter().map(|&old| {
            let table = tables[old].take().expect("each group comes once");
            group(table, self.parents[old].map(|parent| index[parent]), hosts[old])
        });
        (groups.collect(), index)
    }
}

/// Returns the problem of the cycle that contains `group`. Its span is in the first group of the cycle in the order of
/// the file.
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
    Problem::new(message).at(at, "leads back here").help("use a parent that is not inside this group")
}

/// Returns the group of a table.
pub(super) fn group(table: GroupTable, parent: Option<usize>, host: usize) -> Group {
    let place = table.name.at().unwrap_or(table.at);
    let params = GroupParams {
        weight: table.weight.value().unwrap_or_default(),
        quota: table.quota.value(),
        cap_percent: table.cap.value(),
        gang: table.gang.value().unwrap_or(false),
    };
    Group { name: table.name.value().unwrap_or_default(), parent, host, params, place }
}
