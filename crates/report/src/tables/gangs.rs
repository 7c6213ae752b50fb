//! The table of gangs.

use super::grid::{Grid, ROWS_MAX, and_more};
use crate::run_report::Report;
use crate::short::short;

/// Returns the table of the start skews of each run's gangs. Empty if no gang has a start skew.
#[must_use]
pub fn gangs(reports: &[Report]) -> String {
    let all = reports.iter().flat_map(|report| report.groups.iter().map(move |group| (report, group)));
    let gangs: Vec<_> = all
        .filter_map(|(report, group)| Some((report, group, group.starts.filter(|starts| starts.start_skews > 0)?)))
        .collect();
    if gangs.is_empty() {
        return String::new();
    }
    const HEADER: [&str; 6] = ["", "policy", "start skew p50", "p99", "max", "periods"];
    let mut grid = Grid::new(HEADER.map(str::to_string).to_vec(), 2);
    for (report, group, starts) in gangs.iter().take(ROWS_MAX) {
        grid.add(vec![
            group.name.clone(),
            report.policy.clone(),
            short(starts.start_skew_p50_ns),
            short(starts.start_skew_p99_ns),
            short(starts.start_skew_max_ns),
            starts.start_skews.to_string(),
        ]);
    }
    format!("\nGangs, from the first start of a member in a period to the last:\n{grid}")
        + &and_more(gangs.len().saturating_sub(ROWS_MAX))
}
