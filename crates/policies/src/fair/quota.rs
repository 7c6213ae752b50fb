//! [`Bandwidth`]: the quota of a group and its alarms.

use sched::{Alarm, AlarmOwner, GroupId, Instant, Nanos, Quota};

/// The slot of the refill timer, among the alarm slots of a group.
pub(crate) const PERIOD: u8 = 0;
/// The slot of the slack timer, among the alarm slots of a group.
pub(crate) const SLACK: u8 = 1;

/// The quota of a group, and the part that is left in the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth {
    pub(super) id: GroupId,
    pub(super) quota: Option<Quota>,
    pub(super) pool: Nanos,
    /// Whether no CPU has taken quota since the last refill.
    pub(super) idle: bool,
    /// The period boundary for which the alarm was last set; quota periods are counted from this boundary.
    pub(super) boundary: Instant,
    /// First throttled queue; the others follow in `next_throttled`. The queue throttled longest is first.
    pub(super) first: Option<usize>,
    pub(super) last: Option<usize>,
}

impl Bandwidth {
    pub(super) const fn unlimited(id: GroupId) -> Bandwidth {
        let (pool, boundary) = (Nanos::ZERO, Instant::ZERO);
        Bandwidth { id, quota: None, pool, idle: false, boundary, first: None, last: None }
    }

    pub(super) const fn alarm(&self, slot: u8) -> Alarm {
        Alarm { owner: AlarmOwner::Group(self.id), slot }
    }
}
