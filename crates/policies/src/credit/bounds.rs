//! What Credit can promise: how soon an idle CPU finds work, how long anybody waits, how exactly caps are kept.

use crate::credit::settings::{Charging, Overflow, Parking, Settings};
use sched::{CapBound, Conserving, LoadBounds, Nanos};

/// With hand-off, at once; whom an idle CPU may pass over is offered again at the next tick of the CPU where it waits.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let settings = Settings::read(load.knobs);
    // Who is unparked may wait for the end of a turn of idling.
    let turn = if settings.unparked_waits && load.has_limits { settings.slice } else { Nanos::ZERO };
    match (settings.hand_off, settings.passes_over()) {
        (false, _) => Conserving::Never,
        (true, false) => Conserving::Global { slack: turn },
        (true, true) => Conserving::Global { slack: settings.migration_delay + settings.tick + turn },
    }
}

/// Who is OVER earns at least its share every period, from −300 at worst, is sorted in at the next tick, and then has
/// at most one turn of everybody else before it. BOOST is a strict priority: two who wake each other in turn and stay
/// in credit keep everybody else out without end, so there is no bound where somebody sleeps (or is paused).
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
    // A cap may leave a member no more than the rounding does.
    let earned = if load.has_limits { 1 } else { share.clamp(1, most) };
    let periods = u64::try_from(most.div_ceil(earned)).expect("at most what an account can owe") + 1;
    let turns = settings.longest_turn().saturating_mul(load.entities);
    Some(settings.period.saturating_mul(periods) + settings.tick + turns)
}

/// What a capped domain's `n` active members can get beyond the cap.
///
/// An accounting gives a domain at most its cap rounded up to a credit, and each member its part rounded up once more:
/// up to `n` credits too many. It forgives a member what that owes beyond −300; only who was not parked can have run up
/// such a debt, in one period, from no less than −⌈cap/n⌉ (and one credit because charging rounds): so gift and
/// forgiveness together are at most ⌈cap/n⌉ and that credit, for each member. Hence `2n` credits a period. When a
/// member becomes active, the parts of the others shrink, and what they were allowed to owe before is more than the
/// new part: that is paid for by the member's own credit, more than 300, which it lost when it went off the list;
/// the first time, it is not.
///
/// Ahead of all that, a member can hold 300 credits when a span begins, owe its part and a whole period's running when
/// it ends, have earned before the span what it runs in it, and run for a tick before it is found.
///
/// There is no bound where who is capped can keep out of the sight of ticks: who sleeps, or has turns shorter than a tick.
/// And none where accounts are not a record of what was run (`sampled`), are only halved when they overflow, or the
/// indebted run on until they stop.
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
