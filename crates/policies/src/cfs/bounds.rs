//! What CFS promises of itself: how exact shares are, and how long anybody waits.

use super::tunables::Times;
use crate::fair::{NICE_0, SHARES_LEAST};
use sched::{LoadBounds, Nanos, Weight};

/// Of two who want to run, one's clock can be ahead by what it starts late (rule 3: its slice) and what it runs at most
/// (rule 6: its slice, to the next tick); for whoever runs was first, but for rule 8, which brings forward only those who have
/// just come. What all others together are ahead is what one can be behind, and its place may change from one end of
/// that to the other. The slices of a round together are a round, or a minimum each. But a slice that somebody started late
/// by was its part of a smaller crowd; the parts that the second and all who follow have of the crowds they join together
/// are at most the logarithm of how much the crowd has grown since the first.
///
/// The kernel's clocks lose parts of nanoseconds, the more the heavier the task: without end that sums up without bound. So
/// there is none, unless clocks are exact or all weights are such that nothing is lost.
pub(super) fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let (tunables, times) = Times::new(load.host, load.knobs);
    let loses_nothing = load.weight_least == NICE_0 && load.weight_most == NICE_0;
    if !times.exact_clock && !loses_nothing {
        return None;
    }
    let count = load.entities.max(1);
    let period = times.period(u32::try_from(count).unwrap_or(u32::MAX));
    let growth = load.weight_most.div_ceil(load.weight_least.max(1)).saturating_mul(count);
    // ln 2 is less than 0.7.
    let rounds_late = (count - 1).min((u64::from(growth.ilog2()) + 1).saturating_mul(7).div_ceil(10));
    let grain = Nanos::ns(load.weight_most.div_ceil(1024) + 1);
    let run = times.min_granularity + tunables.tick + grain;
    let late = if times.start_debit {
        period.saturating_mul(rounds_late) + times.min_granularity.saturating_mul(count)
    } else {
        Nanos::ZERO
    };
    Some(period + run.saturating_mul(count) + late)
}

/// Whoever waits keeps its vruntime, and all others' only grow; once they have passed it, it runs. In one queue of n,
/// nobody can be further ahead than one long run of the lightest, a slice's debit, a sleeper's credit and a wake-up
/// granularity of the lightest; the others catch up at the rate of the heaviest. In a nested group, all that happens
/// in the group's share of time only, at every level.
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
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
