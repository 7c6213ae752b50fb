//! The guarantees of EEVDF: the accuracy of shares, and the maximum wait of an entity.

use super::tunables::{Requests, SLICE_MOST};
use crate::fair::SHARES_LEAST;
use sched::{LoadBounds, Nanos, Weight};

/// Returns the maximum distance from the weighted share. Only an entity that is not ahead of its share is picked. It
/// runs at most to the first tick after its time slice. So no entity is ever ahead of its share by more than a time
/// slice and a tick. An entity can be behind by the sum of the leads of all other entities. Between two instants, its
/// distance may change from one end of this range to the other. The bound assumes the base slice; entities that request
/// longer time slices may exceed it. A vruntime is a whole number of nanoseconds, which adds a rounding error per
/// entity.
pub(super) fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let (tunables, requests) = Requests::new(load.host, load.knobs);
    let grain = Nanos::ns(load.weight_most.div_ceil(1024) + 1);
    Some((requests.base_slice + tunables.tick + grain).saturating_mul(load.entities))
}

/// Returns the maximum wait of an entity. The lag of a waiting entity grows, and the total lag of all other entities
/// decreases. Once all other entities are ahead of their shares, only the waiting entity is eligible. The lead of an
/// entity is at most the longest time slice and a tick. The lag that an entity forgets is at most twice as long. The
/// other entities catch up at the rate of the heaviest entity. In a nested group, the entities advance only within the
/// group's share of time, at every level. With entities of real-time classes, there is no bound. A new entity is owed
/// no time. An endless sequence of new entities is overload, for which there is no bound.
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_rt {
        return None;
    }
    let (tunables, requests) = Requests::new(load.host, load.knobs);
    // A SCHED_IDLE entity always has this weight, and a group entity may have the minimum weight.
    let idle = u64::from(Weight::IDLE.as_linux());
    let lightest = load.weight_least.min(if load.group_depth > 0 { SHARES_LEAST } else { idle }).max(1);
    let ratio = load.weight_most.max(idle).div_ceil(lightest) + 2;
    let nodes = load.entities.max(1);
    let longest = requests.base_slice.max(SLICE_MOST);
    let lead = longest.saturating_add(tunables.tick).saturating_mul(4);
    let one_queue = lead.saturating_mul(ratio).saturating_mul(nodes);
    let nested = |inner: Nanos, _| inner.saturating_mul(ratio).saturating_mul(nodes).saturating_add(one_queue);
    Some((0..load.group_depth).fold(one_queue, nested))
}
