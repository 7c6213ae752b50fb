//! [`Actor`]: a thread of Tactus with turns: it is woken, gets its CPU like any other thread, and then the driver of the world
//! executes its turn.

use sched::{CpuId, Instant};

/// What an actor does on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    /// It takes a turn.
    Turns,
    /// It wakes the agent of this CPU and sleeps: no more urgent thread wants the CPU.
    Sentinel(CpuId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Asleep,
    /// It is awake and has not had its CPU yet.
    Woken,
    /// It has its CPU, and its turn is due.
    Due,
    /// Its turn is being executed.
    Taking,
}

/// State of an actor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) duty: Duty,
    pub(super) stage: Stage,
    /// Whether it was woken again during its turn.
    pub(super) rung: bool,
    /// Whether a sentinel has reported its CPU as quiet.
    pub(super) quiet: bool,
    /// When its timer expires; NEVER: it is unarmed.
    pub(super) timer: Instant,
    /// When it should expire.
    pub(super) asked: Instant,
}

impl Actor {
    pub(super) const fn new(duty: Duty) -> Actor {
        Actor { duty, stage: Stage::Asleep, rung: false, quiet: false, timer: Instant::NEVER, asked: Instant::NEVER }
    }
}
