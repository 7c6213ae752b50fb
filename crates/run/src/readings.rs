//! [`Measured`]: the reading of an application's metric, from the machine that measures the application.

use scenario::{AppSpec, Scenario};
use sched::Instant;
use std::collections::BTreeMap;
use workloads::metrics::{Metric, Metrics, Reading};

/// The metric of an application with its reading.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the application.
    pub name: String,
    /// Metric of the application.
    pub metric: Metric,
    /// Reading of the metric.
    pub reading: Reading,
}

/// Returns the metrics of the `applications` that are not measured outside.
pub(crate) fn measured<'s>(applications: impl Iterator<Item = &'s AppSpec>) -> Metrics {
    let here = applications.filter(|spec| !spec.reach.is_measured_outside());
    Metrics::new(here.filter_map(|spec| Some((spec.name.as_str(), spec.metric?))))
}

/// Returns the name under which the machine outside measures an application.
fn called_outside(guest: Option<&str>, name: &str) -> String {
    guest.map_or(name.to_string(), |guest| format!("{guest}/{name}"))
}

/// Returns the metrics of the applications that are measured outside.
pub(crate) fn measured_outside(scenario: &Scenario) -> Metrics {
    let all = scenario.all_applications().filter(|(_, spec)| spec.reach.is_measured_outside());
    let called = |of: Option<usize>, name| called_outside(of.map(|of| scenario.guests[of].name.as_str()), name);
    let named: Vec<_> = all.filter_map(|(of, spec)| Some((called(of, &spec.name), spec.metric?))).collect();
    Metrics::new(named.iter().map(|(name, metric)| (name.as_str(), *metric)))
}

/// Readings by name of the application. Readings from outside have the name on the machine outside.
pub(crate) struct Readings(BTreeMap<String, Measured>);

impl Readings {
    pub(crate) fn new(read: Vec<(String, Metric, Reading)>) -> Readings {
        let measured = |(name, metric, reading): (String, Metric, Reading)| Measured { name, metric, reading };
        Readings(read.into_iter().map(|read| (read.0.clone(), measured(read))).collect())
    }

    /// Returns the readings of `applications`, in order. The applications belong to `guest`, or to the hosts if `guest`
    /// is `None`. `here` contains the metrics of these machines. Readings of applications that are measured outside are
    /// removed from `self`.
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
