//! [`stream`]: the states, measurements and events of the host, as they change, for a page.

use crate::events::{After, Events, now_ms};
use crate::requests::{Ask, Requests};
use crate::usage;
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
    let (mut sent, mut next_usage) = (BTreeMap::new(), clock::now());
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
                    let running = vms.clone();
                    let Ok(usages) = tokio::task::spawn_blocking(move || usage::of_all(&running)).await else { return };
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

/// Returns the VMs that differ from those in `sent`, which become the present ones; `None`: there are none.
fn changes(sent: &mut BTreeMap<String, Vm>, vms: Vec<Vm>) -> Option<LiveVms> {
    let is_first = sent.is_empty();
    let present: BTreeMap<String, Vm> = vms.into_iter().map(|vm| (vm.id.clone(), vm)).collect();
    let changed = present.values().filter(|vm| sent.get(&vm.id) != Some(vm)).cloned().collect();
    let gone = sent.keys().filter(|id| !present.contains_key(*id)).cloned().collect();
    let changes = LiveVms { at_ms: now_ms(), vms: changed, gone };
    *sent = present;
    (is_first || !changes.vms.is_empty() || !changes.gone.is_empty()).then_some(changes)
}
