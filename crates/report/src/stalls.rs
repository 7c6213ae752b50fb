//! [`Stall`]: an application whose tasks all wait for each other.

use serde::Serialize;
use sim::Stuck;

/// An application whose tasks waited for each other until the duration of the application ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stall {
    /// Instant at which the application's last task began to wait. Unit: nanoseconds.
    pub at_ns: u64,
    /// Machine of the application.
    pub machine: String,
    /// Waiting tasks and the objects that they wait for, one task per line.
    pub waits: Vec<String>,
}

impl Stall {
    pub(crate) fn new(stuck: &Stuck) -> Stall {
        Stall { at_ns: stuck.at.as_ns(), machine: stuck.machine.clone(), waits: stuck.waits() }
    }
}
