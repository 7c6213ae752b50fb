//! What CFS promises of itself: how long anybody waits.

use super::tunables::Times;
use crate::fair::SHARES_LEAST;
use sched::{Load, Nanos, Weight};

/// Whoever waits keeps its vruntime, and all others' only grow; once they have passed it, it runs. In one queue of n,
/// nobody can be further ahead than one long run of the lightest, a slice's debit, a sleeper's credit and a wake-up
/// granularity of the lightest; the others catch up at the rate of the heaviest. In a nested group, all that happens
/// in the group's share of time only, at every level.
pub(super) fn starvation(load: &Load<'_>) -> Option<Nanos> {
    if load.has_rt {
        return None;
    }
    let (tunables, times) = Times::new(load.host, load.knobs);
    // SCHED_IDLE has this weight whatever was asked, and a group's part may have the least there is.
    let idle = u64::from(Weight::IDLE.as_linux());
    let lightest = load.weight_least.min(if load.group_depth > 0 { SHARES_LEAST } else { idle }).max(1);
    let ratio = load.weight_most.max(idle).div_ceil(lightest) + 2;
    let nodes = load.entities.max(1);
    let period = times.period(u32::try_from(nodes).unwrap_or(u32::MAX));
    let add = |a: Nanos, b: Nanos| a.saturating_add(b);
    let parts = [period, period, times.latency, times.wakeup_granularity, tunables.tick, tunables.tick];
    let lead = parts.into_iter().fold(Nanos::ZERO, add);
    let one_queue = lead.saturating_mul(ratio).saturating_mul(nodes);
    let nested = |inner: Nanos, _| add(inner.saturating_mul(ratio).saturating_mul(nodes), one_queue);
    Some((0..load.group_depth).fold(one_queue, nested))
}
