//! What the policy promises of itself: how soon idle CPUs find work, and how long anybody waits.

use super::runqueue::SHARES_LEAST;
use super::tunables::{CACHE_NICE_TRIES, MIGRATE_MOST, Tunables};
use sched::{Conserving, Load, Nanos, Weight};

/// An idle CPU is called at a tick of the CPU where work waits. That tick comes within one tick; it looks at 32 tasks,
/// and the ones it can do nothing for are looked at last at the next one. A cache-hot task goes at the third call, so
/// each call may fail twice. Where there are quotas, a task may be kept from an idle CPU by its group being throttled
/// there: nothing is promised then.
pub(super) fn conserving(load: &Load<'_>) -> Conserving {
    if load.has_limits {
        return Conserving::Never;
    }
    let looks = load.entities / MIGRATE_MOST as u64 + 1;
    let calls = u64::from(CACHE_NICE_TRIES) + 2;
    let tick = load.knobs.time("tick");
    Conserving::Global { slack: tick.saturating_mul(1 + looks * calls) }
}

/// Whoever waits keeps its vruntime, and all others' only grow; once they have passed it, it runs. In one queue of n,
/// nobody can be further ahead than one long run of the lightest, a slice's debit, a sleeper's credit and a wake-up
/// granularity of the lightest; the others catch up at the rate of the heaviest. In a nested group, all that happens
/// in the group's share of time only, at every level.
pub(super) fn starvation(load: &Load<'_>) -> Option<Nanos> {
    if load.has_rt {
        return None;
    }
    let tunables = Tunables::new(load.host, load.knobs);
    // SCHED_IDLE has this weight whatever was asked, and a group's part may have the least there is.
    let idle = u64::from(Weight::IDLE.as_linux());
    let lightest = load.weight_least.min(if load.group_depth > 0 { SHARES_LEAST } else { idle }).max(1);
    let ratio = load.weight_most.max(idle).div_ceil(lightest) + 2;
    let nodes = load.entities.max(1);
    let tasks = u32::try_from(nodes).unwrap_or(u32::MAX);
    let period = tunables.period(tasks);
    let add = |a: Nanos, b: Nanos| Nanos::ns(a.as_ns().saturating_add(b.as_ns()));
    let parts = [period, period, tunables.latency, tunables.wakeup_granularity, tunables.tick, tunables.tick];
    let lead = parts.into_iter().fold(Nanos::ZERO, add);
    let one_queue = lead.saturating_mul(ratio).saturating_mul(nodes);
    let nested = |inner: Nanos, _| add(inner.saturating_mul(ratio).saturating_mul(nodes), one_queue);
    Some((0..load.group_depth).fold(one_queue, nested))
}

/// Every CPU may hold a bite of the pool, and notices at a tick that it is used up.
pub(super) fn quota(load: &Load<'_>) -> Option<Nanos> {
    let bite = load.knobs.time("bandwidth-slice") + load.knobs.time("tick");
    Some(bite.saturating_mul(load.host.cpus as u64 + 1))
}
