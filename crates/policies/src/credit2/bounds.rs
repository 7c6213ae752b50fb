//! The guarantees of `credit2`: the time until idle CPUs find work, the maximum wait of an entity, and the accuracy of
//! shares and caps.

use super::runqueue::partition;
use super::settings::Settings;
use sched::{CapBound, Conserving, Knobs, LoadBounds, Nanos, Topology};

/// Returns the number of run queues of this host.
fn run_queues(host: &Topology, knobs: &Knobs) -> usize {
    partition(host, &Settings::read(knobs)).len()
}

/// Returns the time until an idle CPU finds waiting work. With hand-off and a single run queue, an idle CPU finds work
/// at once. With several queues, there is no bound: an idle CPU does not search the other queues; load balancing moves
/// the work later.
pub(super) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if Settings::read(load.knobs).hand_off && run_queues(load.host, load.knobs) == 1 {
        Conserving::Global { slack: Nanos::ZERO }
    } else {
        Conserving::Never
    }
}

/// Returns the maximum wait of an entity. An epoch is the time between two resets. In an epoch, each of `n` entities
/// runs for at most its credit and one time slice. At each reset, a waiting entity receives the same credit as the
/// other entities. A waiting entity that starts at −10 ms has the maximum credit of any entity after three resets. Then
/// at most one epoch passes before the waiting entity has more credit than all others. One more epoch covers ties and
/// the migration resistance.
///
/// There is no bound if parameters change, because each new entity brings new credit. With several run queues, there is
/// no bound, either, if entities sleep. The loads can then differ in alternating directions, and balancing could move
/// an entity each time before its credit is reset.
pub(super) fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let queues = run_queues(load.host, load.knobs) as u64;
    if load.has_changes || (queues > 1 && load.has_sleepers) {
        return None;
    }
    let settings = Settings::read(load.knobs);
    let extra = settings.carry_over.max(settings.migrate_resist) + settings.migrate_compensation;
    let turn = settings.max_timer().max(settings.min_turn());
    let each = settings.max_timer() + Nanos::ns(extra.unsigned_abs()) + turn;
    Some(each.saturating_mul(load.entities).saturating_mul(5 * queues))
}

/// Returns the maximum distance from the weighted share. An account is the credit given minus the CPU time used, at the
/// rate of the weight. A reset may limit the account, and debt is clipped at the initial credit. The minimum of an
/// account is minus the credit that the shortest time slice costs at the lightest weight. The maximum is the limit
/// after a reset. So two accounts differ by at most the width of this range, once at the beginning of the measured
/// interval and once at its end. A reset gives twice the credit if the debt of the entity that is about to run was
/// clipped. There is no bound in groups, or if the shortest time slice alone can cost the maximum debt.
pub(super) fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let settings = Settings::read(load.knobs);
    let ratio = load.weight_most.div_ceil(load.weight_least.max(1));
    let dearest = settings.min_turn().saturating_mul(ratio);
    if load.group_depth > 0 || dearest >= settings.max_timer() {
        return None;
    }
    let width = settings.max_timer().saturating_mul(2) + Nanos::ns(settings.carry_over.unsigned_abs());
    Some(width.saturating_mul(2) + settings.max_timer() + Nanos::us(1))
}

/// Returns the bound of a cap. In every quota period, a domain receives exactly the part that its cap states: nothing
/// is rounded, and no debt is forgiven. A measured interval may begin with a full pool and with members that hold the
/// quotas of a quota period. The interval may end with another filling, and each member may have overrun its quota by
/// the shortest time slice. A pool never supplies more time than all CPUs can run.
pub(super) fn cap(load: &LoadBounds<'_>) -> Option<CapBound> {
    let settings = Settings::read(load.knobs);
    let pools = settings.cap_period.saturating_mul(3 * load.host.cpus as u64);
    let each = settings.cap_period + settings.min_turn().saturating_mul(2);
    let burst = pools + each.saturating_mul(load.entities);
    Some(CapBound { period: settings.cap_period, rounding: Nanos::ZERO, burst })
}
