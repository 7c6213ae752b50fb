//! [`Events`]: the latest events, for any number of readers at their own speed.

use api::{Event, Happened};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// Number of events that are kept for readers that return.
const KEPT: usize = 4_096;

/// The latest events. Their numbers have no gaps, and go on after a restart of the service: they begin with the time of
/// the start, so a number of an earlier service is never taken for one of this service.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<VecDeque<Event>>,
    /// Number of the latest event.
    latest: watch::Sender<u64>,
}

/// The events after a number.
#[derive(PartialEq, Debug)]
pub enum After {
    /// All events after the number.
    All(Vec<Event>),
    /// The service does not have all of them: the events that it has.
    SomeLost(Vec<Event>),
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

impl Events {
    /// Returns no events. The next number follows from the time.
    #[must_use]
    pub fn new() -> Events {
        // Below 2^53 until 2039, so that every reader of JSON keeps the number exactly.
        let (latest, _) = watch::channel((now_ms() / 16) << 16);
        Events { kept: Mutex::default(), latest }
    }

    /// Adds an event of the VM with the id `vm`; `None`: of the host.
    pub fn push(&self, vm: Option<&str>, happened: Happened) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *self.latest.borrow() + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Event { number, at_ms: now_ms(), vm: vm.map(str::to_string), happened });
        // While the events are locked, no reader sees an event whose number is not the latest yet.
        self.latest.send_replace(number);
    }

    /// Returns the number of the latest event, as it changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Returns the events after `number`.
    pub fn after(&self, number: u64) -> After {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = *self.latest.borrow();
        let events: Vec<Event> = kept.iter().filter(|event| event.number > number).cloned().collect();
        let is_known = number <= latest && latest - number == events.len() as u64;
        if is_known { After::All(events) } else { After::SomeLost(kept.iter().cloned().collect()) }
    }
}

/// Returns the time since 1970-01-01 00:00 UTC. Unit: ms.
#[must_use]
pub fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(after: &After) -> Vec<u64> {
        let (After::All(events) | After::SomeLost(events)) = after;
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn a_reader_that_returns_gets_the_events_since_its_last_one_or_a_gap() {
        let events = Events::new();
        let start = *events.watch().borrow();
        assert_eq!(events.after(start), After::All(Vec::new()));
        for _ in 0..3 {
            events.push(Some("vm"), Happened::Ended);
        }
        assert_eq!(numbers(&events.after(start + 1)), [start + 2, start + 3]);
        assert!(matches!(events.after(start + 1), After::All(_)));
        // A number of another service, before or after.
        assert!(matches!(events.after(7), After::SomeLost(_)));
        assert!(matches!(events.after(start + 9), After::SomeLost(_)));
        for _ in 0..KEPT {
            events.push(None, Happened::Ended);
        }
        assert!(matches!(events.after(start + 2), After::SomeLost(_)));
        assert_eq!(numbers(&events.after(start + 3)).len(), KEPT);
        assert!(matches!(events.after(start + 3), After::All(_)));
    }
}
