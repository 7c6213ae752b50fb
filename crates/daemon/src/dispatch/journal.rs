//! The journal of events, which another thread reads. Events have the same format as in a simulation. Adding an event
//! does not allocate memory.

use sched::{Instant, Nanos};
use trace::Event;

/// Maximum number of unread events. A client with the shortest period has 10,000 periods per second, with several
/// events each.
pub(crate) const EVENTS_MOST: usize = 1 << 16;

/// Unread events.
#[derive(Debug)]
pub(super) struct Journal {
    events: Vec<(Instant, Event)>,
    lost: u64,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { events: Vec::with_capacity(EVENTS_MOST), lost: 0 }
    }

    /// Adds an event. A full journal counts the event as lost.
    pub(super) fn note(&mut self, at: Instant, event: Event) {
        if self.events.len() < self.events.capacity() {
            self.events.push((at, event));
        } else {
            self.lost += 1;
        }
    }

    /// Replaces the content of `empty` with the unread events. Returns the number of lost events.
    pub(super) fn exchange(&mut self, empty: &mut Vec<(Instant, Event)>) -> u64 {
        empty.clear();
        empty.reserve(EVENTS_MOST);
        std::mem::swap(&mut self.events, empty);
        std::mem::take(&mut self.lost)
    }
}

/// Due and delivered time of a client in its current period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    /// Remaining slice at the start of the period: the slice minus previous overruns.
    begun: i64,
    /// Whether the client has been runnable throughout the period.
    pub(super) throughout: bool,
}

impl Ledger {
    /// Starts the ledger of a period. `left` is the remaining time of the client.
    pub(super) fn begin(left: i64, throughout: bool) -> Ledger {
        Ledger { begun: left, throughout }
    }

    /// Returns the ledger for a client that has blocked since the start of the period.
    pub(super) fn interrupted(self) -> Ledger {
        Ledger { throughout: false, ..self }
    }

    /// Returns the due and the delivered time of the period that ends now. `left` is the remaining time of the client.
    pub(super) fn end(&self, left: i64, slice: Nanos) -> (Nanos, Nanos) {
        let time = |ns: i64| Nanos::ns(ns.max(0).unsigned_abs());
        (time(self.begun).min(slice), time(self.begun.saturating_sub(left)))
    }
}
