//! [`GuestReport`]: the results of a VM's guest and of the guest's tasks.

use crate::applications::AppReport;
use crate::asked::Asked;
use crate::coordinated::CoordinationGot;
use crate::got::{Entity, Got, GroupGot, ppm, there};
use measure::{CpuMeasures, Measures, Member, Meter};
use run::GuestOutcome;
use scenario::{GuestSpec, Scenario};
use sched::{GroupId, Instant, Knobs, Nanos, PolicySource};
use serde::Serialize;
use std::collections::BTreeMap;

/// Steal time of a CPU of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuLoss {
    /// Number of times that the guest's CPU was frozen while a task ran on it.
    pub freezes: u64,
    /// Time for which the guest's CPU was frozen with a task on it. Unit: nanoseconds.
    pub stolen_ns: u64,
}

/// The results of a guest in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GuestReport {
    /// Name of the guest's VM.
    pub name: String,
    /// Name of the guest's policy.
    pub policy: String,
    /// Knobs of the guest's policy, with their values as text.
    pub knobs: BTreeMap<&'static str, String>,
    /// Steal time of each CPU of the guest. A CPU of the guest is a vCPU of the host.
    pub cpus: Vec<CpuLoss>,
    /// Total time for which the guest's CPUs were frozen with a task on them. Unit: nanoseconds.
    pub stolen_ns: u64,
    /// `stolen_ns` in millionths of the time of all CPUs of the guest.
    pub stolen_ppm: u64,
    /// Results of the coordination of the guest and its host, if they coordinate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationGot>,
    /// Results of all tasks of the guest together. `delivered_ppm` is relative to all CPUs of the guest.
    pub total: Got,
    /// Tasks of the guest, in order of arrival.
    pub entities: Vec<Entity>,
    /// Groups of the guest, in order of creation.
    pub groups: Vec<GroupGot>,
    /// Metrics of the guest's applications. Empty if no application has a metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppReport>,
}

impl GuestReport {
    /// Returns the report of a guest of `scenario`.
    pub(crate) fn of(scenario: &Scenario, spec: &GuestSpec, outcome: GuestOutcome) -> GuestReport {
        let GuestOutcome { choice, meter, applications, coordinated } = outcome;
        let measured = (scenario.measured_from(), Instant::ZERO + scenario.length);
        let report = GuestReport::new(&spec.name, (&*choice.policy, &choice.knobs), spec.vcpus.len(), measured, &meter);
        let coordination = spec.guest.coordination.zip(coordinated);
        let coordination = coordination.map(|(with, got)| CoordinationGot::new(&with, &got, scenario.measured()));
        let applications = applications.into_iter().map(AppReport::new).collect();
        GuestReport { applications, coordination, ..report }
    }

    /// Returns the report of the guest `name`, which has `vcpus` CPUs, from the measurements of `meter` between two
    /// instants.
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

/// Returns the tasks by name, in the order in which the first task of each name arrived. The results of tasks that
/// share a name are added up.
pub(crate) fn tasks<'m>(
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
        mechanism: None,
        got: Got::new(&got, there),
    };
    sums.into_iter().map(line).collect()
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
        starts: None,
        name,
    };
    meter.groups().into_iter().map(line).collect()
}
