//! [`ResidentOptions`]: what a resident core needs besides its parameters.

use super::core_locks::CoreLocks;
use super::entrance::Entrance;
use super::handover::Replacement;
use crate::Explanation;

/// What a resident core needs besides its parameters.
pub struct ResidentOptions<'r> {
    /// The socket for the front ends, which are served one after another.
    pub entrance: &'r Entrance,
    /// Is called when the first front end can be served.
    pub ready: &'r dyn Fn(),
    /// How this program is replaced by another one.
    pub replacement: Replacement<'r>,
    /// Is called with the reason why this program could not be replaced.
    pub complain: &'r dyn Fn(&Explanation),
    /// The locks of the directory and of the host.
    pub locks: CoreLocks,
}

impl std::fmt::Debug for ResidentOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResidentOptions").field("entrance", &self.entrance).finish_non_exhaustive()
    }
}
