//! [`Actor`]: a thread of Tactus with turns. An actor is woken, gets its CPU like any other thread, and then the driver
//! of the world executes its turn.

use sched::{CpuId, Instant};

/// Activity of an actor on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    /// The actor takes a turn.
    Turns,
    /// The actor wakes the agent of this CPU and sleeps: no more urgent thread wants the CPU.
    Sentinel(CpuId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Asleep,
    /// The actor is awake and has not had its CPU yet.
    Woken,
    /// The actor has its CPU, and its turn is due.
    Due,
    /// The turn of the actor is being executed.
    Taking,
}

/// State of an actor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) duty: Duty,
    pub(super) stage: Stage,
    /// Whether the actor was woken again during its turn.
    pub(super) rung: bool,
    /// Whether a sentinel has reported the actor's CPU as quiet.
    pub(super) quiet: bool,
    /// Instant when the actor's timer expires; NEVER: the timer is unarmed.
    pub(super) timer: Instant,
    /// Instant when the timer should expire.
    pub(super) asked: Instant,
}

impl Actor {
    pub(super) const fn new(duty: Duty) -> Actor {
        Actor { duty, stage: Stage::Asleep, rung: false, quiet: false, timer: Instant::NEVER, asked: Instant::NEVER }
    }
}
