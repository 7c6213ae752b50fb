//! The runtime of real-time entities in each period: [`Limit`] of a machine, [`Budget`] of a CPU.

use sched::{Alarm, AlarmOwner, Nanos};

/// The timer at the end of the period, one for all CPUs, as in the kernel.
pub(super) const PERIOD: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

/// The limit on the runtime in each period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) period: Nanos,
    pub(super) runtime: Nanos,
    /// Whether a CPU borrows unused runtime from other CPUs.
    pub(super) shared: bool,
}

/// The budget of a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Time that real-time and deadline entities have used in this period, plus the overrun of earlier periods.
    pub(super) used: Nanos,
    /// Time that real-time entities may use, including borrowed and excluding lent runtime.
    pub(super) runtime: Nanos,
}

impl Limit {
    pub(super) fn budget(&self) -> Budget {
        Budget { used: Nanos::ZERO, runtime: self.runtime }
    }
}
