//! What the class promises of itself whatever its rule: how soon idle CPUs find work, and how exact quotas are.

use super::tunables::{CACHE_NICE_TRIES, MIGRATE_MOST};
use sched::{Conserving, LoadBounds, Nanos};

/// An idle CPU is called at a tick of the CPU where work waits. That tick comes within one tick; it looks at 32 tasks,
/// and the ones it can do nothing for are looked at last at the next one. A cache-hot task goes at the third call, so
/// each call may fail twice. Where there are quotas, a task may be kept from an idle CPU by its group being throttled
/// there: nothing is promised then.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_limits {
        return Conserving::Never;
    }
    let looks = load.entities / MIGRATE_MOST as u64 + 1;
    let calls = u64::from(CACHE_NICE_TRIES) + 2;
    let tick = load.knobs.time("tick");
    Conserving::Global { slack: tick.saturating_mul(1 + looks * calls) }
}

/// Every CPU may hold a bite of the pool, and notices at a tick that it is used up.
pub(crate) fn quota(load: &LoadBounds<'_>) -> Option<Nanos> {
    let bite = load.knobs.time("bandwidth-slice") + load.knobs.time("tick");
    Some(bite.saturating_mul(load.host.cpus as u64 + 1))
}
