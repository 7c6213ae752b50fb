//! Restores threads and processes that started after the last scan of the processes in the table, and are therefore not
//! in the table.
//!
//! A thread or process inherits the CPUs that its parent is confined to. A child of a thread that Tactus has raised by
//! its attributes starts as SCHED_OTHER of nice 0, because raising sets reset-on-fork. The child receives the values
//! that it would have inherited without Tactus: the originals of the first thread of its parent's process. A child of
//! an originally real-time thread does not become real-time, because Tactus cannot distinguish the child from a hog
//! that has set SCHED_OTHER itself.

use super::entries::{affinity, refused};
use super::outcome::{End, Outcome, ThreadRestored};
use crate::Explanation;
use crate::kernel::Kernel;
use crate::table::{Entry, Original};
use sched::{CpuSet, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, State};

/// Maximum CPU time of a fork, plus the error of reading CPU time. Copying page tables takes 10 ms per GiB (redis.io,
/// "Diagnosing latency issues", fork time), and the rest of a fork takes less than 1 ms. A thread on another CPU is
/// charged at ticks, 10 ms apart at HZ=100.
const FORK_MOST: Nanos = Nanos::ms(20);
/// The attributes of a new child of a raised thread.
const RESET: Attributes = Attributes::of(Policy::Other { nice: 0 });

/// The values that new threads and child processes of a process inherit.
#[derive(Clone, Debug)]
struct Legacy {
    original: Original,
    /// The CPU sets that threads of the process were confined to.
    confined: Vec<CpuSet>,
}

/// A thread that may be inside a fork that began before the thread was restored.
#[derive(Clone, Copy, Debug)]
struct Forking {
    thread: Identity,
    process: Identity,
    /// CPU time of the thread at the first observation after the thread was restored.
    ran: Option<Nanos>,
}

/// The known threads, and the processes that may have descendants.
#[derive(Debug)]
pub(super) struct Family {
    /// Threads that are in the table, or were found already.
    known: BTreeSet<Identity>,
    /// The restored processes of the table.
    roots: BTreeSet<Identity>,
    /// Processes of the table that are restored elsewhere and not scanned.
    others: BTreeSet<Identity>,
    /// Processes that are scanned, and their descendants once found.
    processes: BTreeMap<Identity, Legacy>,
    /// Threads that may be inside a fork. A fork copies the class and the affinity at its start, and its child appears
    /// at its end. In between, the parent runs, waits for a CPU or sleeps uninterruptibly. A parent that was observed
    /// in another state after its restoration is therefore outside any fork that began before the restoration.
    forking: Vec<Forking>,
    is_first: bool,
    /// Reason why some children may have been missed.
    missed: Option<Explanation>,
}

impl Family {
    /// Creates a family of `entries`, which have just been restored. `all` is the whole table.
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

    /// Excludes the threads of `all`, which are in the table, and the processes of `all` that are restored elsewhere.
    pub(super) fn leave_out(&mut self, all: &[Entry]) {
        for entry in all {
            self.known.insert(entry.thread);
            if !self.roots.contains(&entry.leader) && self.others.insert(entry.leader) {
                self.processes.remove(&entry.leader);
            }
        }
    }

    /// Returns the threads that may be inside a fork that began before their restoration.
    pub(super) fn forking(&self) -> impl ExactSizeIterator<Item = Identity> {
        self.forking.iter().map(|forking| forking.thread)
    }

    /// Returns the reason why some children may have been missed.
    pub(super) fn missed(&self) -> Option<&Explanation> {
        self.missed.as_ref()
    }

    /// Finds new children of threads that may have been inside a fork. Sets the values that these children would have
    /// inherited without Tactus, and adds the outcomes to `threads`. Calls `beat` before each thread and process.
    pub(super) fn look<K: Kernel>(&mut self, kernel: &K, threads: &mut Vec<ThreadRestored>, beat: &dyn Fn()) {
        let processes: BTreeSet<Identity> = self.forking.iter().map(|forking| forking.process).collect();
        // A thread that is now observed outside a fork has finished its earlier forks, so the scan below finds the
        // children.
        self.forget_settled(kernel, beat);
        self.look_at(kernel, processes, threads, beat);
        self.is_first = false;
    }

    /// Removes the threads that have ended, are observed outside a fork, or have used more CPU time than a fork takes.
    fn forget_settled<K: Kernel>(&mut self, kernel: &K, beat: &dyn Fn()) {
        let mut forking = std::mem::take(&mut self.forking);
        forking.retain_mut(|forking| {
            beat();
            let Some(thread) = self.there(kernel.open_as(forking.thread)) else { return false };
            let Some(status) = self.there(kernel.status(&thread)) else { return false };
            if !matches!(status.state, State::Runnable | State::Uninterruptible) {
                return false;
            }
            // If the CPU time cannot be read, only the state of the thread decides.
            let Ok(usage) = kernel.usage(&thread) else { return true };
            usage.ran.saturating_sub(*forking.ran.get_or_insert(usage.ran)) < FORK_MOST
        });
        self.forking = forking;
    }

    /// Scans `processes`, and the descendants that are found during the scan.
    fn look_at<K: Kernel>(
        &mut self,
        kernel: &K,
        processes: BTreeSet<Identity>,
        threads: &mut Vec<ThreadRestored>,
        beat: &dyn Fn(),
    ) {
        let mut waiting: Vec<Identity> = processes.into_iter().collect();
        while let Some(process) = waiting.pop() {
            beat();
            let Some(legacy) = self.processes.get(&process).cloned() else { continue };
            let Some(held) = self.there(kernel.open_as(process)) else { continue };
            let members = self.there(kernel.threads(process.tid)).unwrap_or_default();
            let children = self.there(kernel.children(process.tid)).unwrap_or_default();
            if self.there(kernel.status(&held)).is_none() {
                // The children may belong to a later process with this pid.
                continue;
            }
            for tid in members {
                let Some(thread) = self.there(kernel.open(tid)) else { continue };
                let identity = kernel.identity(&thread);
                if !self.known.contains(&identity) && self.there(kernel.process(&thread)) == Some(process.tid) {
                    self.known.insert(identity);
                    let done = bring_up(kernel, &thread, process, &legacy);
                    // A child that has the correct values was forked after its parent was restored, so its own children
                    // have the correct values, too. In the first scan, the child may instead have been restored by
                    // another process, which may not scan again. The child then counts as forking.
                    if self.is_first || !matches!(done.end(), End::AsBefore | End::Left | End::Gone) {
                        self.forking.push(Forking { thread: identity, process, ran: None });
                    }
                    threads.push(done);
                }
            }
            for pid in children {
                let Some(child) = self.there(kernel.open(pid)) else { continue };
                let identity = kernel.identity(&child);
                if self.others.contains(&identity) || self.processes.contains_key(&identity) {
                    continue;
                }
                let parent = self.there(kernel.status(&child)).map(|status| status.parent);
                if parent == Some(process.tid) {
                    self.processes.insert(identity, legacy.clone());
                    waiting.push(identity);
                }
            }
        }
    }

    /// Returns the value of `answer`; `None` if the thread has ended or the call failed. Records a failed call as the
    /// reason for missed children.
    fn there<T>(&mut self, answer: sys::Result<T>) -> Option<T> {
        match answer {
            Ok(value) => return Some(value),
            Err(sys::Error::Gone(_)) => {}
            Err(error) => self.missed = Some(error.into()),
        }
        None
    }
}

/// Sets the values that a thread would have inherited without Tactus.
fn bring_up<K: Kernel>(kernel: &K, thread: &K::Thread, leader: Identity, legacy: &Legacy) -> ThreadRestored {
    let original = Original { attributes: legacy.original.attributes.map(inherited), ..legacy.original };
    let entry = Entry { thread: kernel.identity(thread), leader, original, confined: CpuSet::EMPTY, reserved: None };
    let mut done = ThreadRestored::begin(None, &entry);
    if let Some(refused) = refused(kernel, thread) {
        done.affinity = refused;
        return done;
    }
    if let Some(wanted) = original.attributes {
        done.attributes = attributes(kernel, thread, wanted);
    }
    done.affinity = match kernel.affinity(thread) {
        Ok(found) => {
            let inherited = legacy.confined.iter().find(|confined| **confined == found).or(legacy.confined.first());
            affinity(kernel, thread, &Entry { confined: inherited.copied().unwrap_or(CpuSet::EMPTY), ..entry })
        }
        Err(error) => Outcome::of(error),
    };
    done
}

/// Returns the attributes that a thread with attributes `parent` passes on to a child.
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

/// Sets the attributes that the thread would have inherited without Tactus, if the thread has the attributes of a child
/// of a raised thread.
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
