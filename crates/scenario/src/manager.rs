//! Reads and checks `[manager]`. The manager assigns shares to VMs during a run.

use super::form;
use super::spec::{EntitySpec, Group, ManagerSpec, Target, is_vcpu};
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::{Placed, Span};
use input::table::Table;
use sched::Nanos;
use std::ops::Range;

/// Keys of `[manager]`.
pub(crate) const MANAGER_KEYS: &[&str] = &["interval", "gain", "least", "most", "targets"];

/// Maximum assignment to a VM, equal to the maximum cap. Unit: percent of one CPU.
const SHARE_MAX: u64 = 102_400;

/// `[manager]`, before its check.
#[derive(Debug)]
pub(super) struct ManagerTable {
    at: Span,
    interval: Option<Nanos>,
    gain_percent: Option<u64>,
    least: Option<Placed<u64>>,
    most: Option<Placed<u64>>,
    targets: Vec<(Placed<String>, u64)>,
}

/// Reads the optional manager.
pub(super) fn read(top: &Table<'_, '_>, findings: &mut Findings) -> Option<ManagerTable> {
    let table = top.table("manager", ("[manager]", MANAGER_KEYS), findings)?;
    let interval = table.read("interval", |value| form::time_above_zero("interval", value), findings).value();
    let gain_percent = table.read("gain", |value| form::count("gain", value, 1..=1_000), findings).value();
    let mut share =
        |key: &'static str| table.read(key, |value| form::count(key, value, 1..=SHARE_MAX), findings).right();
    let (least, most) = (share("least"), share("most"));
    Some(ManagerTable { at: table.at, interval, gain_percent, least, most, targets: targets(&table, findings) })
}

fn targets(table: &Table<'_, '_>, findings: &mut Findings) -> Vec<(Placed<String>, u64)> {
    const RIGHT: &str = "use targets = { a = 20 }: the name of a VM, and percent of a CPU";
    let Some((value, at)) = table.get("targets") else {
        findings.add(Problem::new("the manager has no targets").at(table.at, "manages no VM").help(RIGHT));
        return Vec::new();
    };
    let Some(entries) = value.as_table().filter(|entries| !entries.is_empty()) else {
        findings.add(Wrong::new("these are no targets", "no VMs with shares", RIGHT.to_string()).at(at));
        return Vec::new();
    };
    let mut targets = Vec::new();
    for (name, value) in Table::all(entries, at).iter() {
        match form::count("target", value.value, 1..=SHARE_MAX) {
            Ok(percent) => targets.push((Placed { value: name.value.to_string(), at: name.at }, percent)),
            Err(wrong) => findings.add(wrong.at(value.at)),
        }
    }
    targets
}

/// Checks the manager against the groups and entities of the host.
pub(super) fn check(
    table: ManagerTable,
    hosts: usize,
    groups: &[Group],
    entities: &[EntitySpec],
    findings: &mut Findings,
) -> ManagerSpec {
    if hosts > 1 {
        let problem = Problem::new(format!("a manager is of one host, and there are {hosts}"));
        findings.add(problem.at(table.at, "of which?").help("use hosts = 1, or leave [manager] out"));
    }
    let (least, most) = (table.least.map_or(1, |it| it.value), table.most.map_or(100, |it| it.value));
    if let Some(at) = table.least.or(table.most).map(|it| it.at).filter(|_| least > most) {
        let problem = Problem::new(format!("the minimum share ({least} %) exceeds the maximum ({most} %)"));
        findings.add(problem.at(at, "out of order").help("use `least` up to `most`"));
    }
    let mut targets = Vec::new();
    for (name, percent) in table.targets {
        if !(least..=most).contains(&percent) {
            let problem =
                Problem::new(format!("the target of {} ({percent} %) is never assigned", quoted(&name.value)));
            let right = format!("use a target from `least` to `most`: {least} to {most}");
            findings.add(problem.at(name.at, "out of bounds").help(right));
        }
        if let Some(vcpus) = vcpus(&name, groups, entities, findings) {
            targets.push(Target { name: name.value, target_ppm: percent * 10_000, vcpus });
        }
    }
    ManagerSpec {
        interval: table.interval.unwrap_or(Nanos::s(5)),
        gain_percent: table.gain_percent.unwrap_or(100),
        least_ppm: least * 10_000,
        most_ppm: most * 10_000,
        targets,
        place: table.at,
    }
}

/// Returns the vCPUs of the VM with this `name`. Reports an unknown name, and a VM without an adjustable share.
fn vcpus(
    name: &Placed<String>,
    groups: &[Group],
    entities: &[EntitySpec],
    findings: &mut Findings,
) -> Option<Range<usize>> {
    let places: Vec<usize> =
        (0..entities.len()).filter(|&index| is_vcpu(&entities[index], &name.value, groups)).collect();
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
        let vms: Vec<&str> = groups
            .iter()
            .map(|group| group.name.as_str())
            .filter(|vm| entities.iter().any(|entity| is_vcpu(entity, vm, groups)))
            .collect();
        let message = format!("there is no VM {} to manage", quoted(&name.value));
        findings.add(Wrong::new(message, "no VM", right_instead(&name.value, &vms)).at(name.at));
        return None;
    };
    let has_cap = entities[first].group.is_some_and(|group| groups[group].params.cap_percent.is_some());
    if entities[first].params.reservation.is_none() && !has_cap {
        let problem = Problem::new(format!("{} has no share to adjust", quoted(&name.value)));
        let right = "use a VM with a `cap`, or with `slice` and `period`";
        findings.add(problem.at(name.at, "no cap, no slice").help(right));
    }
    Some(first..last + 1)
}
