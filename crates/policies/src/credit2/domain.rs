//! [`Domain`]: the state that the members of a group share.

use sched::Instant;

/// The record of a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    /// Weight of each member.
    pub(super) weight: u64,
    /// Cap of the domain in percent of one CPU; `None`: no cap.
    pub(super) cap: Option<u32>,
    pub(super) members: u64,
    /// Budget that members can still take; negative after an overrun.
    pub(super) pool: i64,
    /// Instant of the next filling of the pool.
    pub(super) next_fill: Instant,
}
