//! [`Stall`]: an application whose tasks all wait for each other.

use crate::Report;
use serde::Serialize;
use sim::Stuck;

/// An application that could not go on and waited until it was stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stall {
    /// When its last task began to wait, in nanoseconds.
    pub at_ns: u64,
    /// The machine that it is on.
    pub machine: String,
    /// Which task waits for what, a line each.
    pub waits: Vec<String>,
}

impl Stall {
    pub(crate) fn new(stuck: &Stuck) -> Stall {
        Stall { at_ns: stuck.at.as_ns(), machine: stuck.machine.clone(), waits: stuck.waits() }
    }
}

/// The stalls of runs; nothing if there are none.
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
