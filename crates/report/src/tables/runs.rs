//! The tables of runs: entities and groups.

use super::grid::{ROWS_MAX, Widths, and_more};
use super::lines::{Line, Whose, table_of};
use crate::asked::shown;
use crate::got::{Entity, GroupGot, called};
use crate::run_report::Report;

/// Returns the table of a run, with a line for each entity and a line for the total.
#[must_use]
pub fn table(report: &Report, widths: Widths) -> String {
    comparison(std::slice::from_ref(report), widths)
}

/// Returns the table of several runs of one scenario. The table has a line for each entity and policy, and a line for
/// the total of each policy.
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
    let late: Vec<_> = reports.iter().map(|it| (it.policy.as_str(), it.total.unfinished_late)).collect();
    table_of(&lines, Whose::Host, reports.len() > 1, widths) + &and_more(entities - most) + &unfinished(&late)
}

/// Returns a note that names the policies under which jobs missed their deadlines and did not complete. `all` has the
/// number of these jobs for each policy.
pub(super) fn unfinished(all: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for (policy, count) in all.iter().filter(|(_, count)| *count > 0) {
        let (jobs, its) = if *count == 1 { ("job", "its deadline") } else { ("jobs", "their deadlines") };
        let under = if all.len() > 1 { format!(" under {policy}") } else { String::new() };
        text += &format!("{count} {jobs} missed {its} and did not complete{under}.\n");
    }
    text
}

/// Returns the table of the groups that contain more than one entity. Empty if no group contains more than one entity.
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
