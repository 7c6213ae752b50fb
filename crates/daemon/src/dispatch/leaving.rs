//! Who was sent away and may still be beginning others: nobody waits for that while others are served. Rows stay in the table
//! until it is over, so that whoever restores from it knows as much.

use super::Dispatcher;
use super::adopt::Found;
use super::client::Client;
use crate::kernel::Kernel;
use crate::restore::{End, PATIENCE, Restoring};
use crate::table::Row;
use sched::{CpuSet, Nanos};
use std::iter::successors;
use sys::thread::Identity;

/// How often those are looked at who had no CPU in all the time that others are waited for.
const RARELY: Nanos = Nanos::ms(50);

/// The threads of a client that was sent away.
#[derive(Debug)]
pub(super) struct Leaving {
    /// None while it is looked at.
    restoring: Option<Restoring>,
    rows: Vec<Row>,
    /// Its processes, by their first threads.
    leaders: Vec<Identity>,
    /// Where they were confined to.
    confined: CpuSet,
}

impl<K: Kernel> Dispatcher<K> {
    /// The threads of a client that leaves are what they were. For those that were born since they were last looked for there is
    /// no time here: many processes take long to look at, and agents wait.
    pub(super) fn give_back(&mut self, client: &Client<K::Thread>) {
        if client.members.is_empty() {
            return;
        }
        let goes_on = self.clients.iter().any(|(_, other)| other.tree == client.tree);
        let mut leaders: Vec<Identity> = client.members.iter().map(|member| member.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let restoring = if goes_on {
            // Its processes have threads that stay where they are.
            let threads: Vec<Identity> = client.members.iter().map(|member| member.identity).collect();
            Restoring::begin(&self.kernel, &self.table, |entry| threads.contains(&entry.thread))
        } else {
            Restoring::begin(&self.kernel, &self.table, |entry| leaders.contains(&entry.leader))
        };
        let rows = client.members.iter().map(|member| member.row).collect();
        let leaving = Leaving { restoring: None, rows, leaders, confined: CpuSet::one(client.cpu) };
        // Its place is its number: nobody goes while others are looked at.
        let number = self.leaving.iter().position(Option::is_none).unwrap_or(self.leaving.len());
        self.leaving.resize_with(self.leaving.len().max(number + 1), || None);
        self.leaving[number] = Some(leaving);
        self.keep_leaving([(number, restoring)]);
    }

    /// Those who were sent away and may still be beginning others: to be [looked at](Restoring::look) without the dispatcher, and
    /// to be [kept](Dispatcher::keep_leaving) then.
    pub fn take_leaving(&mut self) -> Vec<(usize, Restoring)> {
        let all = self.leaving.iter_mut().enumerate();
        all.filter_map(|(number, leaving)| Some((number, leaving.as_mut()?.restoring.take()?))).collect()
    }

    /// Keeps those that are not over yet; the others leave the table. Says when to look again, if ever.
    pub fn keep_leaving(&mut self, looked_at: impl IntoIterator<Item = (usize, Restoring)>) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for (number, restoring) in looked_at {
            let Some(Some(leaving)) = self.leaving.get_mut(number) else { continue };
            if let Some(rest) = restoring.rest() {
                let rest = if restoring.time() < PATIENCE { rest } else { rest.max(RARELY) };
                next = Some(next.map_or(rest, |next| next.min(rest)));
                leaving.restoring = Some(restoring);
                continue;
            }
            // Whom nothing could be given back stays in the table, for who restores in the end.
            let failed = restoring.threads().iter().filter(|it| it.end() == End::Failed).filter_map(|it| it.row);
            let failed: Vec<Row> = failed.collect();
            leaving.rows.iter().filter(|row| !failed.contains(row)).for_each(|row| self.table.forget(*row));
            self.leaving[number] = None;
        }
        next
    }

    /// Whether anybody who was sent away may still be beginning others.
    #[must_use]
    pub fn has_leaving(&self) -> bool {
        self.leaving.iter().any(Option::is_some)
    }

    /// Whether somebody was sent away just now who may still be beginning others, and process `pid` is of that family.
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

    /// Where those were confined to that may have begun `new` before they were sent away.
    pub(super) fn left_behind(&self, new: &Found<K::Thread>) -> impl Iterator<Item = CpuSet> {
        let (leader, parent) = (new.leader, new.parent);
        let began = move |it: &Identity| *it == leader || it.tid == parent;
        let all = self.leaving.iter().flatten().filter(move |leaving| leaving.leaders.iter().any(began));
        all.map(|leaving| leaving.confined)
    }
}
