//! The metrics of applications, in tables and JSON.

use measure::statistics::Spread;
use run::Measured;
use serde::Serialize;
use workloads::metrics::{Named, Reading};

/// An application's metric in one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AppReport {
    /// Display name of the application.
    pub name: String,
    /// Metric of the application.
    pub metric: &'static str,
    /// Values of the metric. Each name ends in the unit.
    pub values: Named<u64>,
    /// Values over time, one per second.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub series: Named<Vec<u64>>,
    /// Histograms: for each value, pairs of a class and its count.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub histograms: Named<Vec<(u64, u64)>>,
}

/// An application's metric over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AppSummary {
    /// Display name of the application.
    pub name: String,
    /// Metric of the application.
    pub metric: &'static str,
    /// Number of runs in which the application was measured. The medians are over these runs.
    pub runs: usize,
    /// Median of each number over the runs.
    pub values: Named<Spread>,
}

impl AppReport {
    /// Returns the report of a measured application.
    pub(crate) fn new(Measured { name, metric, reading }: Measured) -> AppReport {
        let Reading { values, series, histograms } = reading;
        AppReport { name, metric: metric.name(), values, series, histograms }
    }
}

impl AppSummary {
    /// Returns the summaries of `runs`, which differ only in their seed. All runs have the same applications in the
    /// same order.
    pub(crate) fn all<'r>(runs: impl Iterator<Item = &'r [AppReport]>) -> Vec<AppSummary> {
        let runs: Vec<&[AppReport]> = runs.collect();
        let most = runs.iter().map(|run| run.len()).max().unwrap_or(0);
        let summary = |nth: usize| {
            let of: Vec<&AppReport> = runs.iter().filter_map(|run| run.get(nth)).collect();
            let first = *of.first()?;
            let over = |name: &'static str| {
                let known = |app: &&AppReport| app.values.0.iter().find(|(known, _)| *known == name).map(|it| it.1);
                (name, Spread::of(&of.iter().filter_map(known).collect::<Vec<_>>()))
            };
            let values = first.values.0.iter().map(|&(name, _)| over(name)).collect();
            Some(AppSummary { name: first.name.clone(), metric: first.metric, runs: of.len(), values: Named(values) })
        };
        (0..most).filter_map(summary).collect()
    }
}
