//! [`State`], [`Span`], [`Job`]: what an entity does, for how long, and the work it completes.

use sched::{CpuId, Instant};

/// The state of an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It runs on this CPU.
    Running(CpuId),
    /// Its machine, a guest, runs it on this CPU, but the CPU is frozen: it makes no progress.
    Stolen(CpuId),
    /// It is runnable, and waits for a CPU.
    Waiting,
    /// It is runnable, and its policy keeps it from running for these reasons ([`sched::Held`] bits, not 0).
    Held(u8),
    /// It waits for something other than a CPU.
    Blocked,
}

/// A state with its interval: from `from` up to but without `to`, which is later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// The state.
    pub state: State,
}

/// A job and its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The instant of its release.
    pub released: Instant,
    /// Its deadline.
    pub deadline: Instant,
    /// The instant of its completion; otherwise the instant at which its entity was detached or the trace ended.
    pub ended: Instant,
    /// Whether it was completed.
    pub completed: bool,
}

impl Job {
    /// Whether it missed its deadline. A deadline at the end of the trace is not missed.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.ended > self.deadline
    }
}
