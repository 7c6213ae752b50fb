//! Who was born since the processes in the table were last looked at, and so is not in it.
//!
//! A thread or process inherits the CPUs that we let its parent run on; and whom a raised thread begins begins as
//! SCHED_OTHER of nice 0, since raising sets reset-on-fork. It gets what it would have inherited had we done nothing: what the
//! first thread of its parent's process was. Out of real-time classes nothing is inherited here: a hog that asked for an
//! ordinary class itself looks the same.

use super::{End, Outcome, ThreadRestored, affinity};
use crate::Reason;
use crate::kernel::Kernel;
use crate::table::{Entry, Original};
use sched::{CpuSet, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, State};

/// What a fork takes of a CPU, at most, and what may be missing of a thread's CPU time when it is read. Copying page tables
/// takes 10 ms for a GiB (redis.io, "Diagnosing latency issues", fork time), anything else of it below 1 ms; what runs elsewhere is
/// counted at ticks, 10 ms apart at HZ=100.
const FORK_MOST: Nanos = Nanos::ms(20);
/// What whoever a raised thread begins begins as.
const RESET: Attributes = Attributes::of(Policy::Other { nice: 0 });

/// What threads of a process inherit, and so do processes that they begin.
#[derive(Clone, Debug)]
struct Legacy {
    original: Original,
    /// The sets of CPUs that threads of the process were confined to.
    confined: Vec<CpuSet>,
}

/// Who may be in a fork that began before it was restored.
#[derive(Clone, Copy, Debug)]
struct Forking {
    thread: Identity,
    process: Identity,
    /// What it had had when it was first seen after it was restored.
    ran: Option<Nanos>,
}

/// Who is known, and who may have descendants.
#[derive(Debug)]
pub(super) struct Family {
    /// Threads that are in the table, or were found already.
    known: BTreeSet<Identity>,
    /// The processes whose threads were in the table and were restored.
    roots: BTreeSet<Identity>,
    /// Those in the table that are not to be looked at.
    others: BTreeSet<Identity>,
    /// Those that are, and their descendants as they are found.
    processes: BTreeMap<Identity, Legacy>,
    /// A fork copies class and CPUs when it begins, and whom it begins is seen when it ends. Between the two its thread runs,
    /// waits for a CPU or sleeps uninterruptibly: whoever was seen otherwise since is in none that began before.
    forking: Vec<Forking>,
    is_first: bool,
    /// Why some may have been missed.
    missed: Option<Reason>,
}

impl Family {
    /// Of those in `entries`, which have just been restored. `all` is the whole table.
    pub(super) fn of(entries: &[Entry], all: &[Entry]) -> Family {
        let mut processes: BTreeMap<Identity, Legacy> = BTreeMap::new();
        for entry in entries {
            let first = all.iter().find(|first| first.thread == entry.leader).unwrap_or(entry);
            let new = || Legacy { original: first.original, confined: Vec::new() };
            let legacy = processes.entry(entry.leader).or_insert_with(new);
            if !legacy.confined.contains(&entry.confined) {
                legacy.confined.push(entry.confined);
            }
        }
        let forking = entries.iter().map(|entry| Forking { thread: entry.thread, process: entry.leader, ran: None });
        let mut family = Family {
            known: BTreeSet::new(),
            roots: processes.keys().copied().collect(),
            others: BTreeSet::new(),
            processes,
            forking: forking.collect(),
            is_first: true,
            missed: None,
        };
        family.leave_out(all);
        family
    }

    /// Who is in the table is seen to by others.
    pub(super) fn leave_out(&mut self, all: &[Entry]) {
        for entry in all {
            self.known.insert(entry.thread);
            if !self.roots.contains(&entry.leader) && self.others.insert(entry.leader) {
                self.processes.remove(&entry.leader);
            }
        }
    }

    /// Who may be in a fork that began before.
    pub(super) fn forking(&self) -> impl ExactSizeIterator<Item = Identity> {
        self.forking.iter().map(|forking| forking.thread)
    }

    /// Why some may have been missed.
    pub(super) fn missed(&self) -> Option<&Reason> {
        self.missed.as_ref()
    }

    /// Finds who was begun by those who may have been in a fork and is not known, makes it what it would have been, and adds
    /// what came of that.
    pub(super) fn look<K: Kernel>(&mut self, kernel: &K, threads: &mut Vec<ThreadRestored>) {
        let processes: BTreeSet<Identity> = self.forking.iter().map(|forking| forking.process).collect();
        // Whoever is seen not to fork has begun by then whom the look after that finds.
        self.forget_settled(kernel);
        self.look_at(kernel, processes, threads);
        self.is_first = false;
    }

    /// Forgets those who are seen not to be in a fork that began before.
    fn forget_settled<K: Kernel>(&mut self, kernel: &K) {
        let mut forking = std::mem::take(&mut self.forking);
        forking.retain_mut(|forking| {
            let Some(thread) = self.there(kernel.open_as(forking.thread)) else { return false };
            let Some(status) = self.there(kernel.status(&thread)) else { return false };
            if !matches!(status.state, State::Runnable | State::Uninterruptible) {
                return false;
            }
            // Where CPU time is not counted, this one is told by what it does alone.
            let Ok(usage) = kernel.usage(&thread) else { return true };
            usage.ran.saturating_sub(*forking.ran.get_or_insert(usage.ran)) < FORK_MOST
        });
        self.forking = forking;
    }

    /// Looks at these processes, and at those that are found meanwhile.
    fn look_at<K: Kernel>(&mut self, kernel: &K, processes: BTreeSet<Identity>, threads: &mut Vec<ThreadRestored>) {
        let mut waiting: Vec<Identity> = processes.into_iter().collect();
        while let Some(process) = waiting.pop() {
            let Some(legacy) = self.processes.get(&process).cloned() else { continue };
            let Some(held) = self.there(kernel.open_as(process)) else { continue };
            let members = self.there(kernel.threads(process.tid)).unwrap_or_default();
            let children = self.there(kernel.children(process.tid)).unwrap_or_default();
            if self.there(kernel.status(&held)).is_none() {
                // They may be those of a later process of its number.
                continue;
            }
            for tid in members {
                let Some(thread) = self.there(kernel.open(tid)) else { continue };
                let identity = kernel.identity(&thread);
                if !self.known.contains(&identity) && self.there(kernel.process(&thread)) == Some(process.tid) {
                    self.known.insert(identity);
                    let done = bring_up(kernel, &thread, process, &legacy);
                    // Who was born as it should be was born after its parent was restored, and so will be what it begins; or
                    // somebody else has restored it just now, who may not come to look again.
                    if self.is_first || !matches!(done.end(), End::AsBefore | End::Left | End::Gone) {
                        self.forking.push(Forking { thread: identity, process, ran: None });
                    }
                    threads.push(done);
                }
            }
            for pid in children {
                let Some(child) = self.there(kernel.open(pid)) else { continue };
                let identity = kernel.identity(&child);
                let is_known = self.others.contains(&identity) || self.processes.contains_key(&identity);
                let parent = self.there(kernel.status(&child)).map(|status| status.parent);
                if !is_known && parent == Some(process.tid) {
                    self.processes.insert(identity, legacy.clone());
                    waiting.push(identity);
                }
            }
        }
    }

    /// What was asked of a thread; none where it is gone, or where that could not be told.
    fn there<T>(&mut self, answer: sys::Result<T>) -> Option<T> {
        match answer {
            Ok(value) => return Some(value),
            Err(sys::Error::Gone(_)) => {}
            Err(error) => self.missed = Some(error.into()),
        }
        None
    }
}

/// Makes a thread what it would have been.
fn bring_up<K: Kernel>(kernel: &K, thread: &K::Thread, leader: Identity, legacy: &Legacy) -> ThreadRestored {
    let original = Original { attributes: inherited(legacy.original.attributes), ..legacy.original };
    let entry = Entry { thread: kernel.identity(thread), leader, original, confined: CpuSet::EMPTY };
    let mut done = ThreadRestored::begin(None, &entry);
    done.attributes = attributes(kernel, thread, original.attributes);
    done.affinity = match kernel.affinity(thread) {
        Ok(found) if legacy.confined.contains(&found) => affinity(kernel, thread, &Entry { confined: found, ..entry }),
        Ok(found) if found == original.affinity => Outcome::AsBefore,
        Ok(_) => Outcome::Left,
        Err(error) => Outcome::of(error),
    };
    done
}

/// How whoever is begun by a thread that is scheduled so is scheduled.
fn inherited(parent: Attributes) -> Attributes {
    let policy = match parent.policy {
        policy if !parent.reset_on_fork => policy,
        Policy::Other { nice } => Policy::Other { nice: nice.max(0) },
        Policy::Batch { nice } => Policy::Batch { nice: nice.max(0) },
        Policy::Idle => Policy::Idle,
        _ => Policy::Other { nice: 0 },
    };
    Attributes { policy, reset_on_fork: false, ..parent }
}

/// Schedules it as it would have been, if it is as those begin whom a raised thread begins.
fn attributes<K: Kernel>(kernel: &K, thread: &K::Thread, wanted: Attributes) -> Outcome {
    let change = || {
        let found = kernel.attributes(thread)?;
        if found == wanted {
            return Ok(Outcome::AsBefore);
        }
        let is_fair = matches!(wanted.policy, Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle);
        if found != RESET || !is_fair {
            return Ok(Outcome::Left);
        }
        kernel.schedule(thread, wanted)?;
        kernel.status(thread)?;
        Ok(Outcome::Restored)
    };
    change().unwrap_or_else(Outcome::of)
}
