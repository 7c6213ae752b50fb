//! The guarantees of the fair class under every rule: the time until idle CPUs find work, and the accuracy of quotas.

use super::tunables::{CACHE_NICE_TRIES, MIGRATE_MOST};
use sched::{Conserving, LoadBounds, Nanos};

/// Returns the time until an idle CPU finds waiting work. An idle CPU is kicked at a tick of the CPU where a task
/// waits, within one tick period. The idle CPU examines 32 tasks; the tasks that cannot move are examined last at the
/// next tick. A cache-hot task moves at the third kick, so each kick may fail twice. With quotas, a task may not be
/// able to move because its group is throttled on the idle CPU: then there is no bound.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_limits {
        return Conserving::Never;
    }
    let looks = load.entities / MIGRATE_MOST as u64 + 1;
    let calls = u64::from(CACHE_NICE_TRIES) + 2;
    let tick = load.knobs.time("tick");
    Conserving::Global { slack: tick.saturating_mul(1 + looks * calls) }
}

/// Returns the maximum excess over a quota. Every CPU may hold a bandwidth slice of the pool, and detects at a tick
/// that the slice is used up.
pub(crate) fn quota(load: &LoadBounds<'_>) -> Option<Nanos> {
    let bite = load.knobs.time("bandwidth-slice") + load.knobs.time("tick");
    Some(bite.saturating_mul(load.host.cpus as u64 + 1))
}
