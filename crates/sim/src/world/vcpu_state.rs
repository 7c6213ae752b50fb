//! [`Vcpu`]: the state of a vCPU between its guest and its host.

use crate::guest::HaltPolling;
use sched::{CpuId, EntityId, Instant, Nanos};
use trace::MachineId;

/// The state of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// The vCPU has halted.
    Halted,
    /// The vCPU waits for a CPU, or has a CPU and is about to enter its guest.
    Ready,
    /// The vCPU has a CPU and is in its guest.
    Runs,
    /// The vCPU has a CPU, is idle, and is about to halt.
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
    /// Instant since which the vCPU has been idle or halted, or has waited for a CPU or for its entry.
    pub(super) since: Instant,
    /// Polling time before a halt, adapted to earlier halts.
    pub(super) poll: Nanos,
    pub(super) polled: Nanos,
    /// Whether a sibling may yield to the vCPU although the vCPU itself yielded because it spins. Toggles each time a
    /// spinning sibling considers such a vCPU.
    pub(super) eligible: bool,
    /// Whether the vCPU may be polling. Only `World::cut_polls` resets the flag.
    pub(super) polls: bool,
    /// Whether the vCPU yielded because it spins, and has not run since.
    pub(super) spins: bool,
    /// Instant of the vCPU's last yield.
    pub(super) yielded: Instant,
}

impl Vcpu {
    /// Returns the guest and the CPU of the guest that the vCPU represents.
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

    /// Adapts the polling time after a halt that lasted `halted`, including the polling.
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
