//! The promises and shares of the former program of this process, which the command thread continues.

use super::commands::{Commands, ScannedProcess};
use super::handover::State;
use super::kernel_kept;
use super::message::{PromiseInForce, ShareInForce};
use super::shared::at_agent_priority;
use crate::dispatch::{FormerClient, KeptBy, Others, PromiseRequest, Refusal, release_groups};
use crate::kernel::Kernel;
use crate::table::{Entry, Row};
use sched::{CpuSet, EntityId};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use sys::clock;
use sys::thread::Identity;
use trace::Event;

/// The entities of this program, by their former entities.
type Entities = BTreeMap<EntityId, EntityId>;

impl<'k> Commands<'_, 'k> {
    /// Continues the reservations and shares of the former program, and makes its other promises again. A promise that is
    /// refused now ends, with a warning.
    pub(super) fn take_over(&self, former: State) {
        let State { roster, mut clients, reservations, shares, suspended, unread, lost, warnings, .. } = former;
        let shared = self.shared;
        warnings.into_iter().for_each(|warning| shared.warn(warning));
        self.take_over_shares(shares, roster.shares);
        let continued = shared.kernel_kept.as_ref().map(|kept| kernel_kept::take_over(kept, reservations));
        kernel_kept::count_reserved(shared);
        let continued = continued.unwrap_or_default();
        let mut entities: Entities = continued.iter().map(|(was, is, _)| (*was, *is)).collect();
        let scans = self.scan(&roster.promises);
        self.restore_others(&continued.into_iter().map(|(.., row)| row).collect::<Vec<_>>());
        let mut gangs = Entities::new();
        for (promise, scanned) in roster.promises.iter().zip(scans) {
            if promise.request.by == KeptBy::Kernel {
                let of_promise = promise.entities.iter().filter_map(|e| entities.get(e).copied());
                let continued = PromiseInForce { entities: of_promise.collect(), ..promise.clone() };
                self.roster.borrow_mut().promises.push(continued);
                continue;
            }
            let (of_promise, rest) = clients.into_iter().partition(|client| promise.entities.contains(&client.entity));
            clients = rest;
            let gap = clock::now().saturating_since(suspended);
            match self.make_again(promise, scanned, &of_promise, &gangs) {
                Ok(made) => {
                    gangs.extend(promise.gang.filter(|gang| !gangs.contains_key(gang)).zip(made.first().copied()));
                    entities.extend(at_agent_priority(|| shared.lock().take_over(&made, of_promise, gap)));
                }
                Err(refused) => shared.warn(refused.reason()),
            }
        }
        // Removes the promises whose reserved threads have ended.
        self.judged_roster();
        let unread = unread.into_iter().filter_map(|(at, event)| Some((at, renumbered(event, &entities)?))).collect();
        at_agent_priority(|| shared.lock().note_former(unread, lost));
        shared.keeper_bell.ring();
    }

    /// Continues the shares of the CPUs, whose groups are in rows of the table, and removes all other groups.
    fn take_over_shares(&self, former: Vec<(u32, Vec<usize>)>, roster: Vec<ShareInForce>) {
        let (kernel, table) = (self.shared.kernel, &self.shared.table);
        let is_of_share = |row: Row| former.iter().any(|(_, rows)| rows.contains(&row.number()));
        let (of_shares, others): (Vec<_>, Vec<_>) = table.groups().into_iter().partition(|(row, ..)| is_of_share(*row));
        for &(row, group, is_frozen) in &others {
            // The suspension has thawed the group, unless that failed.
            if is_frozen && kernel.thaw_group(group).is_ok() {
                table.set_frozen(row, false);
            }
        }
        let others: Vec<Row> = others.into_iter().map(|(row, ..)| row).collect();
        release_groups(&kernel, table, &others, &|| self.beat());
        let rows = |numbers: Vec<usize>| {
            let all = of_shares.iter().map(|(row, ..)| *row);
            all.filter(|row| numbers.contains(&row.number())).collect()
        };
        let shares = former.into_iter().map(|(pid, numbers)| (pid, rows(numbers)));
        self.shared.shares.lock().unwrap_or_else(PoisonError::into_inner).extend(shares);
        self.roster.borrow_mut().shares = roster;
    }

    /// Scans the processes of the promises to make again, before the former clients are
    /// [restored](Commands::restore_others). The order matters: a child that was being forked at the suspension has inherited
    /// values of Tactus. If the scan finds the child, the restoration gives it its own values. Otherwise the child is adopted
    /// like each later child.
    fn scan(&self, promises: &[PromiseInForce]) -> Vec<Option<ScannedProcess<'k>>> {
        let is_dispatched = |promise: &PromiseInForce| promise.request.by != KeptBy::Kernel;
        let scan =
            |promise: &PromiseInForce| is_dispatched(promise).then(|| self.scan_process(promise.process)).flatten();
        promises.iter().map(scan).collect()
    }

    /// Restores all threads of the table, except those in the rows `continued`. Agents can take their turns between two
    /// processes.
    fn restore_others(&self, continued: &[Row]) {
        let mut of_process: BTreeMap<Identity, Vec<(Row, Entry)>> = BTreeMap::new();
        for (row, entry) in self.shared.table.entries() {
            if !continued.contains(&row) {
                of_process.entry(entry.leader).or_default().push((row, entry));
            }
        }
        for (leader, rows) in of_process {
            self.beat();
            at_agent_priority(|| self.shared.lock().restore_former(leader, &rows));
        }
    }

    /// Makes a promise again, on the same CPUs if possible. `gangs` has, for the gang of a former promise, an entity that
    /// belongs to it now.
    fn make_again(
        &self,
        promise: &PromiseInForce,
        scanned: Option<ScannedProcess<'k>>,
        former: &[FormerClient],
        gangs: &Entities,
    ) -> Result<Vec<EntityId>, Refusal> {
        let others = match promise.gang {
            None => promise.request.others,
            Some(gang) => gangs.get(&gang).map_or(Others::Later, |e| Others::Of(*e)),
        };
        let asked = PromiseRequest { others, ..promise.request.clone() };
        let there: CpuSet = former.iter().map(|client| client.cpu).collect();
        let first = PromiseRequest { affinity: asked.affinity.and(&there), ..asked.clone() };
        self.admit_scanned(&first, promise.process, scanned, &asked).or_else(|refused| match refused {
            Refusal::Gone(_) => Err(refused),
            _ => self.admit(&asked, promise.process),
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
