//! [`Channel`]: the events that an agent waits for.

use super::turn_timers::TurnTimers;
use crate::dispatch::Signals;
use crate::linux::entered;
use sched::{CpuId, Instant};
use std::sync::Arc;
use sys::Result;
use sys::event::{Bell, Waiting};

/// Numbers of an agent's event sources.
const CALL: u64 = 0;
const QUIET: u64 = 1;
/// The numbers 2 and 3 are those of [thread events](crate::linux).
const TURN: u64 = 4;

/// The event sources of an agent.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) cpu: CpuId,
    call: Bell,
    /// Bell that the sentinel rings.
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

    /// Wakes the agent for a turn.
    pub(super) fn call(&self) {
        self.call.ring();
    }

    /// Returns timers whose expiry ends [`Channel::wait`].
    pub(super) fn timers(&self) -> Result<TurnTimers> {
        TurnTimers::new(&self.waiting, TURN)
    }

    /// Waits for an event. Returns the received signals.
    pub(super) fn wait(&self) -> Result<Signals> {
        Ok(match self.waiting.next(Instant::NEVER)? {
            Some(QUIET) => Signals { quiet: self.quiet.rings() > 0, ..Signals::default() },
            Some(CALL) => {
                let _ = self.call.rings();
                Signals::default()
            }
            event => Signals { entered: event.and_then(entered), ..Signals::default() },
        })
    }
}
