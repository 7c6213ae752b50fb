//! The state of an entity: [`State`], and the reasons for a hold, [`Held`].

use crate::id::CpuId;

/// The scheduling state of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The entity waits for something other than a CPU.
    Blocked,
    /// The entity waits for a CPU or is held.
    Waiting,
    /// The entity runs on this CPU.
    Running(CpuId),
}

/// The reason why a policy holds an entity that is ready to run. A held entity is neither waiting nor blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Held {
    /// The quota of a group that contains the entity (CFS bandwidth) or the runtime of the real-time class (RT
    /// throttling) is used up.
    Throttled = 1,
    /// The group is above its cap (Credit, Credit2).
    Parked = 2,
    /// The entity's reservation has no slice left until its next period, and the entity does not compete for unreserved
    /// time.
    Depleted = 4,
    /// The siblings of the entity lag (co-scheduling).
    CoStopped = 8,
}

impl Held {
    /// Every reason, in the order of the bits.
    pub const ALL: [Held; 4] = [Held::Throttled, Held::Parked, Held::Depleted, Held::CoStopped];

    /// Returns the name of the reason in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Held::Throttled => "throttled",
            Held::Parked => "parked",
            Held::Depleted => "depleted",
            Held::CoStopped => "co-stopped",
        }
    }
}
