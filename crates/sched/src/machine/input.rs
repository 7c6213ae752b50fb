//! [`Input`]: the facts that a driver reports.

use crate::alarm::Alarm;
use crate::id::{CpuId, EntityId};
use crate::policy::{Notice, Wake};
use crate::time::Nanos;

/// A fact that the driver reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Input {
    /// A wake-up: a blocked entity becomes runnable.
    Wake {
        /// Entity that wakes.
        entity: EntityId,
        /// Cause of the wake-up.
        why: Wake,
    },
    /// An event for an entity that is not blocked.
    Event {
        /// Entity that the event is for.
        entity: EntityId,
        /// Event for the entity.
        what: Notice,
    },
    /// The entity running on `cpu` waits for something other than a CPU.
    Block {
        /// CPU of the entity.
        cpu: CpuId,
    },
    /// The entity running on `cpu` yields.
    Yield {
        /// CPU of the entity that yields.
        cpu: CpuId,
    },
    /// The entity running on `cpu` yields to another entity.
    YieldTo {
        /// CPU of the entity that yields.
        cpu: CpuId,
        /// Entity that should run instead.
        to: EntityId,
    },
    /// The time slice on `cpu` is over.
    Expire {
        /// CPU whose time slice is over.
        cpu: CpuId,
    },
    /// A kick has arrived at `cpu`.
    Kicked {
        /// CPU that the kick reached.
        cpu: CpuId,
    },
    /// An alarm is due.
    Alarm {
        /// Alarm that is due.
        alarm: Alarm,
    },
    /// An entity, in any state, is paused. The entity is blocked until its next wake-up.
    Pause {
        /// Entity that is paused.
        entity: EntityId,
    },
    /// CPU time of the entity running on `cpu` since its last charge, at most the elapsed time. Interrupts, a
    /// hypervisor or the driver used the rest of the elapsed time. A driver that cannot measure CPU time omits this
    /// input. In this case, all elapsed time is charged.
    Ran {
        /// CPU of the running entity.
        cpu: CpuId,
        /// CPU time of the entity.
        time: Nanos,
    },
    /// `cpu` is a vCPU that has no physical CPU from now on. Until the thaw, no put, no pick and no charge happens on
    /// the CPU. The driver defers the kicks, alarms and ends of time slices of the CPU.
    Freeze {
        /// CPU that freezes.
        cpu: CpuId,
        /// Whether the policy is informed that the CPU was taken away ([`Cx::preempted`](crate::cx::Cx::preempted)).
        /// False for a halted vCPU, and in a guest that cannot distinguish preemption from a halt.
        preempted: bool,
    },
    /// `cpu` thaws.
    Thaw {
        /// CPU that thaws.
        cpu: CpuId,
        /// Steal time of the freeze. The entity running on the CPU is not charged for this time.
        stolen: Nanos,
    },
}
