//! [`Actor`]: a thread of Tactus that takes turns. After a wake-up, an actor waits for a CPU under the policy, like any
//! other thread. Once the actor has a CPU, the caller of `run_until` executes the actor's turn.

use sched::{CpuId, Instant};

/// Activity of an actor on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    /// The actor takes a turn.
    Turns,
    /// The actor is a sentinel: the actor wakes the agent of this CPU and sleeps. A sentinel runs only when no more
    /// urgent thread wants the CPU.
    Sentinel(CpuId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Asleep,
    /// The actor is awake and has not received a CPU yet.
    Woken,
    /// The actor has a CPU, and its turn is due.
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
    /// Instant at which the actor's timer expires; NEVER: the timer is unarmed.
    pub(super) timer: Instant,
    /// Instant for which the actor armed the timer, without the simulated lateness.
    pub(super) asked: Instant,
}

impl Actor {
    pub(super) const fn new(duty: Duty) -> Actor {
        Actor { duty, stage: Stage::Asleep, rung: false, quiet: false, timer: Instant::NEVER, asked: Instant::NEVER }
    }
}
