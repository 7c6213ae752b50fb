//! A world of several machines: hosts, and guests whose CPUs are entities of a host. Each machine tells its own events, in its own ids;
//! a [`WorldSink`] is told by which.

use crate::{Event, Header};
use sched::Instant;
use std::fmt;

/// A machine of a world: its place among them, a host before its guests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MachineId(pub u32);

impl MachineId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// What a trace says about one machine of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineHeader {
    /// What people call it: `host`, or the name of the VM.
    pub name: String,
    /// As of a machine by itself.
    pub header: Header,
    /// Of a guest, its host.
    pub host: Option<MachineId>,
}

/// What a trace says about a world as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorldHeader {
    /// By [`MachineId`].
    pub machines: Vec<MachineHeader>,
}

/// Where the events of a world go, in the order in which they happen.
pub trait WorldSink {
    /// One more event of `machine`.
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event);
}
