//! [`Shape`]: the division of the run queue among CPUs.

use sched::EntityId;

/// The division of the run queue among CPUs.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// One run queue for all CPUs, with sticky entities: BFS.
    Global,
    /// One run queue for each group of CPUs: MuQSS.
    Parts(Parts),
}

/// The settings and state that MuQSS adds.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) queue_of: Vec<usize>,
    /// Whether every pick searches all run queues.
    pub(crate) interactive: bool,
    pub(crate) yields: Yields,
    /// Minimum difference of nice levels at which a running entity keeps an entity with the higher level off its
    /// sibling threads. An entity of a more urgent rank always does so. `None`: sibling threads have no effect.
    pub(crate) smt_nice: Option<i32>,
    /// Entity whose yield was ignored, by CPU.
    pub(crate) ignored_yields: Vec<Option<EntityId>>,
}

/// The effect of a yield in MuQSS. Source: `sched_yield_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Yields {
    Ignored,
    /// Waiting entities that are at least as urgent as the yielding entity run first.
    ToBetter,
    /// The yielding entity receives a new time slice and a new deadline.
    Expire,
}
