//! [`Restoring`]: a restoration in steps, for a daemon that dispatches other clients in between.

use super::entries::bring_back;
use super::newborn::Family;
use super::outcome::{Restored, ThreadRestored};
use crate::kernel::Kernel;
use crate::table::{Entry, Row, Table};
use sched::{Instant, Nanos};

/// The shortest pause between two scans.
const REST: Nanos = Nanos::ms(1);

/// Restored threads, and the threads among them that may be inside forks that began before their restoration.
#[derive(Debug)]
pub struct Restoring {
    threads: Vec<ThreadRestored>,
    damaged: usize,
    family: Family,
    begun: Instant,
    /// Instant when the last scan ended. `took` is the duration of this scan.
    looked: Instant,
    took: Nanos,
}

impl Restoring {
    /// Restores the threads of `table` that `wanted` selects. Later [scans](Restoring::look) find new children of these
    /// threads. The rows stay in the table; the caller forgets the rows once [all earlier forks](Restoring::is_over)
    /// have ended.
    pub fn begin<K: Kernel>(kernel: &K, table: &Table, wanted: impl Fn(&Entry) -> bool) -> Restoring {
        let begun = kernel.now();
        let all = table.entries();
        let entries: Vec<(Row, Entry, bool)> = all.iter().filter(|(_, entry, _)| wanted(entry)).copied().collect();
        let threads = bring_back(kernel, table, &entries);
        let [entries, all] = [entries, all].map(|rows| rows.into_iter().map(|(_, entry, _)| entry).collect::<Vec<_>>());
        let family = Family::of(&entries, &all);
        Restoring { threads, damaged: table.damaged(), family, begun, looked: begun, took: Nanos::ZERO }
    }

    /// Scans for new children of the restored threads, and sets the values that these children would have inherited
    /// without Tactus.
    pub fn look<K: Kernel>(&mut self, kernel: &K, table: &Table) {
        // Read the table again: a thread that was adopted after the restoration began belongs to another client.
        let all: Vec<Entry> = table.entries().into_iter().map(|(_, entry, _)| entry).collect();
        let now = kernel.now();
        self.family.leave_out(&all);
        self.family.look(kernel, &mut self.threads);
        self.looked = kernel.now();
        self.took = self.looked.saturating_since(now);
    }

    /// Returns whether all forks that began before the restoration have ended, and all children were found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.family.forking().len() == 0
    }

    /// Returns the time to wait until the next scan; `None` if the restoration is over. The pause is at least as long
    /// as the last scan, so that the awaited threads can run for half of the time.
    #[must_use]
    pub fn pause(&self) -> Option<Nanos> {
        (!self.is_over()).then_some(self.took.max(REST))
    }

    /// Returns the time from the start of the restoration to its last scan.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.looked.saturating_since(self.begun)
    }

    /// Returns the outcome for each thread so far.
    #[must_use]
    pub fn threads(&self) -> &[ThreadRestored] {
        &self.threads
    }

    /// Ends the restoration without another scan, and returns the outcome.
    #[must_use]
    pub fn end(self) -> Restored {
        let Restoring { threads, damaged, family, .. } = self;
        Restored { threads, damaged, missed: family.missed().cloned(), unsure: family.forking().collect() }
    }
}
