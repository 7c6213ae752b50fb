//! The names of the guardian: its command, and its process.

/// The hidden command that runs a process as the guardian.
pub const COMMAND: &str = "guardian";
/// The guardian's name in process lists.
pub(crate) const NAME: &str = "tactus-guardian";
