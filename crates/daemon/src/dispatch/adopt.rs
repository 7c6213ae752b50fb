//! Adoption of new threads and processes of a client. Adoption records the original values of each thread, and confines
//! the thread.

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::member::{Former, Member, Raise, RaiseBy};
use super::refusal::{Refusal, unreserved};
use super::scan::{Found, Known, THREADS_MOST, find};
use crate::affinity::{give_back, observe};
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Original};
use sched::{CpuSet, EntityId};
use std::collections::BTreeSet;
use sys::attributes::{Attributes, Policy};

/// Whether a new thread may have inherited values that Tactus has set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inherited {
    /// No: Tactus has not changed the client yet.
    Nothing,
    FromBeginner,
}

impl<K: Kernel> Dispatcher<K> {
    /// Adopts new threads and processes of process tree `tree`. Returns the CPUs whose agents must be woken.
    ///
    /// # Errors
    /// The kernel refuses permission, or the table is full. The other threads of `found` are adopted all the same.
    pub fn adopt(&mut self, tree: usize, found: Vec<Found<K::Thread>>) -> Result<CpuSet, Refusal> {
        self.adopt_all(tree, found, Inherited::FromBeginner)?;
        Ok(self.take_calls())
    }

    pub(super) fn adopt_all(
        &mut self,
        tree: usize,
        found: Vec<Found<K::Thread>>,
        inherited: Inherited,
    ) -> Result<(), Refusal> {
        let mut refused = None;
        let members = |it: &Dispatcher<K>| {
            let entities = it.clients.iter().filter(|(_, client)| client.tree == tree);
            entities.map(|(_, client)| client.members.len()).sum::<usize>()
        };
        if members(self) + found.len() > THREADS_MOST {
            let refusal = Refusal::TooManyThreads { most: THREADS_MOST };
            for (_, client) in self.clients.iter_mut().filter(|(_, client)| client.tree == tree) {
                client.trouble.get_or_insert_with(|| refusal.reason());
                self.call.insert(client.cpu);
            }
            return Err(refusal);
        }
        for new in found {
            // The thread may have been adopted since the scan, or belong to another client.
            if self.holder(new.identity).is_some() {
                continue;
            }
            let (original, found) = match self.original(tree, &new, inherited) {
                Ok(both) => both,
                Err(error) => {
                    refused = refused.or(unless_gone(error).err());
                    continue;
                }
            };
            let entities = self.clients.iter().filter(|(_, client)| client.tree == tree);
            // Each vCPU has a CPU of its own while there are enough CPUs.
            let load = |client: &Client<K>| (client.count_of(new.role), client.members.len());
            let excludes = |client: &Client<K>| !original.affinity.contains(client.cpu);
            let Some((e, _)) = entities.min_by_key(|(_, client)| (excludes(client), load(client))) else { break };
            // The refusal of one thread does not prevent the adoption of the others.
            let answer = self.adopt_thread(e, new, original, found);
            refused = refused.or(answer.err());
        }
        refused.map_or(Ok(()), Err)
    }

    /// Adopts thread `new`, which had the attributes `found` when `original` was determined.
    fn adopt_thread(
        &mut self,
        e: EntityId,
        new: Found<K::Thread>,
        original: Original,
        found: Attributes,
    ) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(e) else { return Ok(()) };
        let confined = CpuSet::one(client.cpu);
        if let Some(attributes) = original.attributes {
            unreserved(new.identity.tid, attributes)?;
        }
        set_original_class(&self.kernel, &new.thread, original, found)?;
        let (raise, attributes) =
            if client.by == RaiseBy::Inheritance { (Raise::Pending, None) } else { (Raise::Set, original.attributes) };
        let original = Original { attributes, ..original };
        let entry = Entry { thread: new.identity, leader: new.leader, original, confined, reserved: None };
        let row = self.table.record(&entry).map_err(Refusal::Full)?;
        // The client may not serve the thread on a CPU outside its original affinity. The next turn finds a CPU for it.
        let is_excluded = !original.affinity.contains(client.cpu);
        client.has_moved_threads |= is_excluded;
        let answer = if self.suspended {
            // All threads have their original CPUs until `resume`. This thread may have inherited a confinement.
            let now = self.kernel.affinity(&new.thread);
            now.and_then(|now| give_back(&self.kernel, &new.thread, &original, &now).map(drop))
        } else if is_excluded {
            Ok(())
        } else {
            self.kernel.set_affinity(&new.thread, &confined)
        };
        match answer {
            Ok(()) => {}
            Err(sys::Error::Gone(_)) => {
                self.table.forget(row);
                return Ok(());
            }
            Err(refused) => {
                // The call may have taken effect although its outcome could not be read back.
                let is_confined = self.kernel.affinity(&new.thread).map_or(true, |now| now == confined);
                let is_changed = is_confined && original.affinity != confined;
                let give_back = || give_back(&self.kernel, &new.thread, &original, &confined);
                // A row stays for the restoration at the end of the daemon.
                if !is_changed || matches!(give_back(), Ok(_) | Err(sys::Error::Gone(_))) {
                    self.table.forget(row);
                }
                return Err(refused.into());
            }
        }
        let had = match self.kernel.usage(&new.thread) {
            Ok(had) => Some(had),
            Err(sys::Error::Gone(_)) => None,
            Err(refused) => {
                // Add the thread to the client all the same, so that the thread is restored with the others.
                client.add(new, original, row, raise, None);
                return Err(refused.into());
            }
        };
        client.add(new, original, row, raise, had);
        // Wake the agent: if the thread is runnable, only the agent detects that the client is no longer blocked.
        self.call.insert(client.cpu);
        // Give the thread the state of the client's other threads.
        client.set_level_of_last(&self.kernel, &self.table);
        if client.awaited {
            client.set_awaited_of_last(&self.kernel);
        }
        Ok(())
    }

    /// Returns whether there are threads whose forks are not awaited yet.
    #[must_use]
    pub fn lacks_births(&self) -> bool {
        let lacks = |member: &Member<K>| !member.has_awaited_births && !member.is_released;
        self.clients.iter().any(|(_, client)| client.members.iter().any(lacks))
    }

    /// Starts awaiting the forks of up to `most` threads whose forks are not awaited yet, if this host reports forks.
    /// Returns whether there may be more such threads. The call takes a long time per thread, so a caller should
    /// release the dispatcher between calls.
    pub fn await_further_births(&mut self, most: usize) -> bool {
        let mut left = most;
        for (_, client) in self.clients.iter_mut() {
            left -= client.await_further_births(&self.kernel, left);
        }
        left == 0
    }

    /// Returns the known part of each process tree, as input to [`find`], except of the trees with threads that are still
    /// to be [adopted](Dispatcher::adopt_further). Collects the reported forks, and starts awaiting further forks.
    #[must_use]
    pub fn known(&mut self) -> Vec<Known> {
        for (_, client) in self.clients.iter_mut() {
            if !self.unadopted.iter().any(|(tree, _)| *tree == client.tree) {
                client.await_births(&self.kernel);
            }
        }
        self.known_so_far()
    }

    /// Returns the same without awaiting further forks. Makes no system call.
    fn known_so_far(&mut self) -> Vec<Known> {
        let mut all: Vec<Known> = Vec::new();
        for (_, client) in self.clients.iter_mut() {
            if self.unadopted.iter().any(|(tree, _)| *tree == client.tree) {
                continue;
            }
            client.collect_births(&self.kernel);
            client.forget_adopted();
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
            let departed = self.departed.iter().filter(|(tree, _)| *tree == known.tree);
            known.threads.extend(departed.map(|(_, thread)| *thread));
            known.processes.sort_unstable();
            known.processes.dedup();
        }
        all
    }

    /// Forgets reported descendants of process tree `tree` that have [`ended`](super::scan::ended).
    pub fn forget_ended(&mut self, tree: usize, ended: &[u32]) {
        for (_, client) in self.clients.iter_mut().filter(|(_, client)| client.tree == tree) {
            client.reported.retain(|pid| !ended.contains(pid));
        }
    }

    /// Returns the threads that have ended, and the threads of the clients that have been dismissed, since the last call.
    /// Drop them without the dispatcher: to close a record of forks, the kernel waits for each descendant that forks just
    /// now, and the descendant may wait for a CPU.
    pub fn take_former(&mut self) -> Former<K> {
        let mut former = std::mem::take(&mut self.former);
        former.extend(self.clients.iter_mut().flat_map(|(_, client)| std::mem::take(&mut client.ended)));
        Former(former)
    }

    /// Adopts descendants of ended threads of `e`, which no later scan would find. An agent may call this, so it neither
    /// opens nor closes a record of forks.
    pub(super) fn adopt_orphans(&mut self, e: EntityId) {
        let Some(tree) = self.clients.get(e).map(|client| client.tree) else { return };
        let Some(mut known) = self.known_so_far().into_iter().find(|known| known.tree == tree) else { return };
        // Children of living processes are found when these processes are restored.
        let family: BTreeSet<u32> =
            known.processes.iter().map(|leader| leader.tid).chain(known.reported.clone()).collect();
        known.reported.retain(|&pid| self.kernel.parent(pid).is_ok_and(|parent| !family.contains(&parent)));
        known.processes.clear();
        if !known.reported.is_empty() {
            let found = find(&self.kernel, &known);
            // A thread that cannot be adopted keeps its current values. The other threads are adopted all the same.
            let _ = self.adopt_all(tree, found, Inherited::FromBeginner);
        }
    }

    /// Returns the values that a new thread would have if Tactus had changed neither the thread nor its parent, and the
    /// attributes that the thread has.
    ///
    /// # Errors
    /// The thread has ended, or the kernel refuses.
    fn original(&self, tree: usize, new: &Found<K::Thread>, from: Inherited) -> sys::Result<(Original, Attributes)> {
        let found = self.kernel.attributes(&new.thread)?;
        let mut attributes = found;
        if from == Inherited::FromBeginner
            && let Some((beginner, confined)) = self.beginner(tree, new)
        {
            attributes = inherited(attributes, beginner.attributes);
            let affinity = self.kernel.affinity(&new.thread)?;
            let left_behind = self.left_behind(new).any(|confined| is_confinement(&affinity, &confined));
            if left_behind || (is_confinement(&affinity, &confined) && !self.has_own(tree, &affinity)) {
                return Ok((Original { attributes: Some(attributes), ..beginner }, found));
            }
        }
        let (affinity, follows_cpuset) = observe(&self.kernel, &new.thread)?;
        Ok((Original { attributes: Some(attributes), affinity, follows_cpuset }, found))
    }

    /// Returns whether a thread of the tree has this affinity, and not from Tactus. A child of this thread has it, too.
    fn has_own(&self, tree: usize, affinity: &CpuSet) -> bool {
        let clients = || self.clients.iter().map(|(_, client)| client).filter(|client| client.tree == tree);
        let is_own = |member: &Member<K>| self.kernel.affinity(&member.thread).is_ok_and(|found| found == *affinity);
        clients().all(|client| CpuSet::one(client.cpu) != *affinity)
            && clients().any(|client| client.members.iter().any(is_own))
    }

    /// Returns the originals of the probable parent of `new`, and the CPUs that Tactus has confined the members of the
    /// tree to, because another thread of the same process may be the parent. The parent is a member of the tree: the
    /// first thread of the process of `new`, else another thread of this process, else the first or another thread of
    /// the parent process. If the tree has no such member, the parent is the first thread of the client on the CPU that
    /// `new` may run on.
    fn beginner(&self, tree: usize, new: &Found<K::Thread>) -> Option<(Original, CpuSet)> {
        let entities = || self.clients.iter().filter(move |(_, client)| client.tree == tree);
        let confined: CpuSet = entities().flat_map(|(_, client)| client.confined.iter()).collect();
        let with = |wanted: &dyn Fn(&Member<K>) -> bool| {
            let all = entities().flat_map(|(_, client)| client.members.iter()).filter(|member| wanted(member));
            let found = all.min_by_key(|member| member.identity.start_time);
            found.map(|member| (member.original, confined))
        };
        with(&|member| member.identity == new.leader)
            .or_else(|| with(&|member| member.leader == new.leader))
            .or_else(|| with(&|member| member.identity.tid == new.parent))
            // The first thread of the parent process may have ended before it was adopted.
            .or_else(|| with(&|member| member.leader.tid == new.parent))
            .or_else(|| {
                let now = self.kernel.affinity(&new.thread).ok()?;
                let mut all = entities().filter_map(|(_, client)| Some((client.root?, client.confined)));
                all.find(|(_, confined)| is_confinement(&now, confined))
            })
    }
}

/// Returns whether `affinity` is a confinement to one of `cpus`.
fn is_confinement(affinity: &CpuSet, cpus: &CpuSet) -> bool {
    affinity.len() == 1 && affinity.minus(cpus).is_empty()
}

/// Returns the attributes that a thread with attributes `now` would have inherited from a parent that Tactus had not
/// changed. `beginner` are the original attributes of the parent, if Tactus has changed them.
pub(super) fn inherited(now: Attributes, beginner: Option<Attributes>) -> Attributes {
    let fair = Attributes::of(Policy::Other { nice: 0 });
    let raised = priority::ALL_RAISED.map(Attributes::raised);
    // A child of a raised thread starts as an ordinary thread, whatever the original class of its parent.
    match beginner {
        // If the originals of the parent include reset-on-fork, its children start as ordinary threads without Tactus,
        // too.
        Some(beginner) if beginner.reset_on_fork && now == fair => fair,
        Some(beginner) if now == fair || raised.contains(&now) => beginner,
        // Tactus has not changed the attributes of the parent, or another process has set those of the thread.
        _ => now,
    }
}

/// Sets the original scheduling class of `new`, which had the attributes `found` when `original` was determined.
///
/// A child of a thread that Tactus has raised by its attributes starts as an ordinary thread instead of in its original
/// class. The class is set before the thread is recorded: otherwise, a restoration would take the ordinary class for a
/// value that another process has set. A value that another process has set since stays.
fn set_original_class<K: Kernel>(
    kernel: &K,
    new: &K::Thread,
    original: Original,
    found: Attributes,
) -> Result<(), Refusal> {
    let Some(wanted) = original.attributes.filter(|wanted| *wanted != found) else { return Ok(()) };
    if kernel.attributes(new).is_ok_and(|now| now == found) {
        kernel.schedule(new, wanted).or_else(unless_gone)?;
    }
    Ok(())
}

/// Ignores the error that a thread has ended.
fn unless_gone(error: sys::Error) -> Result<(), Refusal> {
    match error {
        sys::Error::Gone(_) => Ok(()),
        other => Err(other.into()),
    }
}
