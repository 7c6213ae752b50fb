//! The guarantees of CFS: the accuracy of shares, and the maximum wait of an entity.

use super::tunables::Times;
use crate::fair::{NICE_0, SHARES_LEAST};
use sched::{LoadBounds, Nanos, Weight};

/// Returns the maximum distance from the weighted share, for entities that are always runnable. The clock of an entity
/// can lead the clock of another by at most two spans. The first span is its late start (rule 3): one time slice. The
/// second span is its longest run (rule 6): one time slice, extended to the next tick. A running entity was first in
/// order when picked. The exception is rule 8, which prefers only entities that have just arrived. An entity can lag by
/// the sum of the leads of all other entities. Its distance from the share may change from one end of this range to the
/// other.
///
/// The time slices of a round sum to one round, or to one minimum time slice per entity. But the late start of an
/// entity is its time slice at its arrival, when the set of entities may have been smaller. Measured in rounds, the sum
/// of the late starts of all entities except the first is limited. It is at most the logarithm of the growth of the set
/// since the first arrival.
///
/// The kernel's clocks lose fractions of nanoseconds, and the clocks of heavier tasks lose more. The sum of these
/// losses is unbounded. So there is a bound only if clocks are exact, or if all entities have the weight of nice 0,
/// whose clocks lose no fraction.
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

/// Returns the maximum wait of an entity. A waiting entity keeps its vruntime, and the clocks of all other entities
/// only grow. The entity runs once all other clocks have passed its vruntime. In a queue of n entities, the lead of an
/// entity has at most four parts. The parts are a debit of one time slice, a sleeper's credit, and one long run and one
/// wake-up granularity of the lightest entity. The other entities catch up at the rate of the heaviest entity. In a
/// nested group, the entities advance only within the group's share of time, at every level. With entities of real-time
/// classes, there is no bound.
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_rt {
        return None;
    }
    let (tunables, times) = Times::new(load.host, load.knobs);
    // A SCHED_IDLE entity always has this weight, and a group entity may have the minimum weight.
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
