//! [`Stall`]: an application whose tasks all wait for each other.

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
