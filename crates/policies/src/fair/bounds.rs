//! The guarantees of the fair class that hold under every rule: the time until idle CPUs find work, and the accuracy of
//! quotas.

use super::tunables::{CACHE_NICE_TRIES, MIGRATE_MOST};
use sched::{Conserving, LoadBounds, Nanos};

/// Returns the time until an idle CPU finds waiting work. An idle CPU is kicked at a tick of the CPU where a task
/// waits, within one tick period. Per kick, the idle CPU examines at most 32 tasks. A task that cannot move is examined
/// last at the next kick. A cache-hot task moves only at the third kick that examines the task. With quotas, a group
/// may be throttled on the idle CPU, and its tasks cannot move there. There is no bound in this case.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_limits {
        return Conserving::Never;
    }
    let looks = load.entities / MIGRATE_MOST as u64 + 1;
    let calls = u64::from(CACHE_NICE_TRIES) + 2;
    let tick = load.knobs.time("tick");
    Conserving::Global { slack: tick.saturating_mul(1 + looks * calls) }
}

/// Returns the maximum excess over a quota. Every CPU may hold a bandwidth slice from the pool, and detects only at a
/// tick that the slice is used up.
pub(crate) fn quota(load: &LoadBounds<'_>) -> Option<Nanos> {
    let bite = load.knobs.time("bandwidth-slice") + load.knobs.time("tick");
    Some(bite.saturating_mul(load.host.cpus as u64 + 1))
}
