//! Promises that the kernel keeps: their admission, and the observations of the keeper.

use super::shared::{Shared, at_agent_priority};
use crate::dispatch::{KernelKept, PromiseRequest, Refusal, Scanned};
use crate::kernel::Kernel;
use crate::linux::Linux;
use sched::{EntityId, Instant};
use std::sync::{Mutex, MutexGuard};

fn lock<'s, 'k>(kept: &'s Mutex<KernelKept<&'k Linux>>) -> MutexGuard<'s, KernelKept<&'k Linux>> {
    kept.lock().expect("a thread that panics with the promises ends the daemon")
}

/// Makes the promise `request` to process `pid`, with the result of an earlier scan. `ours` are the pids of Tactus and its
/// ancestors.
///
/// # Errors
/// The request is refused; nothing has changed.
pub(super) fn admit<'k>(
    kept: &Mutex<KernelKept<&'k Linux>>,
    request: &PromiseRequest,
    pid: u32,
    ours: &[u32],
    scanned: Option<Scanned<<&'k Linux as Kernel>::Thread>>,
) -> Result<Vec<EntityId>, Refusal> {
    at_agent_priority(|| lock(kept).admit(request, pid, ours, scanned))
}

/// Observes the reserved threads. Returns the instant of the next observation.
pub(super) fn observe<'k>(shared: &Shared<'k>, kept: &Mutex<KernelKept<&'k Linux>>, has_births: bool) -> Instant {
    let (next, reasons) = at_agent_priority(|| lock(kept).observe(has_births));
    reasons.into_iter().for_each(|reason| shared.warn(reason));
    next
}
