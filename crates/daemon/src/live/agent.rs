//! The agent of a CPU: the thread that takes the turns of this CPU.

use super::fault::StalledThread;
use super::shared::Shared;
use crate::dispatch::Dispatcher;
use crate::kernel::priority;
use crate::linux::Linux;
use crate::table::Beating;
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};
use sys::attributes::{self, Attributes};
use sys::{Result, affinity, clock, thread};

/// Maximum time that an agent waits for its next turn. The agent beats after every turn.
pub(super) const BEAT: Nanos = Nanos::ms(100);
/// Maximum time for which an agent continues to beat while it waits for the dispatcher. The sum of this time, the
/// guardian's patience and the duration of a restoration must be less than a second.
const PATIENCE: Nanos = Nanos::ms(400);
/// Interval between the attempts of an agent to lock the dispatcher.
const AGAIN: Nanos = Nanos::us(20);

/// Turns the calling thread into the agent of `cpu`.
pub(super) fn enter(cpu: CpuId) -> Result<()> {
    let me = thread::current();
    // First the priority: an ordinary thread may wait long for a busy CPU.
    attributes::set(me, Attributes::raised(priority::AGENT))?;
    affinity::set(me, &CpuSet::one(cpu))?;
    clock::set_slack(Nanos::ns(1))
}

/// Confines the calling agent to `cpu` again if Linux has moved it, because `cpu` was offline. The call fails while `cpu`
/// is offline. No client is on `cpu` then, and the agent may beat on any CPU.
fn return_to(cpu: CpuId) {
    let (me, there) = (thread::current(), CpuSet::one(cpu));
    if affinity::get(me).is_ok_and(|found| found != there) {
        let _ = affinity::set(me, &there);
    }
}

/// Locks the dispatcher. A thread that adopts or restores very many threads holds the lock for a long time. A waiting
/// agent therefore continues to beat for a limited time.
fn lock_dispatcher<'s, 'k>(shared: &'s Shared<'k>, cpu: CpuId) -> MutexGuard<'s, Dispatcher<&'k Linux>> {
    let patience = clock::now().saturating_add(PATIENCE);
    loop {
        match shared.dispatcher.try_lock() {
            Ok(dispatcher) => return dispatcher,
            Err(TryLockError::Poisoned(_)) => return shared.lock(),
            Err(TryLockError::WouldBlock) if clock::now() < patience => {
                shared.table.beat(Beating::Agent(cpu));
                clock::sleep(AGAIN);
            }
            Err(TryLockError::WouldBlock) => return shared.lock(),
        }
    }
}

/// Takes turns until the daemon ends.
pub(super) fn serve(shared: &Shared<'_>, place: usize) -> Result<()> {
    let channel = &shared.channels[place];
    let cpu = channel.cpu;
    let mut timers = channel.timers()?;
    let (mut at, mut then, mut checked) = (Instant::ZERO, Instant::NEVER, clock::now());
    // The agent beats before the first turn, so that a hang in this turn is detected, too.
    shared.table.beat(Beating::Agent(cpu));
    while !shared.over.load(Ordering::Acquire) {
        let now = clock::now();
        let beat = now.saturating_add(BEAT);
        timers.arm(at.min(beat), if at <= beat { then } else { at }, now)?;
        let signals = channel.wait()?;
        let now = clock::now();
        if checked.saturating_add(BEAT) <= now {
            checked = now;
            return_to(cpu);
        }
        shared.stall(StalledThread::Agent);
        let mut dispatcher = lock_dispatcher(shared, cpu);
        shared.stall(StalledThread::Holder);
        let next = dispatcher.turn(cpu, signals);
        drop(dispatcher);
        shared.table.beat(Beating::Agent(cpu));
        shared.call(&next.call);
        (at, then) = (next.at, next.then);
    }
    Ok(())
}
