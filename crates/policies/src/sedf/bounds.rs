//! The guarantees of SEDF under a load.

use sched::{Conserving, Knobs, LoadBounds, Nanos};

/// Maximum delay with which a driver may notice the end of a time slice. The entity pays for one time slice of any
/// length.
const LATE: Nanos = Nanos::ms(2);

/// Returns the part of a weight period that is left for extra time if every beginning of a period wastes almost a
/// quantum.
fn turns_in_a_period(load: &LoadBounds<'_>) -> Nanos {
    let wasted = load.knobs.time("extra-quantum").saturating_mul(load.entities);
    load.knobs.time("weight-period").saturating_sub(wasted)
}

/// Returns whether slices are distributed by weight.
fn deals_slices(knobs: &Knobs) -> bool {
    knobs.word("unreserved") == "slices"
}

/// Returns the time until an idle CPU finds waiting work. Before each beginning of a period, a CPU may idle for almost
/// a quantum. Every entity begins a period once per weight period, and all may do so in sequence. If there are more
/// such beginnings than the period has quanta, no time is left between them. An entity with a hard reservation waits
/// although CPUs idle; so does an entity whose slice by weight has no length.
pub(super) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_reservations || deals_slices(load.knobs) || turns_in_a_period(load).is_zero() {
        return Conserving::Never;
    }
    Conserving::PerCpu { slack: load.knobs.time("extra-quantum").saturating_mul(load.entities + 1) }
}

/// Returns the maximum wait of an entity. Three kinds of overload leave no bound. The first are reservations, because
/// none is refused. The second are more beginnings of periods than extra time has quanta. The third is extra time among
/// entities that block, because an entity that blocks does not advance the others.
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    if load.has_reservations || load.has_changes {
        return None;
    }
    let period = knobs.time("weight-period");
    let (least, most) = (load.weight_least.max(1), load.weight_most.max(1));
    if deals_slices(knobs) {
        let dealt = period.saturating_sub(knobs.time("weight-safety"));
        let smallest = dealt.scale(least, most.saturating_mul(load.entities));
        // The rest of a period in which the entity forfeits its slice, the wait for its end, and the next period.
        return (!smallest.is_zero()).then(|| period.saturating_mul(3));
    }
    let left = turns_in_a_period(load);
    if load.has_sleepers || left.is_zero() {
        return None;
    }
    // Between two runs of the lightest entity, every other entity runs as many times as its weight is larger, and once
    // initially.
    let ratio = if knobs.word("unreserved") == "extra-weight" { most.div_ceil(least) } else { 1 };
    let turn = knobs.time("extra-quantum") + LATE;
    let turns = turn.saturating_mul((ratio + 2).saturating_mul(load.entities));
    Some(period.saturating_mul(turns.as_ns().div_ceil(left.as_ns()) + 1))
}
