//! Restoring threads: by the daemon at its orderly end, by its guardian, by `tactus restore`, and by the next start on a
//! leftover table.
//!
//! Restoring compares: a value that Tactus has set is replaced by the original; a value that another process has set since is
//! left alone. So it may be repeated, run twice at a time, or be cut off and started again. First all threads leave real-time
//! priority, so that none spins there; then stopped processes continue; then all affinities are restored.
//!
//! Threads are opened by identity, one at a time: a table may hold more threads than a process may open files.
//!
//! A child whose fork began before its parent was restored appears only later, with inherited values. So restoring does not
//! end with the last thread of the table: [`Restoring`] scans again until no thread can be in such a fork.

mod newborn;
mod restoring;
#[cfg(test)]
mod tests;

pub use restoring::Restoring;

use crate::Explanation;
use crate::directory::Directory;
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Original, Row, Table};
use sched::Nanos;
use std::fmt;
use sys::attributes::{Attributes, Policy};
use sys::shared::Lock;
use sys::thread::Identity;

/// How long restoring waits, at most, for the ends of forks that began before: a thread without a CPU would delay the end of
/// the daemon, and the guardian, which may have waited for a lock or a hung daemon, has promised a second.
pub const PATIENCE: Nanos = Nanos::ms(300);

/// The outcome for one property of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It needed no change.
    AsBefore,
    /// It had the value that Tactus had set, and has the original again.
    Restored,
    /// Another process has set it since. It is left alone.
    Left,
    /// The thread has ended.
    Gone,
    /// It keeps the value that Tactus had set, or has the closest possible one.
    Failed(Explanation),
}

impl Outcome {
    fn of(error: sys::Error) -> Outcome {
        match error {
            sys::Error::Gone(_) => Outcome::Gone,
            error => Outcome::Failed(error.into()),
        }
    }
}

/// The outcome for a thread, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has ended.
    Gone,
    /// A property could not be restored.
    Failed,
    /// A property was restored.
    Restored,
    /// Another process has set a property, and no other needed a change.
    Left,
    /// It needed no change.
    AsBefore,
}

/// The outcome for a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadRestored {
    /// The thread.
    pub thread: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// Its row in the table; `None` for a thread that started since and was found.
    pub row: Option<Row>,
    /// Its original attributes and affinity.
    pub original: Original,
    /// The outcome for its scheduling attributes.
    pub attributes: Outcome,
    /// The outcome for a stop of its process. Part of the first thread.
    pub stop: Outcome,
    /// The outcome for its affinity.
    pub affinity: Outcome,
}

impl ThreadRestored {
    fn begin(row: Option<Row>, entry: &Entry) -> ThreadRestored {
        let nothing = Outcome::AsBefore;
        ThreadRestored {
            thread: entry.thread,
            leader: entry.leader,
            row,
            original: entry.original,
            attributes: nothing.clone(),
            stop: nothing.clone(),
            affinity: nothing,
        }
    }

    fn outcomes(&self) -> [&Outcome; 3] {
        [&self.attributes, &self.stop, &self.affinity]
    }

    /// The outcome in a word.
    #[must_use]
    pub fn end(&self) -> End {
        let has = |wanted: &Outcome| self.outcomes().contains(&wanted);
        if has(&Outcome::Gone) {
            End::Gone
        } else if self.failures().next().is_some() {
            End::Failed
        } else if has(&Outcome::Restored) {
            End::Restored
        } else if has(&Outcome::Left) {
            End::Left
        } else {
            End::AsBefore
        }
    }

    /// Why properties could not be restored.
    pub fn failures(&self) -> impl Iterator<Item = &Explanation> {
        self.outcomes().into_iter().filter_map(|outcome| match outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        })
    }
}

impl fmt::Display for ThreadRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread.tid)?;
        if self.thread != self.leader {
            write!(f, " of process {}", self.leader.tid)?;
        }
        if self.end() == End::Gone {
            return f.write_str(": gone");
        }
        let mut separator = ": ";
        let mut say = |words: String| {
            let said = write!(f, "{separator}{words}");
            separator = "; ";
            said
        };
        match &self.attributes {
            Outcome::Restored => say(self.original.attributes.to_string())?,
            Outcome::Left => say("scheduled by another process since".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        match &self.stop {
            Outcome::Restored => say("goes on".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        match &self.affinity {
            Outcome::Restored => say(format!("on CPUs {}", self.original.affinity))?,
            Outcome::Left => say("sent to other CPUs by another process since".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        if self.outcomes().iter().all(|outcome| **outcome == Outcome::AsBefore) {
            say("as before".to_string())
        } else {
            Ok(())
        }
    }
}

/// The outcome for all threads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    /// Each thread: those of the table in the order of its rows, then those that started since.
    pub threads: Vec<ThreadRestored>,
    /// The number of unreadable rows of the table.
    pub damaged: usize,
    /// Why threads that started since may have been missed.
    pub missed: Option<Explanation>,
    /// Threads that may still be in a fork that began before; the child would keep inherited values. They had too little CPU time
    /// to tell, which a repetition would not change: nothing is left to do about them.
    pub unsure: Vec<Identity>,
}

impl Restored {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.damaged == 0 && self.missed.is_none() && self.count(End::Failed) == 0
    }

    /// Why threads that started since may have been missed, in words, whether a repetition would help or not.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let unsure = match self.unsure.len() {
            0 => None,
            1 => Some("1 thread has had no CPU to end a fork on".to_string()),
            many => Some(format!("{many} threads have had no CPU to end a fork on")),
        };
        let both = [self.missed.as_ref().map(|reason| reason.reason.to_string()), unsure];
        both.into_iter().flatten().reduce(|first, second| format!("{first}; {second}"))
    }

    /// The number of threads with this outcome.
    #[must_use]
    pub fn count(&self, end: End) -> usize {
        self.threads.iter().filter(|thread| thread.end() == end).count()
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [restored, before, left, gone, failed] =
            [End::Restored, End::AsBefore, End::Left, End::Gone, End::Failed].map(|end| self.count(end));
        let threads = if restored == 1 { "thread" } else { "threads" };
        write!(
            f,
            "{restored} {threads} restored, {before} as before, {left} left as another process has set them since"
        )?;
        write!(f, ", {gone} gone, {failed} failed")?;
        if self.damaged > 0 {
            write!(f, "; {} rows of the table cannot be understood", self.damaged)?;
        }
        match self.doubt() {
            Some(why) => write!(f, "; threads born since may have been missed: {why}"),
            None => Ok(()),
        }
    }
}

/// Restores the threads of `table` and their new children; calls `pause` between scans, for [`PATIENCE`] at most, while a
/// thread may be in a fork that began before. The rows stay; only stops are cleared.
pub fn restore<K: Kernel>(kernel: &K, table: &Table, mut pause: impl FnMut(Nanos)) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    loop {
        restoring.look(kernel, table);
        match restoring.pause().filter(|_| restoring.time() < PATIENCE) {
            Some(rest) => pause(rest),
            None => return restoring.end(),
        }
    }
}

/// Like [`restore`] without waiting, for a caller that restores again later.
pub fn restore_at_once<K: Kernel>(kernel: &K, table: &Table) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    restoring.look(kernel, table);
    restoring.end()
}

/// Restores all threads of `table`.
fn bring_back<K: Kernel>(kernel: &K, table: &Table, entries: &[(Row, Entry, bool)]) -> Vec<ThreadRestored> {
    let begin = |(row, entry, _): &(Row, Entry, bool)| ThreadRestored::begin(Some(*row), entry);
    let mut threads: Vec<ThreadRestored> = entries.iter().map(begin).collect();
    let rows = || entries.iter().map(|(row, entry, stopped)| (*row, entry, *stopped));
    for (done, (_, entry, _)) in threads.iter_mut().zip(rows()).filter(|(_, (_, entry, _))| !comes_last(entry)) {
        done.attributes = opened(kernel, entry.thread, |thread| attributes(kernel, thread, entry));
    }
    for (done, (row, entry, _)) in threads.iter_mut().zip(rows()).filter(|(_, (_, _, stopped))| *stopped) {
        done.stop = opened(kernel, entry.leader, |leader| go_on(kernel, leader, table, row));
    }
    for (done, (_, entry, _)) in threads.iter_mut().zip(rows()) {
        done.affinity = opened(kernel, entry.thread, |thread| affinity(kernel, thread, entry));
    }
    for (done, (_, entry, _)) in threads.iter_mut().zip(rows()).filter(|(_, (_, entry, _))| comes_last(entry)) {
        done.attributes = opened(kernel, entry.thread, |thread| attributes(kernel, thread, entry));
    }
    threads
}

/// Restores the thread of `row`, with entry `entry` and handle `thread`, and continues its process if it is the first thread
/// of a process that Tactus has stopped. The row stays; the caller forgets it.
pub fn restore_entry<K: Kernel>(
    kernel: &K,
    table: &Table,
    row: Row,
    entry: &Entry,
    thread: &K::Thread,
) -> ThreadRestored {
    let mut done = ThreadRestored::begin(Some(row), entry);
    if !comes_last(entry) {
        done.attributes = attributes(kernel, thread, entry);
    }
    if table.is_stopped(row) {
        done.stop = opened(kernel, entry.leader, |leader| go_on(kernel, leader, table, row));
    }
    done.affinity = affinity(kernel, thread, entry);
    if comes_last(entry) {
        done.attributes = attributes(kernel, thread, entry);
    }
    done
}

/// The result of a replay of a leftover table.
#[derive(Debug)]
pub enum Replayed {
    /// There was none, or everything in it had been restored.
    Nothing,
    /// It was from an earlier boot of the machine, whose threads are gone.
    Stale,
    /// It was restored. The table is removed if nothing is left to do.
    Done(Restored),
}

/// Restores the threads of a leftover table, and removes the table once that is done. A process that holds the table open sees
/// that it is finished.
///
/// # Errors
/// The table cannot be opened, read or removed.
pub fn replay<K: Kernel>(kernel: &K, directory: &Directory, held: &Lock) -> Result<Replayed, Explanation> {
    let Some(table) = directory.open_table()? else { return Ok(Replayed::Nothing) };
    let done = if table.boot() != sys::kernel::boot_id()? {
        Replayed::Stale
    } else if table.is_finished() {
        Replayed::Nothing
    } else {
        Replayed::Done(restore(kernel, &table, sys::clock::sleep))
    };
    if !matches!(&done, Replayed::Done(restored) if !restored.is_settled()) {
        table.finish();
        directory.remove_table(held)?;
    }
    Ok(done)
}

/// Restores the thread that was `identity`.
fn opened<K: Kernel>(kernel: &K, identity: Identity, act: impl FnOnce(&K::Thread) -> Outcome) -> Outcome {
    match kernel.open_as(identity) {
        Ok(thread) => act(&thread),
        Err(error) => Outcome::of(error),
    }
}

/// Whether it needs its affinity first: SCHED_DEADLINE requires all CPUs.
fn comes_last(entry: &Entry) -> bool {
    matches!(entry.original.attributes.policy, Policy::Deadline { .. })
}

/// The closest attributes to `original` where those are refused: not real-time, and without reset-on-fork cleared, which takes
/// a privilege.
fn near(original: Attributes) -> Attributes {
    let policy = match original.policy {
        fair @ (Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle) => fair,
        _ => Policy::Other { nice: 0 },
    };
    Attributes { reset_on_fork: true, ..Attributes::of(policy) }
}

/// Whether Tactus has changed `original` to `found`.
fn is_ours(found: Attributes, original: Attributes) -> bool {
    let raised = [priority::RAISED, priority::AMONG_OTHERS].map(Attributes::raised);
    raised.contains(&found) || found == near(original)
}

/// Restores the attributes, if Tactus has changed them.
fn attributes<K: Kernel>(kernel: &K, thread: &K::Thread, entry: &Entry) -> Outcome {
    let original = entry.original.attributes;
    let change = || {
        let found = kernel.attributes(thread)?;
        if found == original {
            return Ok(Outcome::AsBefore);
        }
        if !is_ours(found, original) {
            return Ok(Outcome::Left);
        }
        let refused = match kernel.schedule(thread, original) {
            Ok(()) => None,
            Err(gone @ sys::Error::Gone(_)) => return Err(gone),
            Err(refused) => {
                // It must not stay real-time.
                kernel.schedule(thread, near(original))?;
                Some(Explanation::from(refused))
            }
        };
        let kept = kernel.attributes(thread)?;
        // The call by number has reached this thread.
        kernel.status(thread)?;
        Ok(match refused {
            _ if kept == original => Outcome::Restored,
            Some(reason) => {
                Outcome::Failed(Explanation { reason: format!("{}; it is {kept} now", reason.reason).into(), ..reason })
            }
            None => {
                let why = format!("thread {} is {kept} and not {original} as before", entry.thread.tid);
                Outcome::Failed(Explanation::new(why, "try again with `tactus restore`"))
            }
        })
    };
    change().unwrap_or_else(Outcome::of)
}

/// Continues a process that Tactus has stopped, or was about to stop.
fn go_on<K: Kernel>(kernel: &K, leader: &K::Thread, table: &Table, row: Row) -> Outcome {
    match kernel.cont(leader) {
        Ok(()) => {
            table.set_stopped(row, false);
            Outcome::Restored
        }
        Err(error) => Outcome::of(error),
    }
}

/// Restores the affinity, if Tactus has changed it.
fn affinity<K: Kernel>(kernel: &K, thread: &K::Thread, entry: &Entry) -> Outcome {
    let original = entry.original.affinity;
    let change = || {
        let found = kernel.affinity(thread)?;
        if found == original {
            return Ok(Outcome::AsBefore);
        }
        if found != entry.confined {
            return Ok(Outcome::Left);
        }
        kernel.set_affinity(thread, &original)?;
        kernel.status(thread)?;
        Ok(Outcome::Restored)
    };
    change().unwrap_or_else(Outcome::of)
}
