//! Search for the threads and processes of a client.

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
    /// Role of the thread, according to its name.
    pub role: Role,
}

/// Finds the threads of the tree that are not in `known`. Repeats the scan until no new thread or process appears.
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
            // If the process has ended in the meantime, the threads may belong to a later process with the same pid.
            if kernel.status(&held).is_err() {
                continue;
            }
            let threads = threads.unwrap_or_default();
            // A process is stopped through its first thread, even if this thread has ended before the others.
            let goes_on = threads.len() > 1;
            for tid in threads {
                let Ok(thread) = kernel.open(tid) else { continue };
                let identity = kernel.identity(&thread);
                let (Ok(status), Ok(process)) = (kernel.status(&thread), kernel.process(&thread)) else { continue };
                let counts = status.state != State::Dead || (tid == pid && goes_on);
                if process == pid && counts && seen.insert(identity) {
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
        if before == (found.len(), processes.len()) {
            return found;
        }
    }
}
