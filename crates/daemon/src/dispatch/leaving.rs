//! Dismissed clients whose threads are not restored yet, or may still be inside a fork. They are restored while other
//! clients are served: the restoration of a thousand threads takes some 100 ms. Their rows stay in the table until the
//! restoration is over, so that another process can restore them.

use crate::kernel::Kernel;
use crate::restore::{End, PATIENCE, Restoring, ThreadRestored};
use crate::table::{Row, Table};
use sched::{CpuSet, Nanos};
use std::iter::successors;
use sys::thread::Identity;

/// Minimum interval between scans for new threads of a dismissed client, once [`PATIENCE`] has passed.
const RARELY: Nanos = Nanos::ms(50);

/// The restoration of a dismissed client's threads.
#[derive(Debug)]
pub struct Departure {
    /// Rows of the threads.
    threads: Vec<Row>,
    /// Rows of the control groups, which are thawed.
    groups: Vec<Row>,
    /// The restoration, once it has begun.
    restoring: Option<Restoring>,
}

impl Departure {
    /// Returns a restoration that begins with the first [`Departure::look`]. The threads are at their original level.
    pub(super) fn planned(threads: Vec<Row>, groups: Vec<Row>) -> Departure {
        Departure { threads, groups, restoring: None }
    }

    /// Returns a restoration that has begun.
    pub(super) fn begun(restoring: Restoring) -> Departure {
        Departure { threads: Vec::new(), groups: Vec::new(), restoring: Some(restoring) }
    }

    /// Restores the threads, in the first call. Scans for new children of these threads, and restores the children.
    /// Calls `beat` before each step.
    pub fn look<K: Kernel>(&mut self, kernel: &K, table: &Table, beat: &dyn Fn()) {
        let restoring = self.restoring.get_or_insert_with(|| {
            let restoring = Restoring::begin_rows(kernel, table, &self.threads, beat);
            // A later restoration must not take a change by another process for the confinement.
            let is_back = |thread: &&ThreadRestored| thread.end() != End::Failed;
            let back = restoring.threads().iter().filter(is_back);
            back.filter_map(|thread| thread.row).for_each(|row| table.set_given_back(row));
            restoring.with_groups(table, &self.groups)
        });
        restoring.look_beating(kernel, table, beat);
    }
}

/// The threads of a dismissed client.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The restoration of the client's threads; `None` during a scan.
    pub(super) departure: Option<Departure>,
    /// Rows of the threads and of the control groups.
    pub(super) rows: Vec<Row>,
    /// Processes of the client, by their first threads.
    pub(super) leaders: Vec<Identity>,
    /// The CPUs that the threads were confined to, each thread to one CPU at a time.
    pub(super) confined: CpuSet,
}

/// The dismissed clients whose restoration is not finished, indexed by number.
#[derive(Debug, Default)]
pub(super) struct AllLeaving {
    /// Entries do not move, because their indices identify them while the caller scans them.
    slots: Vec<Option<Leaving>>,
}

impl AllLeaving {
    /// Adds a dismissed client.
    pub(super) fn add(&mut self, leaving: Leaving) {
        let number = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        self.slots.resize_with(self.slots.len().max(number + 1), || None);
        self.slots[number] = Some(leaving);
    }

    /// Takes the unfinished restorations. The caller continues them with [`Departure::look`], and then
    /// [returns](AllLeaving::keep) them.
    pub(super) fn take(&mut self) -> Vec<(usize, Departure)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter_map(|(number, leaving)| Some((number, leaving.as_mut()?.departure.take()?))).collect()
    }

    /// Takes back restorations after a scan. If a restoration is finished, the rows of its threads are removed from
    /// `table`, except those of threads that could not be restored. Returns the pause until the next scan, if a scan is
    /// needed.
    pub(super) fn keep(
        &mut self,
        looked_at: impl IntoIterator<Item = (usize, Departure)>,
        table: &Table,
    ) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for (number, departure) in looked_at {
            let Some(Some(leaving)) = self.slots.get_mut(number) else { continue };
            let Some(restoring) = departure.restoring.as_ref().filter(|restoring| restoring.is_over()) else {
                let restoring = departure.restoring.as_ref();
                let pause = restoring.and_then(Restoring::pause).unwrap_or(Nanos::ZERO);
                let is_late = restoring.is_some_and(|restoring| restoring.time() >= PATIENCE);
                let pause = if is_late { pause.max(RARELY) } else { pause };
                next = Some(next.map_or(pause, |next| next.min(pause)));
                leaving.departure = Some(departure);
                continue;
            };
            // A thread that could not be restored, or a group that could not be removed, stays in the table, for the
            // restoration at the end of the daemon.
            let failed = restoring.threads().iter().filter(|it| it.end() == End::Failed).filter_map(|it| it.row);
            let failed: Vec<Row> = failed.chain(restoring.groups_left()).collect();
            leaving.rows.iter().filter(|row| !failed.contains(row)).for_each(|row| table.forget(*row));
            self.slots[number] = None;
        }
        next
    }

    /// Returns the dismissed clients.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Leaving> {
        self.slots.iter().flatten()
    }

    /// Returns whether process `pid` is an ancestor or descendant of a dismissed client.
    pub(super) fn includes<K: Kernel>(&self, kernel: &K, pid: u32) -> bool {
        let parent = |pid: &u32| Some(kernel.status(&kernel.open(*pid).ok()?).ok()?.parent).filter(|it| *it > 1);
        let line = |pid: u32| successors(Some(pid), parent);
        let mut leaders = self.iter().flat_map(|leaving| leaving.leaders.iter()).peekable();
        if leaders.peek().is_none() {
            return false;
        }
        let ancestors: Vec<u32> = line(pid).collect();
        leaders.any(|leader| ancestors.contains(&leader.tid) || line(leader.tid).any(|it| it == pid))
    }
}
