//! The state of an entity: [`State`], and the reasons for a hold, [`Held`].

use crate::id::CpuId;

/// Where an entity is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It waits for something other than a CPU.
    Blocked,
    /// It waits for a CPU (or is held).
    Waiting,
    /// It runs on this CPU.
    Running(CpuId),
}

/// The reason why a policy holds an entity that is ready to run: it is neither waiting nor blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Held {
    /// A quota is used up (CFS bandwidth, RT throttling).
    Throttled = 1,
    /// The group is above its cap (Credit).
    Parked = 2,
    /// The slice of its hard reservation is used up.
    Depleted = 4,
    /// Its siblings lag (co-scheduling).
    CoStopped = 8,
}

impl Held {
    /// Every reason, in the order of their bits.
    pub const ALL: [Held; 4] = [Held::Throttled, Held::Parked, Held::Depleted, Held::CoStopped];

    /// The name a trace uses.
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
