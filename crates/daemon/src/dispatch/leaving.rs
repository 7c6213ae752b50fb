//! Dismissed clients whose threads may still be in forks: restoring them goes on while other clients are served. Their rows stay
//! in the table until it is over, for restoring by another process.

use super::Dispatcher;
use super::adopt::Found;
use super::client::Client;
use crate::kernel::Kernel;
use crate::restore::{End, PATIENCE, Restoring};
use crate::table::Row;
use sched::{CpuSet, Nanos};
use std::iter::successors;
use sys::thread::Identity;

/// Interval between scans for threads that had no CPU within the patience.
const RARELY: Nanos = Nanos::ms(50);

/// The threads of a dismissed client.
#[derive(Debug)]
pub(super) struct Leaving {
    /// `None` while it is scanned.
    restoring: Option<Restoring>,
    rows: Vec<Row>,
    /// Its processes, by their first threads.
    leaders: Vec<Identity>,
    /// The CPU that they were confined to.
    confined: CpuSet,
}

impl<K: Kernel> Dispatcher<K> {
    /// Restores the threads of a client that leaves. New children are found later: scanning many processes takes long, and agents
    /// would wait.
    pub(super) fn give_back(&mut self, client: &Client<K::Thread>) {
        if client.members.is_empty() {
            return;
        }
        let goes_on = self.clients.iter().any(|(_, other)| other.tree == client.tree);
        let mut leaders: Vec<Identity> = client.members.iter().map(|member| member.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let restoring = if goes_on {
            // Its processes have other threads that stay clients.
            let threads: Vec<Identity> = client.members.iter().map(|member| member.identity).collect();
            Restoring::begin(&self.kernel, &self.table, |entry| threads.contains(&entry.thread))
        } else {
            Restoring::begin(&self.kernel, &self.table, |entry| leaders.contains(&entry.leader))
        };
        let rows = client.members.iter().map(|member| member.row).collect();
        let leaving = Leaving { restoring: None, rows, leaders, confined: CpuSet::one(client.cpu) };
        // Its index is its number, so entries do not move while others are scanned.
        let number = self.leaving.iter().position(Option::is_none).unwrap_or(self.leaving.len());
        self.leaving.resize_with(self.leaving.len().max(number + 1), || None);
        self.leaving[number] = Some(leaving);
        self.keep_leaving([(number, restoring)]);
    }

    /// The restorations of dismissed clients that are not over: to be [scanned](Restoring::look) without the dispatcher, and then
    /// to be [returned](Dispatcher::keep_leaving).
    pub fn take_leaving(&mut self) -> Vec<(usize, Restoring)> {
        let all = self.leaving.iter_mut().enumerate();
        all.filter_map(|(number, leaving)| Some((number, leaving.as_mut()?.restoring.take()?))).collect()
    }

    /// Returns scanned restorations; finished ones leave the table. Returns the pause until the next scan, if one is needed.
    pub fn keep_leaving(&mut self, looked_at: impl IntoIterator<Item = (usize, Restoring)>) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for (number, restoring) in looked_at {
            let Some(Some(leaving)) = self.leaving.get_mut(number) else { continue };
            if let Some(pause) = restoring.pause() {
                let pause = if restoring.time() < PATIENCE { pause } else { pause.max(RARELY) };
                next = Some(next.map_or(pause, |next| next.min(pause)));
                leaving.restoring = Some(restoring);
                continue;
            }
            // A thread that could not be restored stays in the table, for the restoration at the end.
            let failed = restoring.threads().iter().filter(|it| it.end() == End::Failed).filter_map(|it| it.row);
            let failed: Vec<Row> = failed.collect();
            leaving.rows.iter().filter(|row| !failed.contains(row)).for_each(|row| self.table.forget(*row));
            self.leaving[number] = None;
        }
        next
    }

    /// Whether a dismissed client may still have threads in forks.
    #[must_use]
    pub fn has_leaving(&self) -> bool {
        self.leaving.iter().any(Option::is_some)
    }

    /// Whether a dismissed client may still have threads in forks, and process `pid` is its relative.
    #[must_use]
    pub fn is_leaving(&self, pid: u32) -> bool {
        let parent =
            |pid: &u32| Some(self.kernel.status(&self.kernel.open(*pid).ok()?).ok()?.parent).filter(|it| *it > 1);
        let line = |pid: u32| successors(Some(pid), parent);
        let mut leaders = self.leaving.iter().flatten().flat_map(|leaving| leaving.leaders.iter());
        if !self.has_leaving() {
            return false;
        }
        let ancestors: Vec<u32> = line(pid).collect();
        leaders.any(|leader| ancestors.contains(&leader.tid) || line(leader.tid).any(|it| it == pid))
    }

    /// The CPUs to which possible parents of `new` were confined before their dismissal.
    pub(super) fn left_behind(&self, new: &Found<K::Thread>) -> impl Iterator<Item = CpuSet> {
        let (leader, parent) = (new.leader, new.parent);
        let began = move |it: &Identity| *it == leader || it.tid == parent;
        let all = self.leaving.iter().flatten().filter(move |leaving| leaving.leaders.iter().any(began));
        all.map(|leaving| leaving.confined)
    }
}
