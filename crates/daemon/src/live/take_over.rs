//! The promises and shares of the former program of this process, which the command thread continues.

use super::commands::{Commands, ScannedProcess};
use super::handover::State;
use super::kernel_kept;
use super::message::{PromiseInForce, ShareInForce};
use super::shared::at_agent_priority;
use crate::dispatch::{FormerClient, FormerReservations, KeptBy, Others, PromiseRequest, Refusal, release_groups};
use crate::table::Row;
use sched::{CpuSet, EntityId};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use trace::Event;

/// The entity of a former entity in this program.
type Entities = BTreeMap<EntityId, EntityId>;

impl<'k> Commands<'_, 'k> {
    /// Continues what the kernel has kept meanwhile, and makes the other promises again. A promise that is refused now ends,
    /// with a warning.
    pub(super) fn take_over(&self, former: State) {
        let State { roster, mut clients, reservations, shares, suspended, unread, warnings, .. } = former;
        let shared = self.shared;
        warnings.into_iter().for_each(|warning| shared.warn(warning));
        self.take_over_shares(shares, roster.shares);
        let reserved = at_agent_priority(|| shared.table.entries());
        let reserved: Vec<Row> =
            reserved.into_iter().map(|(row, _)| row).filter(|row| reservations.has_row(row.number())).collect();
        let mut entities = self.take_over_reservations(reservations);
        let scans = self.scan_and_restore(&roster.promises, &reserved);
        for (promise, scanned) in roster.promises.iter().zip(scans) {
            if promise.request.by == KeptBy::Kernel {
                let of_promise = promise.entities.iter().filter_map(|e| entities.get(e).copied());
                let continued = PromiseInForce { entities: of_promise.collect(), ..promise.clone() };
                self.roster.borrow_mut().promises.push(continued);
                continue;
            }
            let (of_promise, rest) = clients.into_iter().partition(|client| promise.entities.contains(&client.entity));
            clients = rest;
            match self.make_again(promise, scanned, &of_promise, &entities) {
                Ok(made) => {
                    entities.extend(at_agent_priority(|| shared.lock().take_over(&made, of_promise, suspended)));
                }
                Err(refused) => shared.warn(refused.reason()),
            }
        }
        // A promise of the kernel without threads is none.
        self.judged_roster();
        let unread = unread.into_iter().filter_map(|(at, event)| Some((at, renumbered(event, &entities)?))).collect();
        at_agent_priority(|| shared.lock().note_former(unread));
        shared.keeper_bell.ring();
    }

    /// Continues the shares of the CPUs, whose groups are in rows of the table, and removes all other groups.
    fn take_over_shares(&self, former: Vec<(u32, Vec<usize>)>, roster: Vec<ShareInForce>) {
        let (kernel, table) = (self.shared.kernel, &self.shared.table);
        let (of_shares, others): (Vec<Row>, Vec<Row>) = table
            .groups()
            .into_iter()
            .map(|(row, ..)| row)
            .partition(|row| former.iter().any(|(_, rows)| rows.contains(&row.number())));
        let rows =
            |numbers: Vec<usize>| of_shares.iter().copied().filter(|row| numbers.contains(&row.number())).collect();
        let shares = former.into_iter().map(|(pid, numbers)| (pid, rows(numbers)));
        self.shared.shares.lock().unwrap_or_else(PoisonError::into_inner).extend(shares);
        self.roster.borrow_mut().shares = roster;
        release_groups(&kernel, table, &others, &|| self.beat());
    }

    fn take_over_reservations(&self, former: FormerReservations) -> Entities {
        let shared = self.shared;
        let continued = shared.kernel_kept.as_ref().map(|kept| kernel_kept::take_over(kept, former));
        kernel_kept::count_reserved(shared);
        continued.into_iter().flatten().collect()
    }

    /// Scans the processes of the promises, and then restores the threads that the former program has served, except those
    /// in the rows `reserved`. The order matters: a child that was being forked at the suspension has inherited values of
    /// Tactus. If a scan finds the child, the restoration that follows gives it its own values. Otherwise it is adopted
    /// like each later child.
    fn scan_and_restore(&self, promises: &[PromiseInForce], reserved: &[Row]) -> Vec<Option<ScannedProcess<'k>>> {
        let is_dispatched = |promise: &PromiseInForce| promise.request.by != KeptBy::Kernel;
        let scan = |promise: &PromiseInForce| is_dispatched(promise).then(|| self.scan(promise.process)).flatten();
        let scans = promises.iter().map(scan).collect();
        at_agent_priority(|| self.shared.lock().restore_former(|row| !reserved.contains(&row)));
        scans
    }

    /// Makes a promise again, on the CPUs of before if possible.
    fn make_again(
        &self,
        promise: &PromiseInForce,
        scanned: Option<ScannedProcess<'k>>,
        former: &[FormerClient],
        entities: &Entities,
    ) -> Result<Vec<EntityId>, Refusal> {
        let others = match promise.gang {
            None => promise.request.others,
            Some(first) => entities.get(&first).map_or(Others::Later, |e| Others::Of(*e)),
        };
        let asked = PromiseRequest { others, ..promise.request.clone() };
        let there: CpuSet = former.iter().map(|client| client.cpu).collect();
        let first = PromiseRequest { affinity: asked.affinity.and(&there), ..asked.clone() };
        self.admit_scanned(&first, promise.process, scanned, &asked).or_else(|refused| match refused {
            Refusal::NoRoom(_) | Refusal::TooFewCpus { .. } => self.admit(&asked, promise.process),
            other => Err(other),
        })
    }
}

/// Returns a measurement of a former entity as one of its entity in this program; `None` if it has none.
fn renumbered(event: Event, entities: &Entities) -> Option<Event> {
    match event {
        Event::Period { entity, due, delivered, throughout } => {
            Some(Event::Period { entity: *entities.get(&entity)?, due, delivered, throughout })
        }
        Event::Kept { entity, kept, missed, of } => {
            Some(Event::Kept { entity: *entities.get(&entity)?, kept, missed, of })
        }
        _ => None,
    }
}
