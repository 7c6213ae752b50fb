//! [`stream`]: the states, measurements and events of the host, as they change, for a page.

use crate::events::{After, Events, now_ms};
use crate::requests::{Ask, Requests};
use api::{Event, Happened, LiveVms, Vm};
use axum::response::sse;
use sched::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use sys::clock;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval};

/// Minimum interval between two readings of the CPU time of all threads.
const USAGE: Nanos = Nanos::s(1);

/// The way to a reader.
pub(crate) type Reader = mpsc::Sender<Result<sse::Event, Infallible>>;

/// Sends the VMs that have changed in each `pause`, their CPU time, and the events after number `after`, until the reader ends.
/// Holds `_room` meanwhile.
pub(crate) async fn stream(
    requests: Requests,
    events: Arc<Events>,
    after: Option<u64>,
    pause: Duration,
    reader: Reader,
    _room: OwnedSemaphorePermit,
) {
    let mut latest = events.watch();
    let mut last = after.unwrap_or_else(|| *latest.borrow_and_update());
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sent, mut next_usage) = (None, clock::now());
    loop {
        let new = tokio::select! {
            changed = latest.changed() => {
                if changed.is_err() { return }
                since(&events, &mut last)
            }
            _ = ticks.tick() => {
                // The page learns an event before the states that follow from it.
                let mut new = since(&events, &mut last);
                let Ok(vms) = requests.ask(Ask::List).await else { return };
                let now = clock::now();
                if next_usage <= now {
                    next_usage = now.saturating_add(USAGE);
                    let Ok(reading) = requests.ask(Ask::Usages).await else { return };
                    let Ok(usages) = reading.wait().await else { return };
                    new.push(message("usage", &usages));
                }
                new.extend(changes(&mut sent, vms).map(|changes| message("vms", &changes)));
                new
            }
            () = reader.closed() => return,
        };
        for message in new {
            if reader.send(Ok(message)).await.is_err() {
                return;
            }
        }
    }
}

/// Returns a message without a number.
fn message(name: &str, content: &impl Serialize) -> sse::Event {
    sse::Event::default().event(name).data(serde_json::to_string(content).expect("all of it can be JSON"))
}

/// Returns the events after number `last`, which becomes the number of the last of them. If the service no longer has all of
/// them, the event `gap` comes first.
pub(crate) fn since(events: &Events, last: &mut u64) -> Vec<sse::Event> {
    let (is_whole, new) = match events.after(*last) {
        After::All(new) => (true, new),
        After::SomeLost(new) => (false, new),
    };
    let first = new.first().map_or_else(|| *events.watch().borrow(), |event| event.number - 1);
    let gap = (!is_whole).then(|| Event { number: first, at_ms: now_ms(), vm: None, happened: Happened::Gap });
    let all = gap.into_iter().chain(new);
    let numbered = all.map(|event| {
        *last = event.number;
        message(event.happened.name(), &event).id(event.number.to_string())
    });
    numbered.collect()
}

/// Returns the VMs that differ from those in `sent`, which become the present ones; `None`: there are none. At first, nothing
/// was sent.
fn changes(sent: &mut Option<BTreeMap<String, Vm>>, vms: Vec<Vm>) -> Option<LiveVms> {
    let is_first = sent.is_none();
    let before = sent.take().unwrap_or_default();
    let present: BTreeMap<String, Vm> = vms.into_iter().map(|vm| (vm.id.clone(), vm)).collect();
    let changed = present.values().filter(|vm| before.get(&vm.id) != Some(vm)).cloned().collect();
    let gone = before.keys().filter(|id| !present.contains_key(*id)).cloned().collect();
    let changes = LiveVms { at_ms: now_ms(), vms: changed, gone };
    *sent = Some(present);
    (is_first || !changes.vms.is_empty() || !changes.gone.is_empty()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Desired, Kind, Measured, Phase, State};

    fn vm(id: &str, generation: u64) -> Vm {
        let state = State { phase: Phase::None, mechanism: None, reason: None, remedy: None };
        Vm {
            id: id.to_string(),
            name: id.to_string(),
            kind: Kind::Qemu,
            process: None,
            vcpus: Vec::new(),
            generation,
            desired: Desired::default(),
            source: None,
            state,
            measured: Measured::default(),
        }
    }

    #[test]
    fn the_first_message_has_all_vms_and_the_next_ones_what_has_changed() {
        let mut sent = None;
        assert_eq!(changes(&mut None, Vec::new()).map(|first| first.vms), Some(Vec::new()));
        assert_eq!(changes(&mut sent, vec![vm("a", 1), vm("b", 1)]).unwrap().vms.len(), 2);
        assert_eq!(changes(&mut sent, vec![vm("a", 1), vm("b", 1)]), None);
        let next = changes(&mut sent, vec![vm("b", 2)]).unwrap();
        assert_eq!((next.vms, next.gone), (vec![vm("b", 2)], vec!["a".to_string()]));
    }

    #[test]
    fn events_that_are_lost_are_a_gap() {
        let events = Events::new();
        let mut last = *events.watch().borrow();
        events.push(Some("vm"), Happened::Ended);
        assert_eq!(since(&events, &mut last).len(), 1);
        assert_eq!((since(&events, &mut last).len(), last), (0, *events.watch().borrow()));
        let mut unknown = 7;
        assert_eq!(since(&events, &mut unknown).len(), 2);
        assert_eq!(unknown, last);
    }
}
