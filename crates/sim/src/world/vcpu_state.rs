//! [`Vcpu`]: a vCPU between its guest and its host.

use crate::guest::HaltPolling;
use sched::{CpuId, EntityId, Instant, Nanos};
use trace::MachineId;

/// The state of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It has halted.
    Halted,
    /// It waits for a CPU.
    Ready,
    /// It has a CPU.
    Runs,
    /// It has one, is idle, and is about to halt.
    Halts,
}

/// A vCPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) host: MachineId,
    pub(super) entity: EntityId,
    pub(super) guest: MachineId,
    pub(super) cpu: CpuId,
    pub(super) doing: Doing,
    /// Since when it has had no CPU, or has been idle.
    pub(super) since: Instant,
    /// How long it polls before it halts, adapted to earlier halts.
    pub(super) poll: Nanos,
    pub(super) polled: Nanos,
    /// Whether it may be yielded to although it spins itself: every second time.
    pub(super) eligible: bool,
    /// Whether it may be polling. It is reset lazily, when polls are examined.
    pub(super) polls: bool,
    /// Whether it yielded because it spins, and has not run since.
    pub(super) spins: bool,
    /// When it last yielded.
    pub(super) yielded: Instant,
}

impl Vcpu {
    /// The guest and the CPU of the guest that it is.
    pub(super) fn place(&self) -> (MachineId, CpuId) {
        (self.guest, self.cpu)
    }

    pub(super) fn new(host: MachineId, entity: EntityId, guest: MachineId, cpu: CpuId, now: Instant) -> Vcpu {
        Vcpu {
            host,
            entity,
            guest,
            cpu,
            doing: Doing::Halted,
            since: now,
            poll: Nanos::ZERO,
            polled: Nanos::ZERO,
            eligible: false,
            polls: false,
            spins: false,
            yielded: Instant::NEVER,
        }
    }

    /// Adapts the polling time after a halt of `halted`, polling included.
    pub(super) fn learn(&mut self, halted: Nanos, polling: HaltPolling) {
        let HaltPolling { most, grow_start, grow, shrink } = polling;
        if halted <= self.poll {
            return;
        }
        if !self.poll.is_zero() && halted > most {
            let shrunk = if shrink == 0 { Nanos::ZERO } else { Nanos::ns(self.poll.as_ns() / u64::from(shrink)) };
            self.poll = if shrunk < grow_start { Nanos::ZERO } else { shrunk };
        } else if self.poll < most && halted < most {
            let grown = if self.poll.is_zero() { grow_start } else { self.poll.saturating_mul(u64::from(grow)) };
            self.poll = grown.min(most);
        }
    }
}
