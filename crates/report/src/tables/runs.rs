//! The tables of runs: entities, groups and totals.

use super::grid::{Grid, ROWS_MAX, Widths, and_more};
use super::lines::{Line, Whose, table_of};
use crate::asked::shown;
use crate::got::{Entity, GroupGot, called};
use crate::run_report::Report;
use crate::short::short;

/// The table of a run: a line for each entity and one for all together.
#[must_use]
pub fn table(report: &Report, widths: Widths) -> String {
    comparison(std::slice::from_ref(report), widths)
}

/// The table of several runs of one scenario: the entities, and of each a line for each policy.
#[must_use]
pub fn comparison(reports: &[Report], widths: Widths) -> String {
    let entities = reports.iter().map(|report| report.entities.len()).max().unwrap_or(0);
    let most = (ROWS_MAX / reports.len().max(1)).max(1).min(entities);
    let names: Vec<String> = (0..most)
        .map(|index| reports.iter().find_map(|report| report.entities.get(index)).map_or_else(String::new, called))
        .collect();
    let mut lines = Vec::with_capacity((most + 1) * reports.len());
    for (index, name) in names.iter().enumerate() {
        for (nth, report) in reports.iter().enumerate() {
            let Some(Entity { asked, granted_ppm, got, .. }) = report.entities.get(index) else { continue };
            let (name, asked) = if nth == 0 { (name.as_str(), shown(asked)) } else { ("", String::new()) };
            lines.push(Line { name, asked, policy: &report.policy, granted: *granted_ppm, got });
        }
    }
    for (nth, report) in reports.iter().enumerate() {
        let name = if nth == 0 { "all" } else { "" };
        lines.push(Line { name, asked: String::new(), policy: &report.policy, granted: None, got: &report.total });
    }
    table_of(&lines, Whose::Host, reports.len() > 1, widths) + &and_more(entities - most) + &unfinished(reports)
}

/// Names the entities with jobs that were still open at the end though their deadline had passed.
fn unfinished(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.total.unfinished_late > 0) {
        let count = report.total.unfinished_late;
        let (jobs, were) = if count == 1 { ("job", "was") } else { ("jobs", "were") };
        let under = if reports.len() > 1 { format!(" under {}", report.policy) } else { String::new() };
        text += &format!("{count} {jobs} {were} late and still unfinished at the end{under}.\n");
    }
    text
}

/// The table of the groups that hold more than one entity; nothing if there are none.
#[must_use]
pub fn groups(reports: &[Report], widths: Widths) -> String {
    let shared = |report: &'_ Report| report.groups.iter().filter(|group| group.entities > 1).count();
    let count = reports.first().map_or(0, shared);
    if count == 0 {
        return String::new();
    }
    let most = (ROWS_MAX / reports.len().max(1)).max(1).min(count);
    let mut lines = Vec::with_capacity(most * reports.len());
    for index in 0..most {
        for (nth, report) in reports.iter().enumerate() {
            let mut large = report.groups.iter().filter(|group| group.entities > 1);
            let GroupGot { name, asked, got, .. } = large.nth(index).expect("they were counted");
            let (name, asked) = if nth == 0 { (name.as_str(), shown(asked)) } else { ("", String::new()) };
            lines.push(Line { name, asked, policy: &report.policy, granted: None, got });
        }
    }
    table_of(&lines, Whose::Host, reports.len() > 1, widths) + &and_more(count - most)
}

/// The table of the totals that tools for task sets report, one line for each policy.
#[must_use]
pub fn totals(reports: &[Report]) -> String {
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
    for report in reports {
        let total = &report.total;
        let counts = [total.releases, total.completions, total.misses, total.unfinished_late];
        let mut row = vec![report.policy.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(short(total.worst_lateness_ns));
        row.extend([total.preemptions, total.dispatches, total.migrations].map(|count| count.to_string()));
        table.add(row);
    }
    table.to_string() + &unfinished(reports)
}
