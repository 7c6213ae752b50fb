//! [`Ring`]: a queue of packets that a task serves.

use super::length::Length;
use sched::Nanos;

/// The condition under which the server of a ring is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// A packet arrives while the server waits (notification suppression: virtio's event index, Xen's req_event).
    #[default]
    WhenIdle,
    /// A packet arrives, even while the server is busy.
    Always,
}

/// A queue of packets that wait for a server task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// CPU time for each packet.
    pub cost: Length,
    /// Maximum number of waiting packets. Further packets are dropped. Range: 1 ….
    pub room: u32,
    /// Condition for notifying the server.
    pub notify: Notify,
    /// Delay of a notification (interrupt coalescing).
    pub delay: Nanos,
    /// Whether the server notifies receivers at the end of a pass over the waiting packets, as in a softirq. Otherwise
    /// the server notifies after each packet.
    pub passes: bool,
    /// CPU time that a guest's task needs for a notification in addition to the hypercall, when the vCPU exits to a
    /// process of the host.
    pub kick: Nanos,
}
