//! Finding the threads and processes of a client, and their original values.

use super::Dispatcher;
use super::client::Member;
use crate::kernel::{Kernel, priority};
use crate::table::Original;
use sched::{CpuSet, EntityId};
use std::collections::BTreeSet;
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, State};

/// The known part of a tree of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its number.
    pub tree: usize,
    /// Its processes, by their first threads: a reused pid is not mistaken for one of them.
    pub processes: Vec<Identity>,
    /// Its known threads.
    pub threads: Vec<Identity>,
    /// Descendants that the host has reported; their parents may have ended.
    pub reported: Vec<u32>,
}

/// A new thread.
#[derive(Debug)]
pub struct Found<T> {
    /// Its handle.
    pub thread: T,
    /// Its identity.
    pub identity: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// The parent of its process.
    pub parent: u32,
}

/// Whether a new thread may have inherited values that Tactus has set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inherited {
    /// Tactus has changed nothing yet.
    Nothing,
    FromBeginner,
}

/// Finds threads that belong to the tree and are not in `known`, until no new one appears.
pub fn find<K: Kernel>(kernel: &K, known: &Known) -> Vec<Found<K::Thread>> {
    let mut seen: BTreeSet<Identity> = known.threads.iter().copied().collect();
    let mut processes: BTreeSet<Identity> = known.processes.iter().copied().collect();
    let mut found = Vec::new();
    for thread in known.reported.iter().filter_map(|&pid| kernel.open(pid).ok()) {
        processes.insert(kernel.identity(&thread));
    }
    loop {
        let before = (found.len(), processes.len());
        for leader in processes.clone() {
            let pid = leader.tid;
            let Ok(held) = kernel.open_as(leader) else { continue };
            let (threads, children) = (kernel.threads(pid), kernel.children(pid));
            // If the process has ended by now, they may belong to a later process with its pid.
            if kernel.status(&held).is_err() {
                continue;
            }
            let threads = threads.unwrap_or_default();
            // A process is stopped by its first thread, even where that has ended before the others.
            let goes_on = threads.len() > 1;
            for tid in threads {
                let Ok(thread) = kernel.open(tid) else { continue };
                let identity = kernel.identity(&thread);
                let (Ok(status), Ok(process)) = (kernel.status(&thread), kernel.process(&thread)) else { continue };
                let counts = status.state != State::Dead || (tid == pid && goes_on);
                if process == pid && counts && seen.insert(identity) {
                    found.push(Found { thread, identity, leader, parent: status.parent });
                }
            }
            for child in children.unwrap_or_default() {
                let Ok(thread) = kernel.open(child) else { continue };
                if kernel.status(&thread).is_ok_and(|status| status.parent == pid) {
                    processes.insert(kernel.identity(&thread));
                }
            }
        }
        if before == (found.len(), processes.len()) {
            return found;
        }
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// The known part of each tree, as input to [`find`]. Forks from here on are reported again.
    #[must_use]
    pub fn known(&mut self) -> Vec<Known> {
        let mut all: Vec<Known> = Vec::new();
        for (_, client) in self.clients.iter_mut() {
            client.await_births(&self.kernel);
            client.forget_reported(&self.kernel);
            let at = all.iter().position(|known| known.tree == client.tree).unwrap_or_else(|| {
                all.push(Known { tree: client.tree, processes: Vec::new(), threads: Vec::new(), reported: Vec::new() });
                all.len() - 1
            });
            let known = &mut all[at];
            known.threads.extend(client.members.iter().map(|member| member.identity));
            known.processes.extend(client.members.iter().map(|member| member.leader));
            known.reported.extend(&client.reported);
        }
        for known in &mut all {
            known.processes.sort_unstable();
            known.processes.dedup();
        }
        all
    }

    /// Adopts descendants of ended threads of `e`: nothing else would lead to them later.
    pub(super) fn adopt_orphans(&mut self, e: EntityId) {
        let Some(tree) = self.clients.get(e).map(|client| client.tree) else { return };
        let Some(mut known) = self.known().into_iter().find(|known| known.tree == tree) else { return };
        // Children of living threads are found when those are restored.
        let family: BTreeSet<u32> =
            known.processes.iter().map(|leader| leader.tid).chain(known.reported.clone()).collect();
        known.reported.retain(|&pid| {
            let parent = self.kernel.open(pid).and_then(|it| self.kernel.status(&it)).map(|status| status.parent);
            parent.is_ok_and(|parent| !family.contains(&parent))
        });
        known.processes.clear();
        if !known.reported.is_empty() {
            let found = find(&self.kernel, &known);
            // A thread that cannot be adopted stays as it is; the client's other threads are unaffected.
            let _ = self.adopt_all(tree, found, Inherited::FromBeginner);
        }
    }

    /// The original values of a new thread, before Tactus changed it or its parent. `None` if it has ended.
    pub(super) fn original(&self, e: EntityId, new: &Found<K::Thread>, from: Inherited) -> Option<Original> {
        let attributes = self.kernel.attributes(&new.thread).ok()?;
        let affinity = self.kernel.affinity(&new.thread).ok()?;
        let now = Original { attributes, affinity };
        if from == Inherited::Nothing {
            return Some(now);
        }
        let left_behind = self.left_behind(new).any(|confined| confined == affinity);
        Some(self.beginner(e, new).map_or(now, |(beginner, confined)| {
            inherited(now, &beginner, if left_behind { &affinity } else { &confined })
        }))
    }

    /// The originals of its parent: the first thread of its process, or of the parent process, or another thread of those. Where all
    /// of them have ended, the originals of the first thread of the client.
    fn beginner(&self, e: EntityId, new: &Found<K::Thread>) -> Option<(Original, CpuSet)> {
        let tree = self.clients.get(e)?.tree;
        let entities = || self.clients.iter().filter(move |(_, client)| client.tree == tree);
        let with = |wanted: &dyn Fn(&Member<K::Thread>) -> bool| {
            let mut all = entities()
                .flat_map(|(_, client)| client.members.iter().map(move |member| (member, CpuSet::one(client.cpu))));
            all.find(|(member, _)| wanted(member)).map(|(member, confined)| (member.original, confined))
        };
        with(&|member| member.identity == new.leader)
            .or_else(|| with(&|member| member.leader == new.leader))
            .or_else(|| with(&|member| member.identity.tid == new.parent))
            // Its first thread may have ended before it was ever seen.
            .or_else(|| with(&|member| member.leader.tid == new.parent))
            .or_else(|| {
                let now = self.kernel.affinity(&new.thread).ok();
                let mut all = entities().filter_map(|(_, client)| Some((client.root?, CpuSet::one(client.cpu))));
                all.find(|(_, confined)| now == Some(*confined))
            })
    }
}

/// The values that a thread would have inherited from an unraised parent.
fn inherited(now: Original, beginner: &Original, confined: &CpuSet) -> Original {
    let fair = Attributes::of(Policy::Other { nice: 0 });
    let raised = [priority::RAISED, priority::AMONG_OTHERS].map(Attributes::raised);
    // A child of a raised thread starts as an ordinary thread, whatever its parent was.
    let attributes = match beginner.attributes {
        // The parent had reset-on-fork itself: its children start as ordinary threads anyway.
        Attributes { reset_on_fork: true, .. } if now.attributes == fair => fair,
        of_beginner if now.attributes == fair || raised.contains(&now.attributes) => of_beginner,
        _ => now.attributes,
    };
    let affinity = if now.affinity == *confined { beginner.affinity } else { now.affinity };
    Original { attributes, affinity }
}
