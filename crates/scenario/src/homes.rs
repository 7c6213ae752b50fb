//! The host of each VM, task and application: the named host, else the host of the enclosing group, else the first.

use super::HOSTS_MAX;
use super::checked::Checked;
use super::tables::Level;
use super::tree::Tree;
use input::problem::{Findings, Problem, quoted};
use input::source::{Placed, Span};
use input::table::Given;

/// The number of the host, from 0, of each group and each member of a level.
pub(super) struct Homes {
    /// Hosts of the groups, in the order of the file.
    pub(super) groups: Vec<usize>,
    /// Hosts of the members, in the order of the file.
    pub(super) members: Vec<usize>,
}

/// Returns the host of each group and each member in `level`. `parents`: the group of each member. `hosts`: the number
/// of hosts.
pub(super) fn homes(
    level: &Level,
    tree: &Tree,
    parents: &[Option<usize>],
    hosts: usize,
    findings: &mut Findings,
) -> Homes {
    let mut groups = vec![0; level.groups.len()];
    for group in tree.order() {
        let table = &level.groups[group];
        let around = tree.parent(group).map(|parent| (groups[parent], level.groups[parent].at));
        groups[group] = home(&table.host, around, hosts, findings);
    }
    let members = level.members.iter().zip(parents).map(|(member, parent)| {
        let around = parent.map(|parent| (groups[parent], level.groups[parent].at));
        home(&member.group.host, around, hosts, findings)
    });
    let members = members.collect();
    Homes { groups, members }
}

/// Returns the host of a group or member. Reports a `named` host that does not exist, or that differs from the host of
/// the enclosing group. `around`: the host and the span of the enclosing group, if any.
fn home(named: &Given<usize>, around: Option<(usize, Span)>, hosts: usize, findings: &mut Findings) -> usize {
    let Given::Right(Placed { value: number, at }) = *named else { return around.map_or(0, |(host, _)| host) };
    if number > hosts {
        let problem = Problem::new(format!("there is no host {number}")).at(at, "which host?");
        let right = match hosts {
            1 => format!("use host = 1, or hosts = {number} at the top of the file (at most {HOSTS_MAX})"),
            _ => format!("use 1 to {hosts}: there are hosts = {hosts}"),
        };
        findings.add(problem.help(right));
    } else if let Some((host, group)) = around.filter(|&(host, _)| host + 1 != number) {
        let problem = Problem::new(format!("it is on host {number}, and its group on host {}", host + 1));
        let problem = problem.at(at, "another host").at(group, "the group");
        findings.add(problem.help(format!("use host = {}, or none: a group is on one host", host + 1)));
    }
    number - 1
}

/// If the scenario has several hosts, checks that no guest has the name of a host, such as `host-1`.
pub(super) fn clashes(checked: &Checked, hosts: usize, findings: &mut Findings) {
    for guest in checked.guests.iter().filter(|_| hosts > 1) {
        let number = guest.name.strip_prefix("host-").and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| (1..=hosts).contains(&number)) {
            let problem = Problem::new(format!("{} is the name of a host", quoted(&guest.name)));
            findings.add(problem.at(guest.place, "taken").help("use another name"));
        }
    }
}
