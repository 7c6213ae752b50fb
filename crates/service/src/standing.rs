//! [`Standing`]: what the service knows about a running VM.

use crate::enforced::Enforced;
use crate::inventory::Found;
use api::{Desired, Measured};
use daemon::Explanation;
use daemon::dispatch::{Dismissed, Refusal};
use daemon::live::Client;
use sched::{EntityId, Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use trace::Event;

/// Range of the pause before a desired state that is not in force is tried again. It doubles with each attempt. A VM
/// whose vCPUs do not run yet, and a thread that another program has moved, need a second attempt.
pub(crate) const RETRY: (Nanos, Nanos) = (Nanos::ms(100), Nanos::s(30));

/// The periods of a promise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// Instant at which the latest period ended.
    pub(crate) ended: Instant,
    pub(crate) length: Nanos,
}

impl Periods {
    /// Returns the time from `now` to the end of the current period, if each period follows the one before.
    pub(crate) fn left(self, now: Instant) -> Nanos {
        self.length - Nanos::ns(now.saturating_since(self.ended).as_ns() % self.length.as_ns())
    }
}

/// What the service knows about a running VM.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) enforced: Enforced,
    pub(crate) measured: Measured,
    /// The measurements of each entity of the promise: its part of the promise on one CPU.
    pub(crate) of_entities: BTreeMap<EntityId, Measured>,
    /// Instant at which the latest period of the promise ended.
    pub(crate) period_ended: Option<Instant>,
    /// The entities to which the promise is not kept, according to the core.
    pub(crate) short: BTreeSet<EntityId>,
    /// Whether a scheduler in the kernel dispatches the whole promise.
    pub(crate) is_in_kernel: bool,
    /// Reason why the desired state is not in force.
    pub(crate) refused: Option<Explanation>,
    /// Instant of the next attempt, and the pause after it.
    pub(crate) next: Instant,
    pub(crate) pause: Nanos,
}

impl Default for Standing {
    fn default() -> Standing {
        Standing {
            enforced: Enforced::default(),
            measured: Measured::default(),
            of_entities: BTreeMap::new(),
            period_ended: None,
            short: BTreeSet::new(),
            is_in_kernel: false,
            refused: None,
            next: Instant::ZERO,
            pause: RETRY.0,
        }
    }
}

impl Standing {
    /// Returns what is known about a VM after a new connection to the core, which keeps `enforced` for it. `short` are the
    /// entities to which the promise is not kept. If the core has replaced its program, the promise is the same, and its
    /// measurement continues.
    pub(crate) fn reconnected(self, enforced: Enforced, short: BTreeSet<EntityId>) -> Standing {
        if enforced.request().is_none() || enforced.request() != self.enforced.request() {
            return Standing { enforced, short, ..Standing::default() };
        }
        let pairs = self.enforced.entities().iter().zip(enforced.entities());
        let of_entities = pairs.filter_map(|(was, is)| Some((*is, *self.of_entities.get(was)?))).collect();
        Standing { enforced, short, measured: self.measured, of_entities, ..Standing::default() }
    }

    /// Makes `core` keep what is desired for `vm`. A new promise is measured anew.
    pub(crate) fn become_desired(&mut self, core: &Client, vm: &Found, desired: &Desired) -> Result<(), Refusal> {
        let before = self.enforced.request().cloned();
        let outcome = self.enforced.become_desired(core, vm, desired);
        if self.enforced.request() != before.as_ref() {
            (self.measured, self.short) = (Measured::default(), BTreeSet::new());
            self.period_ended = None;
            self.of_entities.clear();
        }
        outcome
    }

    /// Counts a period, which ended at `at`, or notes whether the promise is kept.
    pub(crate) fn hear(&mut self, event: &Event, at: Instant) {
        match *event {
            Event::Period { entity, due, delivered, throughout } => {
                self.period_ended = Some(at);
                for measured in [&mut self.measured, self.of_entities.entry(entity).or_default()] {
                    measured.count(due.as_ns(), delivered.as_ns(), throughout);
                }
            }
            Event::Kept { entity, kept: true, .. } => drop(self.short.remove(&entity)),
            Event::Kept { entity, kept: false, .. } => drop(self.short.insert(entity)),
            _ => {}
        }
    }

    /// Returns the periods of the promise; `None`: none has ended yet.
    pub(crate) fn periods(&self) -> Option<Periods> {
        Some(Periods { ended: self.period_ended?, length: self.enforced.request()?.reservation.period })
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
