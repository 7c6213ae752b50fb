//! The tables of guests.

use super::applications;
use super::grid::{ROWS_MAX, Widths, and_more};
use super::lines::{Line, Whose, table_of};
use crate::asked::shown;
use crate::got::{Entity, called};
use crate::guest::GuestReport;
use crate::run_report::Report;
use crate::short::{percent, short};

/// Returns, for each guest, its steal time and the table of its tasks, with a line for each policy. `reports` are runs
/// of one scenario. Empty without guests.
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

/// Returns the results of one guest in each run, under the host's policy.
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
