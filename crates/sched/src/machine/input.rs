//! [`Input`]: the facts that a driver reports.

use crate::alarm::Alarm;
use crate::id::{CpuId, EntityId};
use crate::policy::{Notice, Wake};
use crate::time::Nanos;

/// A fact the driver reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A blocked entity wants to run.
    Wake {
        /// The entity.
        entity: EntityId,
        /// The cause.
        why: Wake,
    },
    /// An event for an entity that is waiting or running.
    Event {
        /// The entity.
        entity: EntityId,
        /// The event.
        what: Notice,
    },
    /// The entity running on `cpu` waits for something other than a CPU.
    Block {
        /// The CPU.
        cpu: CpuId,
    },
    /// The entity running on `cpu` yields.
    Yield {
        /// The CPU.
        cpu: CpuId,
    },
    /// The entity running on `cpu` yields to another one.
    YieldTo {
        /// The CPU.
        cpu: CpuId,
        /// The entity that should run instead.
        to: EntityId,
    },
    /// The time slice on `cpu` is over.
    Expire {
        /// The CPU.
        cpu: CpuId,
    },
    /// A kick has arrived at `cpu`.
    Kicked {
        /// The CPU.
        cpu: CpuId,
    },
    /// An alarm is due.
    Alarm {
        /// The alarm.
        alarm: Alarm,
    },
    /// An entity is paused, in any state: it is blocked until it wakes again.
    Pause {
        /// The entity.
        entity: EntityId,
    },
    /// CPU time of the entity running on `cpu` since its last charge, at most the time that has passed. The rest went
    /// to interrupts, a hypervisor or the driver. A driver that cannot measure it omits this input; then all passed
    /// time is charged.
    Ran {
        /// The CPU.
        cpu: CpuId,
        /// The CPU time.
        time: Nanos,
    },
    /// `cpu` is a vCPU that has no physical CPU from now on. Until it thaws it gets no put, no pick and no charge, and
    /// everything due there waits.
    Freeze {
        /// The CPU.
        cpu: CpuId,
        /// Whether the policy learns that the CPU was taken away ([`Cx::preempted`](crate::cx::Cx::preempted)). False where the vCPU has halted, and in a
        /// guest that cannot tell the two apart.
        preempted: bool,
    },
    /// `cpu` thaws.
    Thaw {
        /// The CPU.
        cpu: CpuId,
        /// The steal time of the freeze: the entity running there is not charged for it.
        stolen: Nanos,
    },
}
