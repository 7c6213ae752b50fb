//! The handover of clients to the program that replaces the core in its process.
//!
//! The former program suspends its clients: their threads have their own values again, and their rows stay in the table.
//! The new program treats them as dismissed clients, whose threads may still be inside a fork, and makes the promises
//! again.

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::kept::KeptRecord;
use super::leaving::Leaving;
use crate::kernel::Kernel;
use crate::restore::{End, Restoring};
use crate::table::{Entry, Row};
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos, Reservation};
use serde::{Deserialize, Serialize};
use sys::thread::Identity;
use trace::Event;

/// Maximum number of missed periods that one handover adds to the journal.
const PERIODS_MOST: u64 = 1_000;

/// A client of the former program.
#[derive(Debug, Serialize, Deserialize)]
pub struct FormerClient {
    /// The entity of the client in the former program.
    pub entity: EntityId,
    /// The CPU of the client.
    pub cpu: CpuId,
    /// Whether all threads of the client slept.
    is_blocked: bool,
    kept: KeptRecord,
}

impl<K: Kernel> Dispatcher<K> {
    /// Suspends all clients for good, and returns them. The caller executes the new program with the dispatcher locked.
    pub fn pass_on(&mut self) -> Vec<FormerClient> {
        self.suspend();
        let former = |(entity, client): (EntityId, &Client<K>)| {
            let (cpu, is_blocked, kept) = (client.cpu, client.is_blocked, client.kept.clone());
            FormerClient { entity, cpu, is_blocked, kept }
        };
        self.clients.iter().map(former).collect()
    }

    /// Returns this dispatcher with another time zero.
    #[must_use]
    pub fn with_epoch(mut self, epoch: Instant) -> Dispatcher<K> {
        self.epoch = epoch;
        self
    }

    /// Restores the threads of one process in the rows `former`, and finds the children that they were forking when the
    /// former program suspended them. The restoration goes on as that of a dismissed client.
    pub fn restore_former(&mut self, leader: Identity, former: &[(Row, Entry)]) {
        let rows: Vec<Row> = former.iter().map(|(row, _)| *row).collect();
        let mut restoring = Restoring::begin_rows(&self.kernel, &self.table, &rows);
        restoring.look(&self.kernel, &self.table);
        let is_back = restoring.threads().iter().filter(|it| it.end() != End::Failed).filter_map(|it| it.row);
        is_back.for_each(|row| self.table.set_given_back(row));
        let confined: CpuSet = former.iter().flat_map(|(_, entry)| entry.confined.iter()).collect();
        let leaving = Leaving { restoring: None, rows, leaders: vec![leader], confined };
        self.leaving.add(leaving, restoring, &self.table);
    }

    /// Continues the judgement of the clients `former` for `entities`, the clients of the same promise. The periods in
    /// `gap` count as missed by the clients that were runnable. Returns pairs of a former and a present entity.
    pub fn take_over(
        &mut self,
        entities: &[EntityId],
        mut former: Vec<FormerClient>,
        gap: Nanos,
    ) -> Vec<(EntityId, EntityId)> {
        let (now, mut pairs) = (self.now(), Vec::new());
        for is_on_its_cpu in [true, false] {
            for &e in entities {
                let Some(client) = self.clients.get_mut(e) else { continue };
                let is_it = |it: &FormerClient| !is_on_its_cpu || it.cpu == client.cpu;
                let is_open = pairs.iter().all(|(_, present)| *present != e);
                let Some(at) = former.iter().position(is_it).filter(|_| is_open) else { continue };
                let FormerClient { entity, is_blocked, kept, .. } = former.swap_remove(at);
                pairs.push((entity, e));
                client.kept = kept;
                let Reservation { slice, period, .. } = client.reservation;
                for _ in 0..gap.as_ns().div_ceil(period.as_ns()).min(PERIODS_MOST) {
                    self.judge(e, slice, Nanos::ZERO, !is_blocked, now);
                }
            }
        }
        pairs
    }

    /// Adds measurements that the former program has made, and the number of those that were lost.
    pub fn note_former(&mut self, events: Vec<(Instant, Event)>, lost: u64) {
        events.into_iter().for_each(|(at, event)| self.journal.note(at, event));
        self.journal.lose(lost);
    }
}
