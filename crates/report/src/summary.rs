//! [`Summary`]: the results of each entity over several runs that differ only in their seed.

use crate::applications::AppSummary;
use crate::asked::Asked;
use crate::coordinated::CoordinationSpreads;
use crate::got::{Entity, Got, GroupGot, is_zero};
use crate::guest::GuestReport;
use crate::manager::ManagerSummary;
use crate::run_report::Report;
use crate::spreads::{Spreads, spreads};
use crate::xenmon::{self, HostSpreads};
use measure::statistics::{Spread, confidence};
use serde::Serialize;
use std::collections::BTreeMap;

/// The medians over several runs of one scenario under one policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// Title of the scenario.
    pub scenario: String,
    /// Name of the policy.
    pub policy: String,
    /// CPUs of the machine, or of each host.
    pub cpus: usize,
    /// Length of each run. Unit: nanoseconds.
    pub length_ns: u64,
    /// Length of the warm-up at the beginning of each run. Measurements exclude the warm-up. Unit: nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub warm_up_ns: u64,
    /// The seeds of the runs, in order.
    pub seeds: Vec<u64>,
    /// Confidence of the intervals over all runs. Unit: millionths.
    pub confidence_ppm: u64,
    /// Medians of all entities together.
    pub total: Spreads,
    /// Entities that were present in any run, in the order of their first appearance.
    pub entities: Vec<SummaryLine>,
    /// Medians of each VM and other group.
    pub groups: Vec<SummaryLine>,
    /// Metrics of the scenario's applications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppSummary>,
    /// Medians of the guests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestSummary>,
    /// Results of the workload manager, if the scenario has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerSummary>,
    /// Medians of the domains of each host, if XenMon was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xenmon: Vec<HostSpreads>,
}

/// Medians of one entity or group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SummaryLine {
    /// Display name of the entity or group.
    pub name: String,
    /// Requested parameters of the entity or group.
    pub asked: Asked,
    /// Number of runs in which the entity or group was present. The medians are over these runs.
    pub runs: usize,
    /// Medians of the results.
    #[serde(flatten)]
    pub got: Spreads,
}

/// Medians of a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GuestSummary {
    /// Name of the guest's VM.
    pub name: String,
    /// Name of the guest's policy.
    pub policy: String,
    /// Total time for which the guest's CPUs were frozen with a task on them. Unit: nanoseconds.
    pub stolen_ns: Spread,
    /// `stolen_ns` in millionths of the time of all CPUs of the guest.
    pub stolen_ppm: Spread,
    /// Results of the coordination of the guest and its host, if they coordinate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationSpreads>,
    /// Medians of all tasks of the guest together.
    pub total: Spreads,
    /// Medians of the guest's tasks.
    pub entities: Vec<SummaryLine>,
    /// Medians of the guest's groups.
    pub groups: Vec<SummaryLine>,
    /// Metrics of the guest's applications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppSummary>,
}

impl Summary {
    /// Returns the summary of `runs`, which differ only in their seed. Range: 1 …
    /// [`RUNS_MAX`](measure::statistics::RUNS_MAX) runs.
    #[must_use]
    pub fn new(runs: &[Report]) -> Summary {
        let first = &runs[0];
        let guest = |index: usize| {
            let of: Vec<_> = runs.iter().filter_map(|run| run.guests.get(index)).collect();
            let over =
                |number: fn(&GuestReport) -> u64| Spread::of(&of.iter().map(|guest| number(guest)).collect::<Vec<_>>());
            GuestSummary {
                name: of[0].name.clone(),
                policy: of[0].policy.clone(),
                stolen_ns: over(|guest| guest.stolen_ns),
                stolen_ppm: over(|guest| guest.stolen_ppm),
                coordination: CoordinationSpreads::new(of.iter().filter_map(|guest| guest.coordination.as_ref())),
                total: spreads(of.iter().map(|guest| &guest.total)),
                entities: lines(of.iter().map(|guest| guest.entities.iter().map(entity))),
                groups: lines(of.iter().map(|guest| guest.groups.iter().map(group))),
                applications: AppSummary::all(of.iter().map(|guest| guest.applications.as_slice())),
            }
        };
        let guests = runs.iter().map(|run| run.guests.len()).max().unwrap_or(0);
        Summary {
            scenario: first.scenario.clone(),
            policy: first.policy.clone(),
            cpus: first.cpus,
            length_ns: first.length_ns,
            warm_up_ns: first.warm_up_ns,
            seeds: runs.iter().map(|run| run.seed).collect(),
            confidence_ppm: confidence(runs.len()),
            total: spreads(runs.iter().map(|run| &run.total)),
            entities: lines(runs.iter().map(|run| run.entities.iter().map(entity))),
            groups: lines(runs.iter().map(|run| run.groups.iter().map(group))),
            applications: AppSummary::all(runs.iter().map(|run| run.applications.as_slice())),
            guests: (0..guests).map(guest).collect(),
            manager: ManagerSummary::new(runs.iter().filter_map(|run| run.manager.as_ref())),
            xenmon: xenmon::hosts(runs.iter().filter_map(|run| run.xenmon.as_ref())),
        }
    }
}

fn entity(entity: &Entity) -> (&str, &Asked, &Got) {
    (&entity.name, &entity.asked, &entity.got)
}

fn group(group: &GroupGot) -> (&str, &Asked, &Got) {
    (&group.name, &group.asked, &group.got)
}

/// Returns the lines of all `runs`, one for each name. If a name occurs several times in a run, the n-th occurrences in
/// all runs share a line.
fn lines<'r>(runs: impl Iterator<Item = impl Iterator<Item = (&'r str, &'r Asked, &'r Got)>>) -> Vec<SummaryLine> {
    let mut order: Vec<(&str, &Asked, Vec<&Got>)> = Vec::new();
    let mut index: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for run in runs {
        let mut met: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, asked, got) in run {
            let times = met.entry(name).or_default();
            let at = *index.entry((name, *times)).or_insert_with(|| {
                order.push((name, asked, Vec::new()));
                order.len() - 1
            });
            *times += 1;
            order[at].2.push(got);
        }
    }
    let line = |(name, asked, got): (&str, &Asked, Vec<&Got>)| SummaryLine {
        name: name.to_string(),
        asked: asked.clone(),
        runs: got.len(),
        got: spreads(got.into_iter()),
    };
    order.into_iter().map(line).collect()
}
