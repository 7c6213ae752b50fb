//! What happened, until somebody reads it: events of the same form as a simulation's, kept without allocating.

use sched::{Instant, Nanos};
use trace::Event;

/// How many events are kept for a reader who is late: some seconds of the shortest periods.
pub(crate) const EVENTS_MOST: usize = 1 << 16;

/// Events that nobody has read yet.
#[derive(Debug)]
pub(super) struct Journal {
    events: Vec<(Instant, Event)>,
    lost: u64,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { events: Vec::with_capacity(EVENTS_MOST), lost: 0 }
    }

    /// One more. Where there is no room, it is counted and gone.
    pub(super) fn note(&mut self, at: Instant, event: Event) {
        if self.events.len() < self.events.capacity() {
            self.events.push((at, event));
        } else {
            self.lost += 1;
        }
    }

    /// Hands out what there is and goes on in `empty`, which a reader has emptied. Says how many were lost since.
    pub(super) fn exchange(&mut self, empty: &mut Vec<(Instant, Event)>) -> u64 {
        empty.clear();
        empty.reserve(EVENTS_MOST);
        std::mem::swap(&mut self.events, empty);
        std::mem::take(&mut self.lost)
    }
}

/// What was due and delivered in the current period of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    /// What was left of its slice when the period began: the slice, less what had been delivered too much.
    begun: i64,
    /// Whether it wanted to run all the time since.
    pub(super) throughout: bool,
}

impl Ledger {
    /// Of a period that begins with so much left.
    pub(super) fn begin(left: i64, throughout: bool) -> Ledger {
        Ledger { begun: left, throughout }
    }

    /// The same, but that it slept in between.
    pub(super) fn interrupted(self) -> Ledger {
        Ledger { throughout: false, ..self }
    }

    /// What was due in the period that ends now with so much left, and what was delivered.
    pub(super) fn end(&self, left: i64, slice: Nanos) -> (Nanos, Nanos) {
        let time = |ns: i64| Nanos::ns(ns.max(0).unsigned_abs());
        (time(self.begun).min(slice), time(self.begun.saturating_sub(left)))
    }
}
