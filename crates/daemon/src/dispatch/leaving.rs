//! Dismissed clients whose threads may still be inside a fork. Their restoration continues while other clients are
//! served. Their rows stay in the table until the restoration is over, so that another process can restore them.

use crate::kernel::Kernel;
use crate::restore::{End, PATIENCE, Restoring};
use crate::table::{Row, Table};
use sched::{CpuSet, Nanos};
use std::iter::successors;
use sys::thread::Identity;

/// Minimum interval between scans for new threads of a dismissed client, once [`PATIENCE`] has passed.
const RARELY: Nanos = Nanos::ms(50);

/// The threads of a dismissed client.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The restoration of the client's threads; `None` during a scan.
    pub(super) restoring: Option<Restoring>,
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
    /// Adds a dismissed client, whose restoration has begun.
    pub(super) fn add(&mut self, leaving: Leaving, restoring: Restoring, table: &Table) {
        let number = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        self.slots.resize_with(self.slots.len().max(number + 1), || None);
        self.slots[number] = Some(leaving);
        self.keep([(number, restoring)], table);
    }

    /// Takes the unfinished restorations. The caller continues them with [`Restoring::look`], and then
    /// [returns](AllLeaving::keep) them.
    pub(super) fn take(&mut self) -> Vec<(usize, Restoring)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter_map(|(number, leaving)| Some((number, leaving.as_mut()?.restoring.take()?))).collect()
    }

    /// Takes back restorations after a scan. If a restoration is finished, the rows of its threads are removed from
    /// `table`, except those of threads that could not be restored. Returns the pause until the next scan, if a scan is
    /// needed.
    pub(super) fn keep(
        &mut self,
        looked_at: impl IntoIterator<Item = (usize, Restoring)>,
        table: &Table,
    ) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for (number, restoring) in looked_at {
            let Some(Some(leaving)) = self.slots.get_mut(number) else { continue };
            if let Some(pause) = restoring.pause() {
                let pause = if restoring.time() < PATIENCE { pause } else { pause.max(RARELY) };
                next = Some(next.map_or(pause, |next| next.min(pause)));
                leaving.restoring = Some(restoring);
                continue;
            }
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
        let parent = |pid: &u32| kernel.parent(*pid).ok().filter(|it| *it > 1);
        let line = |pid: u32| successors(Some(pid), parent);
        let mut leaders = self.iter().flat_map(|leaving| leaving.leaders.iter()).peekable();
        if leaders.peek().is_none() {
            return false;
        }
        let ancestors: Vec<u32> = line(pid).collect();
        leaders.any(|leader| ancestors.contains(&leader.tid) || line(leader.tid).any(|it| it == pid))
    }
}
