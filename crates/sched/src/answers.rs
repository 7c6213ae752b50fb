//! What a policy answers about one entity: [`PromiseState`] and [`Position`].

use crate::id::CpuId;
use crate::time::{Instant, Nanos, Virtual};

/// The current period of a promise of CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromiseState {
    /// CPU time per period. Range: 0 … `period`; 0 where the entity has a period and no time of its own in it.
    pub slice: Nanos,
    /// Range: 1 ns … [`SPAN_MAX`](crate::time::SPAN_MAX).
    pub period: Nanos,
    /// The instant by which the current slice is due. [`Instant::NEVER`] before the first period.
    pub deadline: Instant,
    /// CPU time left of the current slice, in nanoseconds, as of the last charge. Below zero after an overrun.
    pub remaining: i64,
}

/// The place of an entity in its policy's order, in the terms of that order. A guest's detector of urgent tasks reads
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Weighted fair queueing: the entity of least virtual run time is dispatched first.
    Fair(FairPosition),
    /// Earliest virtual deadline first.
    Deadline {
        /// The virtual deadline of the entity, on the clock of the machine.
        deadline: Instant,
        /// The time slice of normal tasks.
        slice: Nanos,
    },
    /// Levels that sleeps and time slices move: the boost of the entity, where less is more urgent.
    Boost(i32),
}

/// The place of an entity in a fair queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairPosition {
    /// The virtual run time of the entity.
    pub vruntime: Virtual,
    /// The least virtual run time of its run queue.
    pub min_vruntime: Virtual,
    /// By how much less virtual run time a task that wakes preempts this entity, at the weight of the entity.
    pub wakeup_granularity: Nanos,
    /// The time in which every runnable task runs once.
    pub latency: Nanos,
    /// The CPU of its run queue.
    pub cpu: CpuId,
}
