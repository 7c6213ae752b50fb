//! [`Domain`]: the state that the members of a group share.

use sched::Instant;

/// The record of a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    /// The weight of each member.
    pub(super) weight: u64,
    /// Percent of one CPU; `None`: no cap.
    pub(super) cap: Option<u32>,
    pub(super) members: u64,
    /// The budget that members can still take; negative after an overrun.
    pub(super) pool: i64,
    /// When the pool is filled next.
    pub(super) next_fill: Instant,
}
