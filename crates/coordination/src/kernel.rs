//! [`Kernel`]: what a [`Detector`](crate::Detector) learns from the kernel of its guest.

use sched::{CpuId, EntityId, Instant, Machine, Nanos, Params, Position, State};

/// The kernel of a guest. A simulated kernel is a [`Machine`].
pub trait Kernel {
    /// Returns the time of the guest's clock.
    fn now(&self) -> Instant;

    /// Returns the number of the guest's CPUs.
    fn cpus(&self) -> usize;

    /// Returns the number of CPUs that the affinity of the task, which exists, allows.
    fn allowed(&self, task: EntityId) -> usize;

    /// Returns whether the task exists.
    fn has(&self, task: EntityId) -> bool;

    /// Returns whether the task, which exists, is blocked.
    fn is_blocked(&self, task: EntityId) -> bool;

    /// Returns whether the task, which exists, is runnable and waits for a CPU.
    fn is_waiting(&self, task: EntityId) -> bool;

    /// Returns the task that runs on the CPU.
    fn running(&self, cpu: CpuId) -> Option<EntityId>;

    /// Returns the CPU on which the task, which exists, runs, or ran last.
    fn last_cpu(&self, task: EntityId) -> CpuId;

    /// Returns the CPU time that the kernel has charged to the task, which exists.
    fn charged(&self, task: EntityId) -> Nanos;

    /// Returns the parameters of the task, which exists.
    fn params(&self, task: EntityId) -> &Params;

    /// Returns the position of the task in the queue of its policy, if the policy shows it. The rules `cfs` and `bfs`
    /// need it.
    fn position(&self, task: EntityId) -> Option<Position>;

    /// Returns whether the guest's policy treats the task as interactive. The rule `bmq` needs it.
    fn is_interactive(&self, task: EntityId) -> bool;
}

impl Kernel for Machine {
    fn now(&self) -> Instant {
        Machine::now(self)
    }

    fn cpus(&self) -> usize {
        self.topology().cpus
    }

    fn allowed(&self, task: EntityId) -> usize {
        Machine::params(self, task).affinity.and(&self.topology().all()).len()
    }

    fn has(&self, task: EntityId) -> bool {
        self.is_attached(task)
    }

    fn is_blocked(&self, task: EntityId) -> bool {
        self.state(task) == State::Blocked
    }

    fn is_waiting(&self, task: EntityId) -> bool {
        self.state(task) == State::Waiting
    }

    fn running(&self, cpu: CpuId) -> Option<EntityId> {
        Machine::running(self, cpu)
    }

    fn last_cpu(&self, task: EntityId) -> CpuId {
        Machine::last_cpu(self, task)
    }

    fn charged(&self, task: EntityId) -> Nanos {
        Machine::charged(self, task)
    }

    fn params(&self, task: EntityId) -> &Params {
        Machine::params(self, task)
    }

    fn position(&self, task: EntityId) -> Option<Position> {
        Machine::position(self, task)
    }

    fn is_interactive(&self, task: EntityId) -> bool {
        self.interactive(task)
    }
}
