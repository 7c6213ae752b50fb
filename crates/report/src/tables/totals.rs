//! The table of task sets: the totals of each policy.

use super::grid::Grid;
use super::runs::unfinished;
use crate::run_report::Report;
use crate::short::short;
use sched::Nanos;
use trace::Counts;

/// The totals of a task set under one policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Name of the policy.
    pub policy: String,
    /// Counts of all tasks together.
    pub counts: Counts,
}

impl Report {
    /// Returns the totals of the report's entities.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let total = &self.total;
        let counts = Counts {
            releases: total.releases,
            completions: total.completions,
            misses: total.misses,
            preemptions: total.preemptions,
            dispatches: total.dispatches,
            migrations: total.migrations,
            unfinished_late: total.unfinished_late,
            worst_lateness: Nanos::ns(total.worst_lateness_ns),
        };
        Totals { policy: self.policy.clone(), counts }
    }
}

/// Returns the table of the totals that tools for task sets report, with one line for each policy.
#[must_use]
pub fn totals(all: &[Totals]) -> String {
    const HEADER: [&str; 9] = [
        "policy",
        "releases",
        "completions",
        "misses",
        "unfinished",
        "worst",
        "preemptions",
        "dispatches",
        "migrations",
    ];
    let mut table = Grid::new(HEADER.map(str::to_string).to_vec(), 1);
    for Totals { policy, counts } in all {
        let jobs = [counts.releases, counts.completions, counts.misses, counts.unfinished_late];
        let mut row = vec![policy.clone()];
        row.extend(jobs.map(|count| count.to_string()));
        row.push(short(counts.worst_lateness.as_ns()));
        row.extend([counts.preemptions, counts.dispatches, counts.migrations].map(|count| count.to_string()));
        table.add(row);
    }
    let late: Vec<_> = all.iter().map(|it| (it.policy.as_str(), it.counts.unfinished_late)).collect();
    table.to_string() + &unfinished(&late)
}
