//! [`changes`]: arrivals, departures, boots and new reservations of a scenario, in order of time.

use scenario::{AppSpec, EntitySpec, GuestSpec, Scenario};
use sched::Instant;
use workloads::network::At;

/// A kind of change. Changes at one instant happen in the order of the variants. Departures come first, to make room
/// for arrivals. Boots follow arrivals, because a guest boots once all its vCPUs are attached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Change {
    Leaves,
    Comes,
    Boots,
    Adjusts,
}

/// The subject of a change, by its index in the scenario. An entity or application also has the index of its guest, or
/// `None` if it is on a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    Entity(Option<usize>, usize),
    Application(Option<usize>, usize),
    Guest(usize),
    /// The entity whose reservation changes, and the number of earlier changes.
    Reservation(usize, usize),
}

pub(crate) fn entities(scenario: &Scenario, guest: Option<usize>) -> &[EntitySpec] {
    guest.map_or(&scenario.entities, |guest| &scenario.guests[guest].entities)
}

pub(crate) fn applications(scenario: &Scenario, guest: Option<usize>) -> &[AppSpec] {
    guest.map_or(&scenario.applications, |guest| &scenario.guests[guest].applications)
}

/// Returns the instant at which a guest boots: the arrival of its last vCPU.
fn boots(scenario: &Scenario, guest: &GuestSpec) -> Instant {
    let vcpus = scenario.entities[guest.vcpus.clone()].iter();
    vcpus.map(|vcpu| vcpu.arrival).max().unwrap_or(Instant::ZERO)
}

/// Returns the indices of the guests that boot before the end of the run, in the order in which they boot.
pub(crate) fn boot_order(scenario: &Scenario) -> Vec<usize> {
    let end = Instant::ZERO + scenario.length;
    let mut order: Vec<(Instant, usize)> =
        scenario.guests.iter().enumerate().map(|(index, guest)| (boots(scenario, guest), index)).collect();
    order.retain(|(at, _)| *at < end);
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}

/// Returns the changes before `end`, in order of time.
pub(crate) fn changes(scenario: &Scenario, end: Instant) -> Vec<(Instant, Change, Subject)> {
    let mut changes = Vec::new();
    let mut add = |arrival: Instant, leaves: Option<Instant>, comes: Change, subject: Subject| {
        if arrival < end {
            changes.push((arrival, comes, subject));
        }
        if let Some(leaves) = leaves.filter(|&leaves| leaves < end) {
            changes.push((leaves, Change::Leaves, subject));
        }
    };
    for of in std::iter::once(None).chain((0..scenario.guests.len()).map(Some)) {
        // An entity that arrives in a guest at the instant of the boot is attached after the boot.
        let comes = if of.is_none() { Change::Comes } else { Change::Boots };
        for (index, entity) in entities(scenario, of).iter().enumerate() {
            add(entity.arrival, entity.leaves, comes, Subject::Entity(of, index));
        }
        for (index, application) in applications(scenario, of).iter().enumerate() {
            // An application with parts in guests starts after these guests have booted.
            let reaches = application.reach.peers.iter().any(|peer| peer.at != At::Outside);
            let comes = if reaches { Change::Boots } else { comes };
            add(application.arrival, application.leaves, comes, Subject::Application(of, index));
        }
    }
    for (index, entity) in scenario.entities.iter().enumerate() {
        for (nth, (at, _)) in entity.changes.iter().enumerate() {
            add(*at, None, Change::Adjusts, Subject::Reservation(index, nth));
        }
    }
    for (index, guest) in scenario.guests.iter().enumerate() {
        add(boots(scenario, guest), None, Change::Boots, Subject::Guest(index));
    }
    // Among changes of one kind at one instant, guests come first, so that a guest boots before its entities are
    // attached.
    let guests_first = |subject: &Subject| (!matches!(subject, Subject::Guest(_)), *subject);
    changes.sort_unstable_by_key(|(at, change, subject)| (*at, *change, guests_first(subject)));
    changes
}
