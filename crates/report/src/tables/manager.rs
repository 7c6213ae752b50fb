//! The tables of workload managers.

use super::grid::Grid;
use crate::run_report::Report;
use crate::short::percent;
use crate::spreads::{Form, cell};
use crate::summary::Summary;

/// Returns the table of the VMs of each run's manager. Empty for runs without a manager.
#[must_use]
pub fn manager(reports: &[Report]) -> String {
    if reports.iter().all(|report| report.manager.is_none()) {
        return String::new();
    }
    const HEADER: [&str; 8] =
        ["", "policy", "target", "error", "consumed − assigned", "amplitude", "settled", "intervals"];
    let mut grid = Grid::new(HEADER.map(str::to_string).to_vec(), 2);
    for report in reports {
        for vm in report.manager.iter().flat_map(|manager| &manager.vms) {
            let settled = if vm.settled { "yes" } else { "no" };
            grid.add(vec![
                vm.name.clone(),
                report.policy.clone(),
                percent(vm.target_ppm),
                percent(vm.error_ppm),
                percent(vm.allocation_error_ppm),
                percent(vm.amplitude_ppm),
                settled.to_string(),
                vm.assigned_ppm.len().to_string(),
            ]);
        }
    }
    format!("\nManaged, in the last half (see --json for every interval):\n{grid}")
}

/// Returns the medians of the managers' results under each policy. Empty without a manager.
pub(crate) fn manager_medians(summaries: &[Summary]) -> String {
    if summaries.iter().all(|summary| summary.manager.is_none()) {
        return String::new();
    }
    const HEADER: [&str; 8] =
        ["", "policy", "target", "error", "consumed − assigned", "amplitude", "settled", "refused"];
    let mut grid = Grid::new(HEADER.map(str::to_string).to_vec(), 2);
    for summary in summaries {
        for vm in summary.manager.iter().flat_map(|manager| &manager.vms) {
            grid.add(vec![
                vm.name.clone(),
                summary.policy.clone(),
                percent(vm.target_ppm),
                cell(vm.error_ppm, Form::Percent),
                cell(vm.allocation_error_ppm, Form::Percent),
                cell(vm.amplitude_ppm, Form::Percent),
                format!("{} of {}", vm.settled_runs, vm.runs),
                cell(vm.refused, Form::Count),
            ]);
        }
    }
    format!("\nManaged, in the last half of each run:\n{grid}")
}
