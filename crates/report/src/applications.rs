//! What applications say of themselves: their metrics, in tables and JSON.

use measure::statistics::Spread;
use run::Measured;
use serde::Serialize;
use workloads::metrics::{Named, Reading};

/// An application's metric in one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AppReport {
    /// What people call it.
    pub name: String,
    /// What it is measured by.
    pub metric: &'static str,
    /// The numbers, each with a name that ends in its unit.
    pub values: Named<u64>,
    /// Numbers over time, one for each second.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub series: Named<Vec<u64>>,
    /// How often each class of a value occurred: pairs.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub histograms: Named<Vec<(u64, u64)>>,
}

/// An application's metric over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AppSummary {
    /// What people call it.
    pub name: String,
    /// What it is measured by.
    pub metric: &'static str,
    /// In how many runs it was measured: the medians are over those.
    pub runs: usize,
    /// Of each number the median over the runs.
    pub values: Named<Spread>,
}

impl AppReport {
    /// Of an application that was measured.
    pub(crate) fn new(Measured { name, metric, reading }: Measured) -> AppReport {
        let Reading { values, series, histograms } = reading;
        AppReport { name, metric: metric.name(), values, series, histograms }
    }
}

impl AppSummary {
    /// Of `runs`, which differ in nothing but their seed: their applications are the same, in the same order.
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
