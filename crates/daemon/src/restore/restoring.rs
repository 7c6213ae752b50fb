//! [`Restoring`]: restoring that is not over yet, for who cannot wait in between: a daemon that dispatches others meanwhile.

use super::newborn::Family;
use super::{Restored, ThreadRestored, bring_back};
use crate::kernel::Kernel;
use crate::table::{Entry, Row, Table};
use sched::{Instant, Nanos};

/// The shortest pause between two looks.
const REST: Nanos = Nanos::ms(1);

/// Threads that were restored, and who may still be in forks that began before that.
#[derive(Debug)]
pub struct Restoring {
    threads: Vec<ThreadRestored>,
    damaged: usize,
    family: Family,
    begun: Instant,
    /// When the last look was over, and how long it took.
    looked: Instant,
    took: Nanos,
}

impl Restoring {
    /// Makes those in `table` what they were who are `wanted`. Whom they have begun since is for the [looks](Restoring::look) that
    /// follow. Their rows stay, to be forgotten by who asked, once [nobody forks](Restoring::is_over) any more.
    pub fn begin<K: Kernel>(kernel: &K, table: &Table, wanted: impl Fn(&Entry) -> bool) -> Restoring {
        let begun = kernel.now();
        let all = table.entries();
        let entries: Vec<(Row, Entry, bool)> = all.iter().filter(|(_, entry, _)| wanted(entry)).copied().collect();
        let threads = bring_back(kernel, table, &entries);
        let [entries, all] = [entries, all].map(|rows| rows.into_iter().map(|(_, entry, _)| entry).collect::<Vec<_>>());
        let family = Family::of(&entries, &all);
        Restoring { threads, damaged: table.damaged(), family, begun, looked: begun, took: Nanos::ZERO }
    }

    /// Looks for whom they have begun, and makes it what it would have been.
    pub fn look<K: Kernel>(&mut self, kernel: &K, table: &Table) {
        // Who was taken in meanwhile is another's.
        let all: Vec<Entry> = table.entries().into_iter().map(|(_, entry, _)| entry).collect();
        let now = kernel.now();
        self.family.leave_out(&all);
        self.family.look(kernel, &mut self.threads);
        self.looked = kernel.now();
        self.took = self.looked.saturating_since(now);
    }

    /// Whether nobody is in a fork any more that began before, and all whom they have begun were found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.family.forking().len() == 0
    }

    /// How long to wait until the next look; none: it is over. As long as a look takes, at least, so that half of a CPU is left
    /// to those who are waited for.
    #[must_use]
    pub fn rest(&self) -> Option<Nanos> {
        (!self.is_over()).then_some(self.took.max(REST))
    }

    /// From its beginning to its last look.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.looked.saturating_since(self.begun)
    }

    /// What came of each thread so far.
    #[must_use]
    pub fn threads(&self) -> &[ThreadRestored] {
        &self.threads
    }

    /// What came of everybody: nobody looks again.
    #[must_use]
    pub fn end(self) -> Restored {
        let Restoring { threads, damaged, family, .. } = self;
        Restored { threads, damaged, missed: family.missed().cloned(), unsure: family.forking().collect() }
    }
}
