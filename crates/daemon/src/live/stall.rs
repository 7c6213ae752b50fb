//! [`Stall`]: fault injection for tests. A thread of the core stops to make progress at a given instant.

use sched::Nanos;
use serde::{Deserialize, Serialize};

/// A thread of the core that stalls, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stall {
    /// The thread.
    pub thread: StalledThread,
    /// Time from the start of the service to the stall. The thread stalls when it next begins to work.
    pub after: Nanos,
}

/// A thread that can stall.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StalledThread {
    /// An agent.
    Agent,
    /// An agent that has locked the dispatcher.
    Holder,
    /// The keeper.
    Keeper,
    /// The command thread.
    Commands,
}

impl StalledThread {
    /// All threads, with their names.
    pub const ALL: [(StalledThread, &'static str); 4] = [
        (StalledThread::Agent, "agent"),
        (StalledThread::Holder, "holder"),
        (StalledThread::Keeper, "keeper"),
        (StalledThread::Commands, "commands"),
    ];

    /// Maximum time from the stall until all threads are restored.
    #[must_use]
    pub fn restored_within(self) -> Nanos {
        match self {
            StalledThread::Agent | StalledThread::Holder => Nanos::s(1),
            // The guardian waits for 2 s and 5 s.
            StalledThread::Keeper => Nanos::s(3),
            StalledThread::Commands => Nanos::s(6),
        }
    }
}
