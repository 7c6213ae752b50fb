//! [`Ring`]: a queue of packets that a task serves.

use super::length::Length;
use sched::Nanos;

/// When whoever serves a ring is told that something has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// When it waits for something (notification suppression: virtio's event index, Xen's req_event).
    #[default]
    WhenIdle,
    /// Each time: whoever is at work already is interrupted for nothing.
    Always,
}

/// Packets that wait for a task to handle them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// CPU time that each takes.
    pub cost: Length,
    /// How many may wait; more are dropped. Range: 1 ….
    pub room: u32,
    /// When its server is told.
    pub notify: Notify,
    /// How much later, so that more may come meanwhile (interrupt coalescing).
    pub delay: Nanos,
    /// Whether its server tells others of what it sent on only at the end of a pass over all that waited when that began, as what runs
    /// in a softirq does; else at once of each.
    pub passes: bool,
    /// CPU time that a task of a guest needs to tell it, beside the call to its host: an exit as far as a process of that.
    pub kick: Nanos,
}
