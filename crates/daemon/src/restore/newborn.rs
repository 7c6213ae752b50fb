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
use sched::CpuSet;
use std::collections::{BTreeMap, BTreeSet};
use sys::attributes::{Attributes, Policy};
use sys::thread::Identity;

/// How often everybody is looked at, at most. What is born after its parent was restored needs nothing, so that a second look
/// changes only what was born during the first; more are for parents that are born themselves meanwhile.
const LOOKS: usize = 64;
/// What whoever a raised thread begins begins as.
const RESET: Attributes = Attributes::of(Policy::Other { nice: 0 });

/// What threads of a process inherit, and so do processes that they begin.
#[derive(Clone, Debug)]
struct Legacy {
    original: Original,
    /// The sets of CPUs that threads of the process were confined to.
    confined: Vec<CpuSet>,
}

/// Who is known, and who may have descendants.
struct Family {
    /// Threads that are in the table, or were found already.
    known: BTreeSet<Identity>,
    /// The processes in the table that are not to be looked at.
    others: BTreeSet<Identity>,
    /// Those that are, and their descendants as they are found.
    processes: BTreeMap<Identity, Legacy>,
    /// Why some may have been missed.
    missed: Option<Reason>,
}

/// Finds who descends from those in `entries` and is not in the table, makes it what it would have been, and adds what came
/// of that. `all` is the whole table. Says why some may have been missed.
pub(super) fn find<K: Kernel>(
    kernel: &K,
    entries: &[Entry],
    all: &[Entry],
    threads: &mut Vec<ThreadRestored>,
) -> Option<Reason> {
    let mut family = Family::of(entries, all);
    for _ in 0..LOOKS {
        let births = kernel.births();
        let found = family.look(kernel, threads);
        // Nobody on this host was born while everybody was looked at: there is nobody left.
        let is_quiet = matches!((births, kernel.births()), (Ok(before), Ok(after)) if before == after);
        if found == 0 || is_quiet || family.missed.is_some() {
            return family.missed;
        }
    }
    Some(Reason::new(
        format!("new threads had to be restored in each of {LOOKS} looks"),
        "to end what begins them, and another try",
    ))
}

impl Family {
    fn of(entries: &[Entry], all: &[Entry]) -> Family {
        let mut processes: BTreeMap<Identity, Legacy> = BTreeMap::new();
        for entry in entries {
            let new = || Legacy { original: entry.original, confined: Vec::new() };
            let legacy = processes.entry(entry.leader).or_insert_with(new);
            if entry.is_leader() {
                legacy.original = entry.original;
            }
            if !legacy.confined.contains(&entry.confined) {
                legacy.confined.push(entry.confined);
            }
        }
        let known = all.iter().map(|entry| entry.thread).collect();
        let others = all.iter().map(|entry| entry.leader).filter(|leader| !processes.contains_key(leader)).collect();
        Family { known, others, processes, missed: None }
    }

    /// Looks at every process once, those that are found meanwhile too; says how many threads that were new had to be
    /// changed.
    fn look<K: Kernel>(&mut self, kernel: &K, threads: &mut Vec<ThreadRestored>) -> usize {
        let mut waiting: Vec<Identity> = self.processes.keys().copied().collect();
        let mut new = 0;
        while let Some(process) = waiting.pop() {
            let legacy = self.processes[&process].clone();
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
                    // Who was born as it should be was born after its parent was restored, and so will be what it begins.
                    new += usize::from(done.end() == End::Restored);
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
        new
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
