//! [`Restoring`]: a restoration in steps, for a daemon that dispatches other clients in between.

use super::entries::bring_back;
use super::groups::Groups;
use super::newborn::Family;
use super::outcome::{GroupRestored, Restored, ThreadRestored};
use crate::kernel::Kernel;
use crate::table::{Entry, Row, Table};
use sched::{Instant, Nanos};

/// Maximum time that a restoration waits for forks that began before their thread was restored. Without this limit, a
/// forking thread that receives no CPU time would delay the end of the daemon, or the guardian. The guardian must
/// restore all threads within a second. It may already have spent a part of this second on a lock or a hung daemon.
pub const PATIENCE: Nanos = Nanos::ms(300);

/// The shortest pause between two scans.
const REST: Nanos = Nanos::ms(1);

/// Restored threads, and the threads among them that may be inside forks that began before their restoration.
#[derive(Debug)]
pub struct Restoring {
    threads: Vec<ThreadRestored>,
    groups: Groups,
    damaged: usize,
    family: Family,
    begun: Instant,
    /// Instant when the last scan ended. `took` is the duration of this scan.
    looked: Instant,
    took: Nanos,
}

impl Restoring {
    /// Thaws the freezer groups of `table`, and restores all threads. A later [scan](Restoring::look) removes the
    /// groups.
    pub fn begin_all<K: Kernel>(kernel: &K, table: &Table) -> Restoring {
        Restoring::begin_all_beating(kernel, table, &|| {})
    }

    pub(super) fn begin_all_beating<K: Kernel>(kernel: &K, table: &Table, beat: &dyn Fn()) -> Restoring {
        let begun = kernel.now();
        let groups = Groups::thaw_all(kernel, table, beat);
        Restoring { groups, begun, ..Restoring::begin_beating(kernel, table, |_, _| true, beat) }
    }

    /// Restores the threads of `table` that `wanted` selects. Later [scans](Restoring::look) find new children of these
    /// threads. The rows stay in the table; the caller forgets the rows once [all earlier forks](Restoring::is_over)
    /// have ended.
    pub fn begin<K: Kernel>(kernel: &K, table: &Table, wanted: impl Fn(&Entry) -> bool) -> Restoring {
        Restoring::begin_beating(kernel, table, |_, entry| wanted(entry), &|| {})
    }

    /// Restores the threads in these rows of `table` like [`begin`](Restoring::begin).
    pub fn begin_rows<K: Kernel>(kernel: &K, table: &Table, rows: &[Row]) -> Restoring {
        Restoring::begin_beating(kernel, table, |row, _| rows.contains(&row), &|| {})
    }

    fn begin_beating<K: Kernel>(
        kernel: &K,
        table: &Table,
        wanted: impl Fn(Row, &Entry) -> bool,
        beat: &dyn Fn(),
    ) -> Restoring {
        let begun = kernel.now();
        let all = table.entries();
        let entries: Vec<(Row, Entry)> = all.iter().filter(|(row, entry)| wanted(*row, entry)).copied().collect();
        let threads = bring_back(kernel, table, &entries, beat);
        let [entries, all] = [entries, all].map(|rows| rows.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>());
        let family = Family::of(&entries, &all);
        let (groups, damaged) = (Groups::default(), table.damaged());
        Restoring { threads, groups, damaged, family, begun, looked: begun, took: Nanos::ZERO }
    }

    /// Removes the groups in these rows of `table` with a later scan. The caller has thawed the groups.
    #[must_use]
    pub fn with_groups(self, table: &Table, rows: &[Row]) -> Restoring {
        Restoring { groups: Groups::thawed(table, rows), ..self }
    }

    /// Scans for new children of the restored threads, and sets the values that these children would have inherited
    /// without Tactus. Once no child is awaited any more, or [`PATIENCE`] has passed, removes the freezer groups: the removal
    /// may take long, and a child would wait for its values meanwhile.
    pub fn look<K: Kernel>(&mut self, kernel: &K, table: &Table) {
        self.look_beating(kernel, table, &|| {});
    }

    pub(super) fn look_beating<K: Kernel>(&mut self, kernel: &K, table: &Table, beat: &dyn Fn()) {
        self.scan(kernel, table, beat);
        if self.family.forking().len() == 0 || self.time() >= PATIENCE {
            self.remove_groups(kernel, table, beat);
        }
    }

    /// Scans once, and removes the groups, for a caller that restores again later.
    pub(super) fn look_once<K: Kernel>(&mut self, kernel: &K, table: &Table) {
        self.scan(kernel, table, &|| {});
        self.remove_groups(kernel, table, &|| {});
    }

    fn remove_groups<K: Kernel>(&mut self, kernel: &K, table: &Table, beat: &dyn Fn()) {
        if !self.groups.are_removed() {
            self.groups.remove(kernel, table, beat);
            // The removal is no part of the patience with forks.
            let removal = kernel.now().saturating_since(self.looked);
            self.begun = self.begun.saturating_add(removal);
            self.looked = self.looked.saturating_add(removal);
        }
    }

    fn scan<K: Kernel>(&mut self, kernel: &K, table: &Table, beat: &dyn Fn()) {
        // Read the table again: a thread that was adopted after the restoration began belongs to another client.
        let all: Vec<Entry> = table.entries().into_iter().map(|(_, entry)| entry).collect();
        let now = kernel.now();
        self.family.leave_out(&all);
        self.family.look(kernel, &mut self.threads, beat);
        self.looked = kernel.now();
        self.took = self.looked.saturating_since(now);
    }

    /// Returns whether the freezer groups are removed, all forks that began before the restoration have ended, and all
    /// children were found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.groups.are_removed() && self.family.forking().len() == 0
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

    /// Returns the rows of the groups that could not be removed.
    pub fn groups_left(&self) -> impl Iterator<Item = Row> {
        self.groups.done().iter().filter(|group| group.failure().is_some()).map(|group| group.row)
    }

    /// Ends the restoration without another scan, and returns the outcome.
    #[must_use]
    pub fn end(self) -> Restored {
        let Restoring { threads, groups, damaged, family, .. } = self;
        let groups: Vec<GroupRestored> = groups.into_done();
        Restored { threads, groups, damaged, missed: family.missed().cloned(), unsure: family.forking().collect() }
    }
}
