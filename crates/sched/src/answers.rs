//! The answers of a policy about an entity: [`PromiseState`] and [`Position`].

use crate::id::CpuId;
use crate::time::{Instant, Nanos, Virtual};

/// The state of a promise of CPU time in its current period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PromiseState {
    /// CPU time per period. Range: 0 … `period`; 0 if the entity has a period without a slice.
    pub slice: Nanos,
    /// Length of the period. Range: 1 ns … [`SPAN_MAX`](crate::time::SPAN_MAX).
    pub period: Nanos,
    /// Instant by which the current slice is due. [`Instant::NEVER`] before the first period.
    pub deadline: Instant,
    /// Unused CPU time of the current slice, in nanoseconds, as of the last charge. Below zero after an overrun.
    pub remaining: i64,
}

/// The position of an entity in its policy's order. Each variant is one kind of order. A guest's detector of urgent
/// tasks reads the position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Weighted fair queueing: the entity with the minimum virtual run time is dispatched first.
    Fair(FairPosition),
    /// Earliest virtual deadline first.
    Deadline {
        /// Virtual deadline of the entity, on the clock of the machine.
        deadline: Instant,
        /// Time slice of normal tasks.
        slice: Nanos,
    },
    /// Priority levels that change with sleeps and used time slices. The value is the boost of the entity. A lower
    /// boost is more urgent.
    Boost(i32),
}

/// The position of an entity in a fair queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairPosition {
    /// Virtual run time of the entity.
    pub vruntime: Virtual,
    /// Minimum virtual run time of the entity's run queue.
    pub min_vruntime: Virtual,
    /// Virtual run time by which the entity must be behind the running task to preempt that task at a wake-up. Scaled
    /// by the weight of the entity.
    pub wakeup_granularity: Nanos,
    /// Time in which every runnable task runs once.
    pub latency: Nanos,
    /// CPU of the entity's run queue.
    pub cpu: CpuId,
}
