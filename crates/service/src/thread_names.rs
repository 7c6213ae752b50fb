//! [`ThreadNames`]: the names and processes of threads, each read once.

use std::collections::BTreeMap;
use sys::thread::Thread;

/// The names of threads and the pids of their processes.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames(BTreeMap<u32, Option<(String, u32)>>);

impl ThreadNames {
    /// Returns the name of a thread and the pid of its process; `None` if the thread has ended, or is the idle thread.
    pub(crate) fn of(&mut self, tid: u32) -> Option<(String, u32)> {
        let read = || {
            let thread = Thread::open(tid).ok()?;
            Some((thread.status().ok()?.name, thread.process().ok()?))
        };
        self.0.entry(tid).or_insert_with(|| if tid == 0 { None } else { read() }).clone()
    }
}
