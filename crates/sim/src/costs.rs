//! [`Costs`]: the costs of scheduling on a machine. Costs are data, never part of a policy.

use sched::Nanos;

/// The time that scheduling itself takes. All costs are zero by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Time that a CPU needs to switch to another entity. The entity makes no progress during this time.
    pub context_switch: Nanos,
    /// Further time that an entity needs to fill the cache when it runs on a CPU other than its last CPU.
    pub cache_refill: Nanos,
    /// Time from the request to the arrival of a kick (inter-processor interrupt).
    pub kick: Nanos,
    /// Time that an alarm or tick takes from the entity on its CPU.
    pub tick: Nanos,
    /// Resolution of the timers that release jobs and end sleeps: a timer expires at the next multiple of this value,
    /// for example at the next tick of a kernel without high-resolution timers. Zero: a timer expires when it is due.
    pub timer_resolution: Nanos,
    /// Time for which a timer of a task outside the real-time classes may be delayed after its expiry (Linux timer
    /// slack). The timer fires with the first timer interrupt of its CPU within this time, and otherwise at its end.
    pub timer_slack: Nanos,
    /// Time of a VM exit and entry. The vCPU pays this time when it halts, is interrupted, or enters its guest after it
    /// received a CPU.
    pub exit: Nanos,
    /// Time of a hypercall. A task of a guest pays this time when it hands a paravirtual lock to a waiter whose vCPU
    /// has no CPU, notifies the server of a ring, or reports to its host by a hypercall.
    pub hypercall: Nanos,
    /// Time for which a CPU handles releases and ends of jobs, one after another.
    pub handling: Handling,
}

/// The time for which a CPU handles the events of its jobs ([`Step::Jobs`](crate::Step::Jobs)), as in SimSo 0.8.5.
///
/// An activation, a completion or an abort of a job interrupts the CPU, even if the same job continues afterwards. The
/// CPU saves the context of the interrupted job, handles the event, decides, and loads the context of the next job.
/// Events that arrive before the load are handled in the same interruption. A load in progress is completed first. The
/// machine must have one CPU: SimSo serialises the decisions of several CPUs by a lock, and Tactus does not.
///
/// Source: SimSo 0.8.5, simso/core/Processor.py, `Processor.run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handling {
    /// Time to save the context of an interrupted job (`cs_overhead`).
    pub save: Nanos,
    /// Time to load the context of a job (`cl_overhead`).
    pub load: Nanos,
    /// Time to handle an activation (`overhead_activate`).
    pub activation: Nanos,
    /// Time to handle a completion or an abort (`overhead_terminate`).
    pub termination: Nanos,
    /// Time of each decision (`overhead`). Each activation, completion and abort is followed by a decision.
    pub decision: Nanos,
}

impl Handling {
    /// Handling takes no time.
    pub const NONE: Handling = Handling {
        save: Nanos::ZERO,
        load: Nanos::ZERO,
        activation: Nanos::ZERO,
        termination: Nanos::ZERO,
        decision: Nanos::ZERO,
    };
}

impl Costs {
    /// No costs: scheduling takes no time.
    pub const NONE: Costs = Costs {
        context_switch: Nanos::ZERO,
        cache_refill: Nanos::ZERO,
        kick: Nanos::ZERO,
        tick: Nanos::ZERO,
        timer_resolution: Nanos::ZERO,
        timer_slack: Nanos::ZERO,
        exit: Nanos::ZERO,
        hypercall: Nanos::ZERO,
        handling: Handling::NONE,
    };
}
