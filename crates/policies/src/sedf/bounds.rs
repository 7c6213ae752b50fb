//! The guarantees of SEDF under a load.

use sched::{Conserving, Knobs, LoadBounds, Nanos};

/// Maximum delay until a driver notices the end of a time slice. A time slice of any length costs the entity one
/// quantum, so the entity is not charged for the delay.
const LATE: Nanos = Nanos::ms(2);

/// Returns the part of a weight period that remains for extra time if almost a quantum is lost before every beginning
/// of a period.
fn turns_in_a_period(load: &LoadBounds<'_>) -> Nanos {
    let wasted = load.knobs.time("extra-quantum").saturating_mul(load.entities);
    load.knobs.time("weight-period").saturating_sub(wasted)
}

/// Returns whether slices are distributed by weight.
fn deals_slices(knobs: &Knobs) -> bool {
    knobs.word("unreserved") == "slices"
}

/// Returns the time until an idle CPU finds waiting work. Before each beginning of a period, a CPU may idle for almost
/// a quantum. Every entity begins one period per weight period, and each beginning may be within a quantum of the
/// previous one. If the weight period has no more quanta than beginnings, no extra time remains. With reservations or
/// slices by weight, there is no bound. An entity with a hard reservation waits although CPUs idle, as does an entity
/// whose slice by weight is zero.
pub(super) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_reservations || deals_slices(load.knobs) || turns_in_a_period(load).is_zero() {
        return Conserving::Never;
    }
    Conserving::PerCpu { slack: load.knobs.time("extra-quantum").saturating_mul(load.entities + 1) }
}

/// Returns the maximum wait of an entity. With reservations there is no bound, because there is no admission control.
/// In extra time, there is no bound if the weight period has no more quanta than beginnings of periods. There is also
/// no bound if entities block, because an entity that blocks does not lower the scores of the others.
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
        // The bound covers three periods. In the first, the entity forfeits its slice. In the second, the entity waits
        // for the end of the period. In the third, the entity runs.
        return (!smallest.is_zero()).then(|| period.saturating_mul(3));
    }
    let left = turns_in_a_period(load);
    if load.has_sleepers || left.is_zero() {
        return None;
    }
    // Between two runs of the lightest entity, another entity runs at most as often as the ratio of their weights
    // states, plus once initially.
    let ratio = if knobs.word("unreserved") == "extra-weight" { most.div_ceil(least) } else { 1 };
    let turn = knobs.time("extra-quantum") + LATE;
    let turns = turn.saturating_mul((ratio + 2).saturating_mul(load.entities));
    Some(period.saturating_mul(turns.as_ns().div_ceil(left.as_ns()) + 1))
}
