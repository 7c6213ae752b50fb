//! The list of stalled applications.

use crate::run_report::Report;
use crate::stalls::Stall;

/// Returns the stalls of runs. Empty without stalls.
#[must_use]
pub fn stalls(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let under = if reports.len() > 1 { format!(" under {}", report.policy) } else { String::new() };
        for Stall { at_ns, machine, waits } in &report.stalls {
            let at = sched::Instant::at_ns(*at_ns);
            text += &format!("\nFrom {at} on, all tasks of an application on {machine} wait for each other{under}:\n");
            waits.iter().for_each(|line| text += &format!("  {line}\n"));
        }
    }
    text
}
