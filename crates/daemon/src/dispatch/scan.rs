//! Search for the threads and processes of a client.

use super::refusal::Refusal;
use super::role::Role;
use crate::kernel::Kernel;
use std::collections::BTreeSet;
use sys::thread::{Identity, State};

/// The known part of a process tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Number of the tree.
    pub tree: usize,
    /// Processes of the tree, identified by their first threads, so that a reused pid is not mistaken for a known
    /// process.
    pub processes: Vec<Identity>,
    /// Known threads of the tree.
    pub threads: Vec<Identity>,
    /// Pids of descendants that the host has reported. Their parents may have ended.
    pub reported: Vec<u32>,
}

/// A new thread.
#[derive(Debug)]
pub struct Found<T> {
    /// Handle to the thread.
    pub thread: T,
    /// Identity of the thread.
    pub identity: Identity,
    /// Identity of the first thread of the thread's process.
    pub leader: Identity,
    /// Pid of the parent of the thread's process.
    pub parent: u32,
    /// Role of the thread, according to its name or to the request.
    pub role: Role,
}

/// A process and its descendants, found before a promise is made to them.
#[derive(Debug)]
pub struct Scanned<T> {
    /// First thread of the process.
    pub(super) leader: Identity,
    pub(crate) found: Vec<Found<T>>,
}

impl<T> Scanned<T> {
    /// Returns the first thread of the process.
    pub(crate) fn leader(&self) -> Identity {
        self.leader
    }
}

/// Maximum number of threads of a promise. A turn costs time for each thread, so a client with more threads would delay
/// the other clients.
pub const THREADS_MOST: usize = 1024;

/// Finds the threads of process `pid` and of its descendants; `None` if there is no such process. Stops at
/// [`THREADS_MOST`] threads and one more.
pub fn scan<K: Kernel>(kernel: &K, pid: u32) -> Option<Scanned<K::Thread>> {
    scan_beating(kernel, pid, &|| {})
}

/// Scans like [`scan`]. Calls `beat` before each process and each thread: a scan of many processes can take longer than
/// the guardian waits for a beat.
pub fn scan_beating<K: Kernel>(kernel: &K, pid: u32, beat: &dyn Fn()) -> Option<Scanned<K::Thread>> {
    let leader = kernel.identity(&kernel.open(pid).ok()?);
    let known = Known { tree: 0, processes: vec![leader], threads: Vec::new(), reported: Vec::new() };
    Some(Scanned { leader, found: find_beating(kernel, &known, beat) })
}

/// Returns the threads that a scan of process `pid` has found. Those in `vcpus` run vCPUs, whatever their names are.
///
/// # Errors
/// The process has ended, or its threads cannot be listed.
pub(super) fn found_in<K: Kernel>(
    kernel: &K,
    pid: u32,
    vcpus: &[u32],
    scanned: Option<Scanned<K::Thread>>,
) -> Result<Vec<Found<K::Thread>>, Refusal> {
    let mut found = scanned.ok_or(Refusal::Gone(pid))?.found;
    for new in found.iter_mut().filter(|new| vcpus.contains(&new.identity.tid)) {
        new.role = Role::Vcpu;
    }
    if found.is_empty() {
        // The threads cannot be listed or opened, or the process has ended.
        kernel.threads(pid)?;
        let first = kernel.open(pid)?;
        kernel.status(&first)?;
        return Err(Refusal::Gone(pid));
    }
    Ok(found)
}

/// Returns the reported descendants in `known` that have ended.
pub fn ended<K: Kernel>(kernel: &K, known: &Known) -> Vec<u32> {
    let is_there =
        |pid: u32| kernel.open(pid).is_ok_and(|it| kernel.status(&it).is_ok_and(|it| it.state != State::Dead));
    known.reported.iter().copied().filter(|&pid| !is_there(pid)).collect()
}

/// Returns the process `root` and its descendants, each by its first thread. A process that starts or ends during the call
/// may be missing. Calls `beat` before each process.
pub(super) fn processes_of<K: Kernel>(kernel: &K, root: Identity, beat: &dyn Fn()) -> Vec<Identity> {
    let (mut all, mut at) = (vec![root], 0);
    while let Some(&parent) = all.get(at) {
        at += 1;
        beat();
        let Ok(held) = kernel.open_as(parent) else { continue };
        let children = kernel.children(parent.tid).unwrap_or_default();
        // If the process has ended in the meantime, the children may belong to a later process with the same pid.
        if kernel.status(&held).is_err() {
            continue;
        }
        for child in children.into_iter().filter_map(|pid| kernel.open(pid).ok()) {
            let identity = kernel.identity(&child);
            if kernel.status(&child).is_ok_and(|it| it.parent == parent.tid) && !all.contains(&identity) {
                all.push(identity);
            }
        }
    }
    all
}

/// Finds the threads of the tree that are not in `known`. Repeats the scan until no new thread or process appears, or
/// the tree has more than [`THREADS_MOST`] threads.
pub fn find<K: Kernel>(kernel: &K, known: &Known) -> Vec<Found<K::Thread>> {
    find_beating(kernel, known, &|| {})
}

fn find_beating<K: Kernel>(kernel: &K, known: &Known, beat: &dyn Fn()) -> Vec<Found<K::Thread>> {
    let mut seen: BTreeSet<Identity> = known.threads.iter().copied().collect();
    let mut processes: BTreeSet<Identity> = known.processes.iter().copied().collect();
    let mut found = Vec::new();
    for thread in known.reported.iter().filter_map(|&pid| kernel.open(pid).ok()) {
        processes.insert(kernel.identity(&thread));
    }
    loop {
        let before = (found.len(), processes.len());
        for leader in processes.clone() {
            if seen.len() > THREADS_MOST {
                break;
            }
            beat();
            let pid = leader.tid;
            let Ok(held) = kernel.open_as(leader) else { continue };
            let (threads, children) = (kernel.threads(pid), kernel.children(pid));
            // If the process has ended in the meantime, the threads may belong to a later process with the same pid.
            if kernel.status(&held).is_err() {
                continue;
            }
            let threads = threads.unwrap_or_default();
            for tid in threads {
                beat();
                let Ok(thread) = kernel.open(tid) else { continue };
                let identity = kernel.identity(&thread);
                let (Ok(status), Ok(process)) = (kernel.status(&thread), kernel.process(&thread)) else { continue };
                if process == pid && status.state != State::Dead && seen.insert(identity) {
                    found.push(Found { thread, identity, leader, parent: status.parent, role: Role::of(&status.name) });
                }
            }
            for child in children.unwrap_or_default() {
                let Ok(thread) = kernel.open(child) else { continue };
                if kernel.status(&thread).is_ok_and(|status| status.parent == pid) {
                    processes.insert(kernel.identity(&thread));
                }
            }
        }
        if before == (found.len(), processes.len()) || seen.len() > THREADS_MOST {
            return found;
        }
    }
}
