//! [`Measured`]: the metrics of applications, wherever they are measured.

use scenario::{AppSpec, Scenario};
use sched::Instant;
use std::collections::BTreeMap;
use workloads::metrics::{Metric, Metrics, Reading};

/// What an application's metric says.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The application's name.
    pub name: String,
    /// What it is measured by.
    pub metric: Metric,
    /// What that says.
    pub reading: Reading,
}

/// What measures those of `applications` that are not measured outside.
pub(crate) fn measured<'s>(applications: impl Iterator<Item = &'s AppSpec>) -> Metrics {
    let here = applications.filter(|spec| !spec.reach.is_measured_outside());
    Metrics::new(here.filter_map(|spec| Some((spec.name.as_str(), spec.metric?))))
}

/// What an application is called outside.
fn called_outside(guest: Option<&str>, name: &str) -> String {
    guest.map_or(name.to_string(), |guest| format!("{guest}/{name}"))
}

/// What measures the others.
pub(crate) fn measured_outside(scenario: &Scenario) -> Metrics {
    let all = scenario.all_applications().filter(|(_, spec)| spec.reach.is_measured_outside());
    let called = |of: Option<usize>, name| called_outside(of.map(|of| scenario.guests[of].name.as_str()), name);
    let named: Vec<_> = all.filter_map(|(of, spec)| Some((called(of, &spec.name), spec.metric?))).collect();
    Metrics::new(named.iter().map(|(name, metric)| (name.as_str(), *metric)))
}

/// What was measured outside, by its name there.
pub(crate) struct Readings(BTreeMap<String, Measured>);

impl Readings {
    pub(crate) fn new(read: Vec<(String, Metric, Reading)>) -> Readings {
        let measured = |(name, metric, reading): (String, Metric, Reading)| Measured { name, metric, reading };
        Readings(read.into_iter().map(|read| (read.0.clone(), measured(read))).collect())
    }

    /// What `applications` of a guest, or of all hosts, say, in their order, wherever each was measured.
    pub(crate) fn of(
        &mut self,
        guest: Option<&str>,
        applications: &[AppSpec],
        here: Vec<Metrics>,
        end: Instant,
    ) -> Vec<Measured> {
        let mut here = Readings::new(here.into_iter().flat_map(|metrics| metrics.read(end)).collect());
        let mut reports = Vec::new();
        for spec in applications.iter().filter(|spec| spec.metric.is_some()) {
            reports.extend(match spec.reach.is_measured_outside() {
                true => self
                    .0
                    .remove(&called_outside(guest, &spec.name))
                    .map(|it| Measured { name: spec.name.clone(), ..it }),
                false => here.0.remove(&spec.name),
            });
        }
        reports
    }
}
