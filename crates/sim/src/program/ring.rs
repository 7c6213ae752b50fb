//! [`Ring`]: a queue of packets that a task serves.

use super::length::Length;
use sched::Nanos;

/// When the server of a ring is notified of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// When it waits (notification suppression: virtio's event index, Xen's req_event).
    #[default]
    WhenIdle,
    /// Each time, even while it is busy.
    Always,
}

/// Packets that wait for a task to handle them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// The CPU time for each packet.
    pub cost: Length,
    /// The most packets that may wait; further ones are dropped. Range: 1 ….
    pub room: u32,
    /// When its server is notified.
    pub notify: Notify,
    /// The delay of a notification (interrupt coalescing).
    pub delay: Nanos,
    /// Whether its server notifies others at the end of a pass over the waiting packets, as in a softirq; otherwise after each packet.
    pub passes: bool,
    /// The CPU time that a notification costs a task of a guest, beside the hypercall: an exit to a process of the host.
    pub kick: Nanos,
}
