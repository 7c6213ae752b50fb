//! [`Standing`]: what the service knows about a running VM.

use crate::enforced::Enforced;
use crate::inventory::Found;
use api::{Desired, Measured};
use daemon::Explanation;
use daemon::dispatch::{Dismissed, Refusal};
use daemon::live::Client;
use sched::{EntityId, Instant, Nanos};
use std::collections::BTreeSet;
use trace::Event;

/// Range of the pause before a desired state that is not in force is tried again. It doubles with each attempt. A VM
/// whose vCPUs do not run yet, and a thread that another program has moved, need a second attempt.
pub(crate) const RETRY: (Nanos, Nanos) = (Nanos::ms(100), Nanos::s(30));

/// What the service knows about a running VM.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) enforced: Enforced,
    pub(crate) measured: Measured,
    /// The entities to which the promise is not kept, according to the core.
    pub(crate) short: BTreeSet<EntityId>,
    /// Reason why the desired state is not in force.
    pub(crate) refused: Option<Explanation>,
    /// Instant of the next attempt, and the pause after it.
    pub(crate) next: Instant,
    pub(crate) pause: Nanos,
}

impl Default for Standing {
    fn default() -> Standing {
        let (enforced, measured) = (Enforced::default(), Measured::default());
        Standing { enforced, measured, short: BTreeSet::new(), refused: None, next: Instant::ZERO, pause: RETRY.0 }
    }
}

impl Standing {
    /// Makes `core` keep what is desired for `vm`. A new promise is measured anew.
    pub(crate) fn become_desired(&mut self, core: &Client, vm: &Found, desired: &Desired) -> Result<(), Refusal> {
        let before = self.enforced.request().cloned();
        let outcome = self.enforced.become_desired(core, vm, desired);
        if self.enforced.request() != before.as_ref() {
            (self.measured, self.short) = (Measured::default(), BTreeSet::new());
        }
        outcome
    }

    /// Counts a period, or notes whether the promise is kept.
    pub(crate) fn hear(&mut self, event: &Event) {
        match *event {
            Event::Period { due, delivered, throughout, .. } => {
                self.measured.periods += 1;
                self.measured.due_ns += due.as_ns();
                self.measured.delivered_ns += delivered.as_ns();
                if throughout {
                    self.measured.judged += 1;
                    self.measured.missed += u64::from(delivered < due);
                }
            }
            Event::Kept { entity, kept: true, .. } => drop(self.short.remove(&entity)),
            Event::Kept { entity, kept: false, .. } => drop(self.short.insert(entity)),
            _ => {}
        }
    }

    /// Ends the promise, because the core has dismissed one of its entities. It is tried again after a pause.
    pub(crate) fn dismissed(&mut self, core: &Client, dismissed: &Dismissed, now: Instant) {
        self.enforced.dismissed(core, dismissed.entity);
        self.short.clear();
        let ended = || Explanation::new("the core has ended the promise", "");
        self.refused = Some(dismissed.trouble.clone().unwrap_or_else(ended));
        self.next = now.saturating_add(self.pause);
    }
}
