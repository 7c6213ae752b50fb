//! The names of the guardian: its command, its process, and its control groups.

/// The hidden command that runs a process as the guardian.
pub const COMMAND: &str = "guardian";
/// The guardian's name in process lists.
pub(crate) const NAME: &str = "tactus-guardian";
/// Prefix of the names of the guardians' control groups.
pub(crate) const GROUP: &str = "tactus-guardian";
/// Name of the keeper.
pub(crate) const KEEPER: &str = "tactus-keeper";
/// Prefix of the name of an agent, which the number of its CPU follows.
pub(crate) const AGENT_PREFIX: &str = "tactus-agent-";
