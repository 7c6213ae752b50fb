//! [`Action`]: the instructions to a driver, and the delivery of a kick to a CPU.

use crate::alarm::Alarm;
use crate::id::{CpuId, EntityId};
use crate::time::Instant;

/// An instruction to the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// The entity that ran on `cpu` stops. All stops of a settle precede all runs.
    Stop {
        /// CPU that becomes free.
        cpu: CpuId,
        /// Entity that stops.
        entity: EntityId,
    },
    /// `entity` runs on `cpu`, at most until `until`.
    Run {
        /// CPU that runs the entity.
        cpu: CpuId,
        /// Entity that runs.
        entity: EntityId,
        /// End of the time slice; [`Instant::NEVER`] for an unlimited time slice.
        until: Instant,
    },
    /// The entity running on `cpu` continues; its time slice has a new end.
    Extend {
        /// CPU of the time slice.
        cpu: CpuId,
        /// New end of the time slice.
        until: Instant,
    },
    /// Interrupt `cpu`; the driver reports [`Input::Kicked`](super::Input::Kicked) when the interrupt arrives.
    Kick {
        /// CPU to interrupt.
        cpu: CpuId,
    },
    /// `entity` is held for these reasons ([`Held`](crate::entity::Held) bits); 0: the hold ends.
    Held {
        /// Entity that is held or released.
        entity: EntityId,
        /// Reasons of the hold.
        reasons: u8,
    },
    /// Set `alarm` to fire on CPU `on` at `at`. The previous time of the alarm is replaced.
    SetAlarm {
        /// Alarm to set.
        alarm: Alarm,
        /// CPU on which the alarm fires.
        on: CpuId,
        /// Instant at which the alarm fires.
        at: Instant,
    },
    /// Clear `alarm`.
    ClearAlarm {
        /// Alarm to clear.
        alarm: Alarm,
    },
}

/// The delivery of a kick to a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicks {
    /// Without delay: the CPU picks in the settle of the same instant. The driver delivers only kicks of frozen CPUs.
    Immediate,
    /// By the driver, after any delay ([`Action::Kick`], [`Input::Kicked`](super::Input::Kicked)).
    Delivered,
}
