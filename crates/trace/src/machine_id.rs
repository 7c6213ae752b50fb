//! [`MachineId`]: the number of a machine in its world.

use std::fmt;

/// Maximum number of machines of a world: hundreds of guests on each of several hosts. The limit bounds the memory that
/// a damaged file can request.
pub const MACHINES_MAX: usize = 4096;

/// A machine of a world, by its index. The index of a host is lower than the indices of its guests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MachineId(pub u32);

impl MachineId {
    /// Returns the index of the machine.
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
