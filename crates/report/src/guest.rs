//! [`GuestReport`]: what became of the guest of a VM and of the tasks in it.

use super::applications;
use super::text::{Line, ROWS_MAX, Whose, and_more, shown, table_of};
use super::{AppReport, Asked, CoordinationGot, Entity, Got, GroupGot, Report, Widths, percent, ppm, short, there};
use measure::{CpuMeasures, Measures, Member, Meter};
use run::GuestOutcome;
use scenario::{GuestSpec, Scenario};
use sched::{GroupId, Instant, Knobs, Nanos, PolicySource};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a CPU of a guest lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuLoss {
    /// Times it lost its CPU while a task was on it.
    pub freezes: u64,
    /// Time for which it was frozen with a task on it. Unit: nanoseconds.
    pub stolen_ns: u64,
}

/// A guest's part in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GuestReport {
    /// The name of its VM.
    pub name: String,
    /// Its policy's name.
    pub policy: String,
    /// That policy's knobs and their values, in words.
    pub knobs: BTreeMap<&'static str, String>,
    /// By CPU, which is a vCPU of the host.
    pub cpus: Vec<CpuLoss>,
    /// Time for which its CPUs were frozen together.
    pub stolen_ns: u64,
    /// The same in millionths of the time of its CPUs.
    pub stolen_ppm: u64,
    /// What came of its coordination with its host, if they coordinate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationGot>,
    /// All its tasks together; its `delivered_ppm` is of all its CPUs.
    pub total: Got,
    /// Its tasks, in the order in which they came.
    pub entities: Vec<Entity>,
    /// Its groups, in the order in which they were made.
    pub groups: Vec<GroupGot>,
    /// What its applications say of themselves; none if none has a metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppReport>,
}

impl GuestReport {
    /// Of a guest of `scenario`.
    pub(crate) fn of(scenario: &Scenario, spec: &GuestSpec, outcome: GuestOutcome) -> GuestReport {
        let GuestOutcome { choice, meter, applications, coordinated } = outcome;
        let measured = (scenario.measured_from(), Instant::ZERO + scenario.length);
        let report = GuestReport::new(&spec.name, (&*choice.policy, &choice.knobs), spec.vcpus.len(), measured, &meter);
        let coordination = spec.guest.coordination.zip(coordinated);
        let coordination = coordination.map(|(with, got)| CoordinationGot::new(&with, &got, scenario.measured()));
        let applications = applications.into_iter().map(AppReport::new).collect();
        GuestReport { applications, coordination, ..report }
    }

    /// Of the guest `name`, which has `vcpus` CPUs, from what `meter` saw of it between two moments.
    #[must_use]
    pub fn new(
        name: &str,
        (policy, knobs): (&dyn PolicySource, &Knobs),
        vcpus: usize,
        (from, end): (Instant, Instant),
        meter: &Meter,
    ) -> GuestReport {
        let length = end.saturating_since(from);
        let mut cpus = meter.cpus();
        cpus.resize(vcpus, CpuMeasures::default());
        let stolen = cpus.iter().fold(Nanos::ZERO, |sum, cpu| sum + cpu.stolen);
        let all = length.saturating_mul(vcpus as u64);
        GuestReport {
            name: name.to_string(),
            policy: policy.name().to_string(),
            knobs: knobs.iter().map(|(knob, value)| (knob.name, knob.show(value))).collect(),
            cpus: cpus.iter().map(|cpu| CpuLoss { freezes: cpu.freezes, stolen_ns: cpu.stolen.as_ns() }).collect(),
            stolen_ns: stolen.as_ns(),
            stolen_ppm: ppm(stolen, all),
            coordination: None,
            total: Got::new(&meter.total(), all),
            entities: tasks(meter.members().iter(), meter, (from, end)),
            groups: group_lines(meter, length),
            applications: Vec::new(),
        }
    }
}

/// Tasks by name, in the order in which the first of each came: those that share a name are added up.
pub(super) fn tasks<'m>(
    members: impl Iterator<Item = &'m Member>,
    meter: &Meter,
    measured: (Instant, Instant),
) -> Vec<Entity> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sums: Vec<(&Member, u64, Nanos, Option<Instant>, Measures)> = Vec::new();
    for member in members {
        let there = there(member, measured);
        let place = *places.entry(&member.name).or_insert(sums.len());
        match sums.get_mut(place) {
            None => sums.push((member, 1, there, member.left, member.got.clone())),
            Some((_, count, time, left, got)) => {
                *count += 1;
                *time += there;
                *left = left.and_then(|left| Some(left.max(member.left?)));
                got.add(&member.got);
            }
        }
    }
    let line = |(first, instances, there, left, got): (&Member, u64, Nanos, Option<Instant>, Measures)| Entity {
        name: first.name.clone(),
        instances,
        changes_refused: 0,
        host: None,
        group: meter.group(first.params.group).map(|(name, _)| name.to_string()),
        came_ns: first.came.as_ns(),
        left_ns: left.map(Instant::as_ns),
        asked: Asked::with(&first.params),
        granted_ppm: None,
        got: Got::new(&got, there),
    };
    sums.into_iter().map(line).collect()
}

/// `name`, or `name ×20` of twenty.
pub(super) fn called(entity: &Entity) -> String {
    match entity.instances {
        1 => entity.name.clone(),
        count => format!("{} ×{count}", entity.name),
    }
}

fn group_lines(meter: &Meter, length: Nanos) -> Vec<GroupGot> {
    let mut members: BTreeMap<GroupId, u64> = BTreeMap::new();
    for member in meter.members() {
        let mut group = member.params.group;
        while let Some(parent) = meter.parent(group) {
            *members.entry(group).or_default() += 1;
            group = parent;
        }
    }
    let line = |(group, name, got)| GroupGot {
        entities: members.get(&group).copied().unwrap_or(0),
        asked: meter.group(group).map_or_else(Asked::default, |(_, params)| Asked::of(&params)),
        got: Got::new(&got, length),
        siblings: None,
        name,
    };
    meter.groups().into_iter().map(line).collect()
}

/// Of each guest its losses and the table of its tasks, a line for each policy of `reports`, which are runs of one scenario; nothing
/// if there are no guests.
#[must_use]
pub fn guests(reports: &[Report], widths: Widths) -> String {
    let count = reports.iter().map(|report| report.guests.len()).max().unwrap_or(0);
    let mut text = String::new();
    for index in 0..count {
        let runs: Vec<(&str, &GuestReport)> =
            reports.iter().filter_map(|report| Some((report.policy.as_str(), report.guests.get(index)?))).collect();
        text += &one(&runs, reports.len() > 1, widths);
    }
    text
}

/// One guest, as it fared in each run, under the host's policy.
fn one(runs: &[(&str, &GuestReport)], several: bool, widths: Widths) -> String {
    let (_, first) = runs[0];
    let vcpus = first.cpus.len();
    let mut text =
        format!("\nIn {} ({}, {vcpus} vCPU{}):\n", first.name, first.policy, if vcpus == 1 { "" } else { "s" });
    for (policy, guest) in runs {
        let under = if several { format!("under {policy} ") } else { String::new() };
        let freezes: u64 = guest.cpus.iter().map(|cpu| cpu.freezes).sum();
        let stolen = (short(guest.stolen_ns), percent(guest.stolen_ppm));
        text += &format!("{under}{} stolen, {} of its vCPUs' time, in {freezes} pieces\n", stolen.0, stolen.1);
        text += &guest.coordination.as_ref().map_or(String::new(), |it| format!("{under}{}", it.text()));
    }
    let tasks = runs.iter().map(|(_, guest)| guest.entities.len()).max().unwrap_or(0);
    let most = (ROWS_MAX / runs.len()).max(1).min(tasks);
    let names: Vec<String> = (0..most)
        .map(|index| runs.iter().find_map(|(_, guest)| guest.entities.get(index)).map_or_else(String::new, called))
        .collect();
    let mut lines = Vec::with_capacity((most + 1) * runs.len());
    for (index, name) in names.iter().enumerate() {
        let there = runs.iter().filter_map(|(policy, guest)| Some((*policy, guest.entities.get(index)?)));
        for (nth, (policy, Entity { asked, granted_ppm, got, .. })) in there.enumerate() {
            let (name, asked) = if nth == 0 { (name.as_str(), shown(asked)) } else { ("", String::new()) };
            lines.push(Line { name, asked, policy, granted: *granted_ppm, got });
        }
    }
    for (nth, (policy, guest)) in runs.iter().enumerate() {
        let name = if nth == 0 { "all" } else { "" };
        lines.push(Line { name, asked: String::new(), policy, granted: None, got: &guest.total });
    }
    text += &table_of(&lines, Whose::Guest, several, widths);
    text += &and_more(tasks - most);
    let of: Vec<_> = runs.iter().map(|(policy, guest)| (*policy, guest.applications.as_slice())).collect();
    text + &applications::results(&of)
}
