//! [`Costs`]: what scheduling costs on a machine. Data, never part of a policy.

use sched::Nanos;

/// The time that scheduling itself takes. All zero by default: an ideal machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Time a CPU needs to change over to another entity; it is spent, and charged, at the head of the run.
    pub context_switch: Nanos,
    /// Further time an entity needs when it runs on another CPU than last, to fill the cache.
    pub cache_refill: Nanos,
    /// Time from the asking to the arrival of a kick (inter-processor interrupt).
    pub kick: Nanos,
    /// Time an alarm or tick takes away from the entity that runs on its CPU.
    pub tick: Nanos,
    /// Grain of the timers that release jobs: a release comes at the next multiple.
    pub timer_slack: Nanos,
    /// Time that leaving a guest for its host and coming back takes (a VM exit and entry): paid by the vCPU where it halts, is
    /// interrupted or is sent on its way again.
    pub exit: Nanos,
    /// Time that a guest's call to its host takes (a hypercall): paid by the task that hands a paravirtual lock to a halted vCPU.
    pub hypercall: Nanos,
}

impl Costs {
    /// An ideal machine: everything is free.
    pub const NONE: Costs = Costs {
        context_switch: Nanos::ZERO,
        cache_refill: Nanos::ZERO,
        kick: Nanos::ZERO,
        tick: Nanos::ZERO,
        timer_slack: Nanos::ZERO,
        exit: Nanos::ZERO,
        hypercall: Nanos::ZERO,
    };
}
