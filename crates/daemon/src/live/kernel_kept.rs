//! Promises that the kernel keeps: their admission beside the clients of the dispatcher, and the observations of the keeper.
//!
//! No agent waits for these promises, so work on them has the priority of the keeper.

use super::shared::{Shared, at_agent_priority, at_priority};
use crate::Explanation;
use crate::dispatch::{
    FormerReservations, KernelKept, PromiseRequest, Promises, Refusal, Scanned, is_reserved, scan_beating,
};
use crate::interfering::InterferingThread;
use crate::kernel::{Kernel, priority};
use crate::linux::Linux;
use crate::table::{Beating, Row};
use sched::{EntityId, Instant, Nanos};
use std::sync::{Mutex, PoisonError};

/// Applies `act` to the promises.
fn with<'k, T>(kept: &Mutex<KernelKept<&'k Linux>>, act: impl FnOnce(&mut KernelKept<&'k Linux>) -> T) -> T {
    at_priority(priority::SENTINEL, || {
        act(&mut kept.lock().expect("a thread that panics with the promises ends the daemon"))
    })
}

/// Makes the promise `request` to process `pid`, with the result of an earlier scan. `ours` are the pids of Tactus and its
/// ancestors. `may_admit` is called with the promises locked, and refuses the promise while the core ends.
///
/// # Errors
/// The request is refused; nothing has changed.
pub(super) fn admit<'k>(
    shared: &Shared<'k>,
    request: &PromiseRequest,
    pid: u32,
    ours: &[u32],
    scanned: Option<Scanned<<&'k Linux as Kernel>::Thread>>,
    may_admit: impl Fn() -> Result<(), Refusal>,
) -> Result<Vec<EntityId>, Refusal> {
    let Some(kept) = &shared.kernel_kept else { return Err(not_set_up("by SCHED_DEADLINE")) };
    let wanted = with(kept, |kept| kept.interfering_with(request, pid))?;
    let admit = |kept: &mut KernelKept<&'k Linux>| may_admit().and_then(|()| kept.admit(request, pid, ours, scanned));
    beside_clients(shared, wanted, || with(kept, admit))
}

/// Changes the promise that `e` is part of.
///
/// # Errors
/// The change is refused; nothing has changed.
pub(super) fn adjust(shared: &Shared<'_>, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
    let Some(kept) = &shared.kernel_kept else { return Err(Refusal::NoPromise) };
    let wanted = with(kept, |kept| kept.interfering_after(e, slice, period))?;
    beside_clients(shared, wanted, || with(kept, |kept| kept.adjust(e, slice, period).0))
}

/// Returns whether [`admit`] would make the promise `request` to process `pid`, in place of the promise that `instead` is part
/// of.
///
/// # Errors
/// The request would be refused.
pub(super) fn would_admit(
    shared: &Shared<'_>,
    request: &PromiseRequest,
    pid: u32,
    ours: &[u32],
    instead: Option<EntityId>,
) -> Result<(), Refusal> {
    let Some(kept) = &shared.kernel_kept else { return Err(not_set_up("by SCHED_DEADLINE")) };
    with(kept, |kept| kept.would_admit(request, pid, ours, instead))?;
    let wanted = with(kept, |kept| match instead.filter(|&e| is_reserved(e)) {
        Some(e) => kept.interfering_after(e, request.reservation.slice, request.reservation.period),
        None => kept.interfering_with(request, pid),
    })?;
    would_fit_beside_clients(shared, wanted)
}

/// Returns whether [`adjust`] would change the promise that `e` is part of.
///
/// # Errors
/// The change would be refused.
pub(super) fn would_adjust(shared: &Shared<'_>, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
    let Some(kept) = &shared.kernel_kept else { return Err(Refusal::NoPromise) };
    with(kept, |kept| kept.would_adjust(e, slice, period))?;
    would_fit_beside_clients(shared, with(kept, |kept| kept.interfering_after(e, slice, period))?)
}

fn would_fit_beside_clients(shared: &Shared<'_>, wanted: Vec<InterferingThread>) -> Result<(), Refusal> {
    let all = [of_others(shared), wanted].concat();
    at_agent_priority(|| shared.lock().would_admit_interfering(all))
}

/// Makes or changes a promise by `change` if the dispatcher's clients leave room for the reserved threads `wanted` and the
/// threads of other programs.
fn beside_clients<T>(
    shared: &Shared<'_>,
    wanted: Vec<InterferingThread>,
    change: impl FnOnce() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let all = [of_others(shared), wanted].concat();
    at_agent_priority(|| shared.lock().admit_interfering(all))?;
    let answer = change();
    count_reserved(shared);
    answer
}

/// Makes the dispatcher count the reserved threads, and the threads of other programs.
pub(super) fn count_reserved(shared: &Shared<'_>) {
    let ours = shared.kernel_kept.as_ref().map(|kept| with(kept, |kept| kept.interfering()));
    let all = of_others(shared).into_iter().chain(ours.into_iter().flatten()).collect();
    at_agent_priority(|| shared.lock().set_interfering(all));
}

/// Takes over the reservations of the former program: see [`KernelKept::take_over`].
pub(super) fn take_over(
    kept: &Mutex<KernelKept<&Linux>>,
    former: FormerReservations,
) -> Vec<(EntityId, EntityId, Row)> {
    with(kept, |kept| kept.take_over(former))
}

fn of_others(shared: &Shared<'_>) -> Vec<InterferingThread> {
    shared.interfering.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the refusal of a promise for which the daemon has no policy.
pub(super) fn not_set_up(how: &str) -> Refusal {
    let remedy = "start a daemon with this mechanism";
    Refusal::Mechanism(Explanation::new(format!("this daemon keeps no promises {how}"), remedy))
}

/// Observes the reserved threads, and their new children if `has_births`. Returns the instant of the next observation.
pub(super) fn observe<'k>(shared: &Shared<'k>, kept: &Mutex<KernelKept<&'k Linux>>, has_births: bool) -> Instant {
    let trees = if has_births { with(kept, |kept| kept.trees()) } else { Vec::new() };
    for (promise, root) in trees {
        // A scan takes long, so the promises are not held.
        let scanned = scan_beating(&shared.kernel, root, &|| shared.table.beat(Beating::Keeper));
        scanned.iter().for_each(|scanned| with(kept, |kept| kept.adopt(promise, scanned)));
    }
    let before = with(kept, |kept| kept.count());
    let (next, reasons) = with(kept, KernelKept::observe);
    if with(kept, |kept| kept.count()) < before {
        count_reserved(shared);
    }
    reasons.into_iter().for_each(|reason| shared.warn(reason));
    next
}
