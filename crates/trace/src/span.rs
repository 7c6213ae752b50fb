//! [`State`], [`Span`], [`Job`]: the states of an entity with their intervals, and its jobs.

use sched::{CpuId, Instant};

/// The state of an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// The entity runs on this CPU.
    Running(CpuId),
    /// The guest runs the entity on this CPU, but the CPU is frozen. The entity makes no progress.
    Stolen(CpuId),
    /// The entity is ready to run and waits for a CPU.
    Waiting,
    /// The entity is ready to run, but its policy holds the entity for these reasons ([`sched::Held`] bits, not 0).
    Held(u8),
    /// The entity waits for an event other than a free CPU.
    Blocked,
}

/// A state with its interval, from `from` (inclusive) to `to` (exclusive). `to` is later than `from`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Start of the state.
    pub from: Instant,
    /// End of the state.
    pub to: Instant,
    /// State of the entity.
    pub state: State,
}

/// A job and its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Instant of the job's release.
    pub released: Instant,
    /// Deadline of the job.
    pub deadline: Instant,
    /// Instant of the job's completion. For an incomplete job, the instant when the entity was detached, or the end of
    /// the trace.
    pub ended: Instant,
    /// Whether the job was completed.
    pub completed: bool,
}

impl Job {
    /// Returns whether the job missed its deadline. An incomplete job missed its deadline only if the deadline is
    /// before `ended`.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.ended > self.deadline
    }
}
