//! [`MachineId`]: which machine of a world.

use std::fmt;

/// The most machines of a world: hundreds of guests on each of some hosts. It bounds the memory that a damaged file can ask for.
pub const MACHINES_MAX: usize = 4096;

/// A machine of a world: its index among them. A host comes before its guests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MachineId(pub u32);

impl MachineId {
    /// The index.
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
