//! An agent: the thread on each CPU that takes its turns.

use super::Shared;
use crate::dispatch::{Dispatcher, Signals};
use crate::kernel::priority;
use crate::linux::Linux;
use crate::table::Beating;
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{Result, affinity, clock, thread};

/// Interval between beats of an idle agent.
pub(super) const BEAT: Nanos = Nanos::ms(100);
/// How long an agent keeps beating while it waits for the dispatcher: together with the guardian's patience and restoring, less
/// than a second.
const PATIENCE: Nanos = Nanos::ms(400);
/// Interval between its attempts.
const AGAIN: Nanos = Nanos::us(20);

/// The event sources of an agent.
const CALL: u64 = 0;
const QUIET: u64 = 1;

/// The channel to an agent.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) cpu: CpuId,
    call: Bell,
    /// Rung by the sentinel.
    pub(super) quiet: Arc<Bell>,
    pub(super) waiting: Arc<Waiting>,
}

impl Channel {
    pub(super) fn new(cpu: CpuId) -> Result<Channel> {
        let channel =
            Channel { cpu, call: Bell::new()?, quiet: Arc::new(Bell::new()?), waiting: Arc::new(Waiting::new()?) };
        channel.waiting.add(&channel.call, CALL)?;
        channel.waiting.add(&*channel.quiet, QUIET)?;
        Ok(channel)
    }

    /// Calls the agent to a turn.
    pub(super) fn call(&self) {
        self.call.ring();
    }

    /// The signals received before `at`.
    fn wait(&self, at: Instant) -> Result<Signals> {
        Ok(match self.waiting.next(at)? {
            Some(QUIET) => Signals { quiet: self.quiet.rings() > 0 },
            Some(CALL) => {
                let _ = self.call.rings();
                Signals::default()
            }
            _ => Signals::default(),
        })
    }
}

/// Turns the calling thread into an agent.
pub(super) fn enter(cpu: CpuId) -> Result<()> {
    let me = thread::current();
    affinity::set(me, &CpuSet::one(cpu))?;
    attributes::set(me, Attributes::raised(priority::AGENT))?;
    clock::set_slack(Nanos::ns(1))
}

/// Locks the dispatcher. Adopting or restoring very many threads holds the lock for long: for a while a waiting agent does not
/// count as hung.
fn lock_dispatcher<'s, 'k>(shared: &'s Shared<'k>, place: usize) -> MutexGuard<'s, Dispatcher<&'k Linux>> {
    let patience = clock::now().saturating_add(PATIENCE);
    loop {
        match shared.dispatcher.try_lock() {
            Ok(dispatcher) => return dispatcher,
            Err(TryLockError::Poisoned(_)) => return shared.lock(),
            Err(TryLockError::WouldBlock) if clock::now() < patience => {
                shared.table.beat(Beating::Agent(place));
                clock::sleep(AGAIN);
            }
            Err(TryLockError::WouldBlock) => return shared.lock(),
        }
    }
}

/// Takes turns until the daemon ends.
pub(super) fn serve(shared: &Shared<'_>, place: usize) -> Result<()> {
    let channel = &shared.channels[place];
    let mut at = Instant::ZERO;
    // Beat before the first turn, so that a hang in it is detected, too.
    shared.table.beat(Beating::Agent(place));
    while !shared.over.load(Ordering::Acquire) {
        let signals = channel.wait(at.min(clock::now().saturating_add(BEAT)))?;
        let next = lock_dispatcher(shared, place).turn(channel.cpu, signals);
        shared.table.beat(Beating::Agent(place));
        shared.call(&next.call);
        at = next.at;
    }
    Ok(())
}
