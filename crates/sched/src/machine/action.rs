//! [`Action`]: the instructions to a driver, and how a kick reaches a CPU.

use crate::alarm::Alarm;
use crate::id::{CpuId, EntityId};
use crate::time::Instant;

/// An instruction to the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The entity that ran on `cpu` stops. All stops of an instant come before all runs.
    Stop {
        /// The CPU.
        cpu: CpuId,
        /// The entity.
        entity: EntityId,
    },
    /// `entity` runs on `cpu`, at most until `until`.
    Run {
        /// The CPU.
        cpu: CpuId,
        /// The entity.
        entity: EntityId,
        /// The end of its time slice; [`Instant::NEVER`] for none.
        until: Instant,
    },
    /// The entity running on `cpu` goes on; its time slice has another end.
    Extend {
        /// The CPU.
        cpu: CpuId,
        /// The new end.
        until: Instant,
    },
    /// Interrupt `cpu`; the driver answers with [`Input::Kicked`](super::Input::Kicked) afterwards.
    Kick {
        /// The CPU.
        cpu: CpuId,
    },
    /// `entity` is held for these reasons ([`Held`](crate::entity::Held) bits); 0: no longer.
    Held {
        /// The entity.
        entity: EntityId,
        /// The reasons.
        reasons: u8,
    },
    /// Set `alarm` to go off on CPU `on` at `at`; this replaces its previous time.
    SetAlarm {
        /// The alarm.
        alarm: Alarm,
        /// The CPU.
        on: CpuId,
        /// The instant.
        at: Instant,
    },
    /// Clear `alarm`.
    ClearAlarm {
        /// The alarm.
        alarm: Alarm,
    },
}

/// How a kick reaches a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicks {
    /// At once: the CPU picks in the same settle.
    Immediate,
    /// By the driver, which may take its time ([`Action::Kick`], [`Input::Kicked`](super::Input::Kicked)).
    Delivered,
}
