//! [`Fault`]: fault injection for tests. A thread of the core stalls, or a system call of the core fails.

use sched::Nanos;
use serde::{Deserialize, Serialize};
use sys::clock;
use sys::failing::{Call, Errno};

/// A fault of the core.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// Time from the start of the service to the fault.
    pub after: Nanos,
}

/// What happens in a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultKind {
    /// The thread stalls, once. It stalls when it next begins to work.
    Stall(StalledThread),
    /// From then on, the call fails in all threads of the core, and in a guardian that starts later.
    Fail {
        /// Name of the system call, of [`Call::ALL`].
        call: String,
        /// Name of the error, of [`Errno::ALL`].
        error: String,
    },
}

impl Fault {
    /// Lets the call of the fault fail at its time. After 0, it fails before this function returns.
    ///
    /// # Panics
    /// Panics in the thread that waits for the time if the kernel refuses the filter, and at once if there is no such call
    /// or error.
    pub(super) fn begin_failing(&self) {
        let FaultKind::Fail { call, error } = &self.kind else { return };
        let call = Call::find(call).expect("the front end knows the call");
        let error = Errno::find(error).expect("the front end knows the error");
        let (at, fail) = (clock::now().saturating_add(self.after), move || call.fail(error).expect("a filter is set"));
        if self.after == Nanos::ZERO {
            return fail();
        }
        std::thread::spawn(move || {
            clock::sleep(at.saturating_since(clock::now()));
            fail();
        });
    }

    /// Returns the thread that stalls, if one does.
    pub(super) fn stalled(&self) -> Option<StalledThread> {
        match self.kind {
            FaultKind::Stall(thread) => Some(thread),
            FaultKind::Fail { .. } => None,
        }
    }
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
