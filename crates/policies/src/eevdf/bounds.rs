//! What EEVDF promises of itself: how exact shares are, and how long anybody waits.

use super::tunables::{Requests, SLICE_MOST};
use crate::fair::SHARES_LEAST;
use sched::{LoadBounds, Nanos, Weight};

/// Nobody runs but who is owed time, and then no longer than to the first tick after its slice; so nobody is ever ahead of its
/// share by more than a slice and a tick. What all together are ahead is what one may be behind. From one moment to another
/// its place may change from one end of that to the other. Slices are the base slice: whoever asks for longer ones makes
/// all this coarser. Clocks count whole nanoseconds of normal weight.
pub(super) fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let (tunables, requests) = Requests::new(load.host, load.knobs);
    let grain = Nanos::ns(load.weight_most.div_ceil(1024) + 1);
    Some((requests.base_slice + tunables.tick + grain).saturating_mul(load.entities))
}

/// Whoever waits is owed more and more, and all others together the less; once they are all ahead of their shares it is
/// the only one to run. Nobody gets further ahead than the longest slice and a tick, nor forgets more of that than
/// twice as much; the others catch up at the rate of the heaviest. In a nested group, all that happens in the group's
/// share of time only, at every level. (Who comes newly is owed nothing; if such come without end, there is no
/// bound: that is overload.)
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_rt {
        return None;
    }
    let (tunables, requests) = Requests::new(load.host, load.knobs);
    // SCHED_IDLE has this weight whatever was asked, and a group's part may have the least there is.
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
