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
    kept: KeptRecord,
}

impl<K: Kernel> Dispatcher<K> {
    /// Suspends all clients for good, and returns them. The caller executes the new program with the dispatcher locked.
    pub fn pass_on(&mut self) -> Vec<FormerClient> {
        self.suspend();
        let former = |(entity, client): (EntityId, &Client<K>)| {
            let (cpu, kept) = (client.cpu, client.kept.clone());
            FormerClient { entity, cpu, kept }
        };
        self.clients.iter().map(former).collect()
    }

    /// Returns this dispatcher with another time zero.
    #[must_use]
    pub fn with_epoch(mut self, epoch: Instant) -> Dispatcher<K> {
        self.epoch = epoch;
        self
    }

    /// Restores the threads in the rows that `is_former` selects, and finds the children that they were forking when the
    /// former program suspended them. The restoration goes on as that of dismissed clients.
    pub fn restore_former(&mut self, is_former: impl Fn(Row) -> bool) {
        let former: Vec<(Row, Entry)> = self.table.entries().into_iter().filter(|(row, _)| is_former(*row)).collect();
        if former.is_empty() {
            return;
        }
        let threads: Vec<Identity> = former.iter().map(|(_, entry)| entry.thread).collect();
        let mut restoring = Restoring::begin(&self.kernel, &self.table, |entry| threads.contains(&entry.thread));
        restoring.look(&self.kernel, &self.table);
        let is_back = restoring.threads().iter().filter(|it| it.end() != End::Failed).filter_map(|it| it.row);
        is_back.for_each(|row| self.table.set_given_back(row));
        let mut leaders: Vec<Identity> = former.iter().map(|(_, entry)| entry.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let confined: CpuSet = former.iter().flat_map(|(_, entry)| entry.confined.iter()).collect();
        let rows = former.into_iter().map(|(row, _)| row).collect();
        let leaving = Leaving { restoring: None, rows, leaders, confined };
        self.leaving.add(leaving, restoring, &self.table);
    }

    /// Continues the judgement of the clients `former` for `entities`, the clients of the same promise. The periods since
    /// `since`, according to the kernel's clock, count as missed. Returns pairs of a former and a present entity.
    pub fn take_over(
        &mut self,
        entities: &[EntityId],
        mut former: Vec<FormerClient>,
        since: Instant,
    ) -> Vec<(EntityId, EntityId)> {
        let (now, gap) = (self.now(), self.kernel.now().saturating_since(since));
        let mut pairs = Vec::new();
        for &e in entities {
            let Some(client) = self.clients.get_mut(e).filter(|_| !former.is_empty()) else { continue };
            let on_its_cpu = former.iter().position(|it| it.cpu == client.cpu);
            let FormerClient { entity, kept, .. } = former.swap_remove(on_its_cpu.unwrap_or(0));
            pairs.push((entity, e));
            client.kept = kept;
            let Reservation { slice, period, .. } = client.reservation;
            for _ in 0..gap.as_ns().div_ceil(period.as_ns()).min(PERIODS_MOST) {
                self.judge(e, slice, Nanos::ZERO, true, now);
            }
        }
        pairs
    }

    /// Adds measurements that the former program has made.
    pub fn note_former(&mut self, events: Vec<(Instant, Event)>) {
        events.into_iter().for_each(|(at, event)| self.journal.note(at, event));
    }
}
