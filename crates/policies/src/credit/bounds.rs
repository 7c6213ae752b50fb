//! The guarantees of Credit: the time until an idle CPU finds work, the maximum wait of an entity, and the accuracy of
//! caps.

use crate::credit::settings::{Charging, Overflow, Parking, Settings};
use sched::{CapBound, Conserving, LoadBounds, Nanos};

/// Returns the time until an idle CPU finds waiting work. Without hand-off, there is no bound. With hand-off, an idle
/// CPU finds work at once, unless it skips the waiting entity. It skips a cache-hot entity for at most the migration
/// delay. It also skips an entity that has yielded, and any entity soon after an attempt to steal. The next tick of the
/// CPU where the entity waits moves the entity to an idle CPU. If the idle CPU runs another entity first, it hands the
/// entity on at once.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let settings = Settings::read(load.knobs);
    // An unparked entity may wait for the end of a time slice of the idle vCPU.
    let turn = if settings.unparked_waits && load.has_limits { settings.slice } else { Nanos::ZERO };
    match (settings.hand_off, settings.passes_over()) {
        (false, _) => Conserving::Never,
        (true, false) => Conserving::Global { slack: turn },
        (true, true) => Conserving::Global { slack: settings.migration_delay + settings.tick + turn },
    }
}

/// Returns the maximum wait of an entity. An OVER entity starts at −300 credits at worst and earns at least its share
/// every period. The next tick sorts the queue; then at most one time slice of every other entity precedes the entity.
/// BOOST is a strict priority: two entities that wake each other in turn and stay in credit can starve all others. So
/// there is no bound if entities sleep or are paused, or if parameters change.
pub(crate) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_sleepers || load.has_changes {
        return None;
    }
    let settings = Settings::read(load.knobs);
    let most = u128::from(settings.credits_per_period().unsigned_abs()).max(1);
    let entities = u128::from(load.entities.max(1));
    let in_xens_scale = |weight: u64| u128::from((weight + 2) / 4).max(1);
    let competitors = entities * in_xens_scale(load.weight_most);
    let members = if load.group_depth == 0 { 1 } else { entities };
    let share = most * load.host.cpus as u128 * in_xens_scale(load.weight_least) / (competitors * members);
    // With a cap, a member may earn only the one credit that rounding up gives.
    let earned = if load.has_limits { 1 } else { share.clamp(1, most) };
    let periods = u64::try_from(most.div_ceil(earned)).expect("at most what an account can owe") + 1;
    let turns = settings.longest_turn().saturating_mul(load.entities);
    Some(settings.period.saturating_mul(periods) + settings.tick + turns)
}

/// Returns the CPU time that the `n` active members of a capped domain can receive beyond the cap.
///
/// An accounting gives a domain at most its cap, rounded up to a credit, and gives each member its part, rounded up
/// again. So the excess is up to `n` credits. The accounting also forgives a member any debt beyond 300 credits. Only a
/// member that was not parked can have this debt. The debt arises in one period, at whose beginning the member had at
/// least −⌈cap/n⌉ credits (less one credit because charging rounds). So the credits that a member receives and is
/// forgiven are together at most ⌈cap/n⌉ plus that one credit. Summed over the `n` members, this is at most the cap
/// plus `2n` credits per period.
///
/// When a member becomes active, the parts of the other members shrink. A debt that was allowed to these members before
/// can then exceed their new part. The new member lost more than 300 credits when it left the list. This loss
/// compensates for the debt, except when the member becomes active for the first time.
///
/// In addition, a member can hold 300 credits at the beginning of a measured interval. At the end of the interval, the
/// member can owe its part and a whole period's CPU time. The member can also have earned, before the interval, the
/// credits for its CPU time in the interval. Finally, the member can run for a tick period before a tick makes it
/// active.
///
/// There is no bound if a capped member can avoid ticks: if it sleeps, or has time slices shorter than a tick. There is
/// no bound, either, if accounts do not record the CPU time (`sampled`) or are not emptied at once when they overflow.
/// The same holds if parameters change, or if indebted members continue to run until they stop.
pub(crate) fn cap(load: &LoadBounds<'_>) -> Option<CapBound> {
    let settings = Settings::read(load.knobs);
    let exact = settings.charging != Charging::Sampled
        && settings.overflow == Overflow::Empty
        && settings.parking == Parking::BelowCap
        && settings.slice >= settings.tick;
    if !exact || load.has_sleepers || load.has_changes {
        return None;
    }
    let Settings { period, credit, tick, .. } = settings;
    let member = period.saturating_mul(4) + tick;
    Some(CapBound {
        period,
        rounding: credit.saturating_mul(2 * load.entities),
        burst: member.saturating_mul(load.entities),
    })
}
