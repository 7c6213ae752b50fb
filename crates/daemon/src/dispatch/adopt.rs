//! Finding the threads and processes that belong to a client, and what they were.

use super::Dispatcher;
use super::client::Member;
use crate::kernel::{Kernel, priority};
use crate::table::Original;
use sched::{CpuSet, EntityId};
use std::collections::BTreeSet;
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, State};

/// What is known of a tree of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Which.
    pub tree: usize,
    /// Its processes, by their first threads: a number that is another's by now leads nowhere.
    pub processes: Vec<Identity>,
    /// Its threads.
    pub threads: Vec<Identity>,
    /// Processes that the host has told to descend from them: who began them may be gone.
    pub told: Vec<u32>,
}

/// A thread that is new.
#[derive(Debug)]
pub struct Found<T> {
    /// It.
    pub thread: T,
    /// Its name for good.
    pub identity: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// The process that began its process.
    pub parent: u32,
}

/// Whether a thread that was found may be as it is because of what we did to who began it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inherited {
    /// Nothing was done yet.
    Nothing,
    FromBeginner,
}

/// Looks for threads that belong to `known` and are not among it, until nothing new appears.
pub fn find<K: Kernel>(kernel: &K, known: &Known) -> Vec<Found<K::Thread>> {
    let mut seen: BTreeSet<Identity> = known.threads.iter().copied().collect();
    let mut processes: BTreeSet<Identity> = known.processes.iter().copied().collect();
    let mut found = Vec::new();
    for thread in known.told.iter().filter_map(|&pid| kernel.open(pid).ok()) {
        processes.insert(kernel.identity(&thread));
    }
    loop {
        let before = (found.len(), processes.len());
        for leader in processes.clone() {
            let pid = leader.tid;
            let Ok(held) = kernel.open_as(leader) else { continue };
            let (threads, children) = (kernel.threads(pid), kernel.children(pid));
            // Had it ended by then, they may be those of a later process of its number.
            if kernel.status(&held).is_err() {
                continue;
            }
            let threads = threads.unwrap_or_default();
            // A process is stopped by its first thread, also where that one has ended before the others.
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
    /// What is known of each tree: what [`find`] needs, to look for more. Whatever begins from here on is told of again.
    #[must_use]
    pub fn known(&mut self) -> Vec<Known> {
        let mut all: Vec<Known> = Vec::new();
        for (_, client) in self.clients.iter_mut() {
            client.await_births(&self.kernel);
            client.forget_told(&self.kernel);
            let at = all.iter().position(|known| known.tree == client.tree).unwrap_or_else(|| {
                all.push(Known { tree: client.tree, processes: Vec::new(), threads: Vec::new(), told: Vec::new() });
                all.len() - 1
            });
            let known = &mut all[at];
            known.threads.extend(client.members.iter().map(|member| member.identity));
            known.processes.extend(client.members.iter().map(|member| member.leader));
            known.told.extend(&client.told);
        }
        for known in &mut all {
            known.processes.sort_unstable();
            known.processes.dedup();
        }
        all
    }

    /// Takes in who has been begun by threads of `e` that are gone: there will be nobody to find them by.
    pub(super) fn take_in_left(&mut self, e: EntityId) {
        let Some(tree) = self.clients.get(e).map(|client| client.tree) else { return };
        let Some(mut known) = self.known().into_iter().find(|known| known.tree == tree) else { return };
        // Children of those who are still there are found by who restores those.
        let family: BTreeSet<u32> = known.processes.iter().map(|leader| leader.tid).chain(known.told.clone()).collect();
        known.told.retain(|&pid| {
            let parent = self.kernel.open(pid).and_then(|it| self.kernel.status(&it)).map(|status| status.parent);
            parent.is_ok_and(|parent| !family.contains(&parent))
        });
        known.processes.clear();
        if !known.told.is_empty() {
            let found = find(&self.kernel, &known);
            // Whoever cannot be taken in stays as it is; that is told of those who could be.
            let _ = self.take_all(tree, found, Inherited::FromBeginner);
        }
    }

    /// What a thread that was just found was before we did anything to it, or to who began it. None if it has ended.
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

    /// What who began it was: the first thread of its process, or of the process that began that, or any other of those. Where
    /// all of them are gone, it is taken to be what the first of all was.
    fn beginner(&self, e: EntityId, new: &Found<K::Thread>) -> Option<(Original, CpuSet)> {
        let tree = self.clients.get(e)?.tree;
        let lanes = || self.clients.iter().filter(move |(_, client)| client.tree == tree);
        let with = |wanted: &dyn Fn(&Member<K::Thread>) -> bool| {
            let mut all = lanes()
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
                let mut all = lanes().filter_map(|(_, client)| Some((client.root?, CpuSet::one(client.cpu))));
                all.find(|(_, confined)| now == Some(*confined))
            })
    }
}

/// What a thread would be, had who began it been left alone.
fn inherited(now: Original, beginner: &Original, confined: &CpuSet) -> Original {
    let fair = Attributes::of(Policy::Other { nice: 0 });
    let raised = [priority::RAISED, priority::AMONG_OTHERS].map(Attributes::raised);
    // Begun by a raised thread it is an ordinary one, whatever that one was before.
    let attributes = match beginner.attributes {
        // A raise of somebody else's: what that one begins, ends as an ordinary one too.
        Attributes { reset_on_fork: true, .. } if now.attributes == fair => fair,
        of_beginner if now.attributes == fair || raised.contains(&now.attributes) => of_beginner,
        _ => now.attributes,
    };
    let affinity = if now.affinity == *confined { beginner.affinity } else { now.affinity };
    Original { attributes, affinity }
}
