//! An agent: the thread on each CPU that takes the turns there.

use super::Shared;
use crate::dispatch::{Dispatcher, Heard};
use crate::kernel::priority;
use crate::linux::Linux;
use crate::table::Beating;
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{Result, affinity, clock, thread};

/// How often an agent that has nothing to do shows the guardian that it lives.
pub(super) const BEAT: Nanos = Nanos::ms(100);
/// How long an agent shows that it lives while it waits for the dispatcher: together with the guardian's patience and what
/// restoring takes, less than a second.
const PATIENCE: Nanos = Nanos::ms(400);
/// How soon it asks again.
const AGAIN: Nanos = Nanos::us(20);

/// What an agent waits for.
const CALL: u64 = 0;
const QUIET: u64 = 1;

/// Where an agent can be reached.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) cpu: CpuId,
    call: Bell,
    /// Rung by the sentinel.
    pub(super) quiet: Arc<Bell>,
    pub(super) waiting: Arc<Waiting>,
}

impl Post {
    pub(super) fn new(cpu: CpuId) -> Result<Post> {
        let post = Post { cpu, call: Bell::new()?, quiet: Arc::new(Bell::new()?), waiting: Arc::new(Waiting::new()?) };
        post.waiting.add(&post.call, CALL)?;
        post.waiting.add(&*post.quiet, QUIET)?;
        Ok(post)
    }

    /// Has the agent take a turn.
    pub(super) fn call(&self) {
        self.call.ring();
    }

    /// What is heard before `at`.
    fn listen(&self, at: Instant) -> Result<Heard> {
        Ok(match self.waiting.next(at)? {
            Some(QUIET) => Heard { quiet: self.quiet.rings() > 0 },
            Some(CALL) => {
                let _ = self.call.rings();
                Heard::default()
            }
            _ => Heard::default(),
        })
    }
}

/// Makes the calling thread an agent.
pub(super) fn enter(cpu: CpuId) -> Result<()> {
    let me = thread::current();
    affinity::set(me, &CpuSet::one(cpu))?;
    attributes::set(me, Attributes::raised(priority::AGENT))?;
    clock::set_slack(Nanos::ns(1))
}

/// The dispatcher, once nobody else has it. Somebody may have it for long who takes in or restores very many threads: for a while
/// an agent that waits for it is not one that hangs.
fn enter_turn<'s, 'k>(shared: &'s Shared<'k>, place: usize) -> MutexGuard<'s, Dispatcher<&'k Linux>> {
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

/// Takes turns until it is over.
pub(super) fn serve(shared: &Shared<'_>, place: usize) -> Result<()> {
    let post = &shared.posts[place];
    let mut at = Instant::ZERO;
    // Beaten before the first turn: a hang in that one is to be seen too.
    shared.table.beat(Beating::Agent(place));
    while !shared.over.load(Ordering::Acquire) {
        let heard = post.listen(at.min(clock::now().saturating_add(BEAT)))?;
        let next = enter_turn(shared, place).turn(post.cpu, heard);
        shared.table.beat(Beating::Agent(place));
        shared.call(&next.call);
        at = next.at;
    }
    Ok(())
}
