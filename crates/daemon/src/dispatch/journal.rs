//! The journal of events, which another thread reads. Events have the same format as in a simulation. Adding an event
//! does not allocate memory.

use sched::{Instant, Nanos};
use trace::Event;

/// Maximum number of unread events. A client with the shortest period has 10,000 periods per second, with several
/// events each.
pub(crate) const EVENTS_MOST: usize = 1 << 16;

/// Part of the journal that only events without repetition may use: arrivals, departures, changes of promises, and changes
/// of the judgement about a promise. Without these events, a reader could not interpret the others.
const RESERVED: usize = EVENTS_MOST / 16;

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
        let is_rare = matches!(
            event,
            Event::Attach { .. }
                | Event::Adjust { .. }
                | Event::Detach { .. }
                | Event::GroupCreated { .. }
                | Event::GroupRemoved { .. }
                | Event::Kept { .. }
        );
        let room = self.events.capacity() - if is_rare { 0 } else { RESERVED };
        if self.events.len() < room {
            self.events.push((at, event));
        } else {
            self.lost += 1;
        }
    }

    /// Counts `events` as lost.
    pub(super) fn lose(&mut self, events: u64) {
        self.lost += events;
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

    /// Returns the ledger for a client that is runnable from the start of the period on.
    pub(super) fn runnable(self) -> Ledger {
        Ledger { throughout: true, ..self }
    }

    /// Returns the ledger after the remaining time of the client was reduced by `by`. Unit: nanoseconds.
    pub(super) fn reduced(self, by: i64) -> Ledger {
        Ledger { begun: self.begun.saturating_sub(by), ..self }
    }

    /// Returns the due and the delivered time of the period that ends now. `left` is the remaining time of the client.
    pub(super) fn end(&self, left: i64, slice: Nanos) -> (Nanos, Nanos) {
        let time = |ns: i64| Nanos::ns(ns.max(0).unsigned_abs());
        (time(self.begun).min(slice), time(self.begun.saturating_sub(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::EntityId;

    #[test]
    fn a_full_journal_still_takes_the_judgement_about_a_promise() {
        let (mut journal, entity) = (Journal::new(), EntityId::new(0, 0));
        for _ in 0..EVENTS_MOST {
            journal.note(Instant::ZERO, Event::Settled);
        }
        let kept = Event::Kept { entity, kept: false, missed: 26, of: 100 };
        journal.note(Instant::ZERO, kept.clone());
        let mut read = Vec::new();
        assert_eq!(journal.exchange(&mut read), RESERVED as u64);
        assert_eq!(read.last(), Some(&(Instant::ZERO, kept)));
    }
}
