//! Making threads what they were: by the daemon at its orderly end, by its guardian, by `tactus restore`, and by the next
//! start on a table that was left.
//!
//! By comparison: what has a value that we set gets the one it had before; what somebody else has set since is left as it is.
//! So it may be done twice, by two at a time, or be cut off and done again. First everybody comes down from real-time
//! priority, so that nobody spins there; then who was stopped goes on; then everybody may run where it might before.
//!
//! Threads are opened by identity, one at a time: a table may hold more of them than a process may have files open.
//!
//! Whom they were just beginning when they were restored is seen only later, as it was begun. So it is not over with the last
//! thread of the table: [`Restoring`] looks again until nobody can be in a fork any more that began before.

mod newborn;
mod restoring;
#[cfg(test)]
mod tests;

pub use restoring::Restoring;

use crate::Reason;
use crate::directory::Directory;
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Original, Row, Table};
use sched::Nanos;
use std::fmt;
use sys::attributes::{Attributes, Policy};
use sys::shared::Lock;
use sys::thread::Identity;

/// How long it is waited, at most, for the ends of forks that began before: who has no CPU in all that time keeps the end of a
/// daemon waiting, and the guardian, who may have waited before for a lock or a daemon that hangs, promises a second.
pub const PATIENCE: Nanos = Nanos::ms(300);

/// What came of one property of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing had to be done.
    AsBefore,
    /// It was what we had made it, and is what it was before.
    Restored,
    /// Somebody else has set it since. It stays so.
    Left,
    /// The thread is gone.
    Gone,
    /// It is what we had made it, or as near to what it was as could be had.
    Failed(Reason),
}

impl Outcome {
    fn of(error: sys::Error) -> Outcome {
        match error {
            sys::Error::Gone(_) => Outcome::Gone,
            error => Outcome::Failed(error.into()),
        }
    }
}

/// What came of a thread, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is gone.
    Gone,
    /// Something of it could not be changed back.
    Failed,
    /// Something of it was changed back.
    Restored,
    /// Somebody else has set something of it, and nothing else had to be done.
    Left,
    /// Nothing had to be done.
    AsBefore,
}

/// What came of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadRestored {
    /// Which.
    pub thread: Identity,
    /// The first of its process.
    pub leader: Identity,
    /// Where it stands in the table; none of one that was born since and was found.
    pub row: Option<Row>,
    /// What it was.
    pub original: Original,
    /// What came of how it is scheduled.
    pub attributes: Outcome,
    /// What came of our having stopped its process. Told with the first thread.
    pub stop: Outcome,
    /// What came of where it may run.
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

    /// What came of it, in a word.
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

    /// Why something could not be changed back.
    pub fn failures(&self) -> impl Iterator<Item = &Reason> {
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
            Outcome::Left => say("scheduled by somebody else since".to_string())?,
            Outcome::Failed(reason) => say(reason.why.clone())?,
            _ => {}
        }
        match &self.stop {
            Outcome::Restored => say("goes on".to_string())?,
            Outcome::Failed(reason) => say(reason.why.clone())?,
            _ => {}
        }
        match &self.affinity {
            Outcome::Restored => say(format!("on CPUs {}", self.original.affinity))?,
            Outcome::Left => say("sent to other CPUs by somebody else since".to_string())?,
            Outcome::Failed(reason) => say(reason.why.clone())?,
            _ => {}
        }
        if self.outcomes().iter().all(|outcome| **outcome == Outcome::AsBefore) {
            say("as before".to_string())
        } else {
            Ok(())
        }
    }
}

/// What came of everybody.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    /// Of each thread: those of the table in the order of its rows, then those that were born since.
    pub threads: Vec<ThreadRestored>,
    /// How many rows of the table could not be understood.
    pub damaged: usize,
    /// Why threads that were born since may have been missed.
    pub missed: Option<Reason>,
    /// Who may still be in a fork that began before: whom it begins by that stays as we had made it. It had too little of a
    /// CPU to tell, which no other try would change: nothing is left to be done for that.
    pub unsure: Vec<Identity>,
}

impl Restored {
    /// Whether nothing is left to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.damaged == 0 && self.missed.is_none() && self.count(End::Failed) == 0
    }

    /// Why threads that were born since may have been missed, in words, whether anything can be done about it or not.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let unsure = match self.unsure.len() {
            0 => None,
            1 => Some("1 thread has had no CPU to end a fork on".to_string()),
            many => Some(format!("{many} threads have had no CPU to end a fork on")),
        };
        let both = [self.missed.as_ref().map(|reason| reason.why.clone()), unsure];
        both.into_iter().flatten().reduce(|first, second| format!("{first}; {second}"))
    }

    /// How many threads came to this end.
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
            "{restored} {threads} restored, {before} as before, {left} left as somebody else has set them since"
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

/// Makes everybody in `table` what it was, and whom they have begun since; has `pause` wait, for [`PATIENCE`] at most, while
/// somebody may be in a fork that began before. The table stays as it is, but for stops.
pub fn restore<K: Kernel>(kernel: &K, table: &Table, mut pause: impl FnMut(Nanos)) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    loop {
        restoring.look(kernel, table);
        match restoring.rest().filter(|_| restoring.time() < PATIENCE) {
            Some(rest) => pause(rest),
            None => return restoring.end(),
        }
    }
}

/// The same without waiting, for who will restore once more.
pub fn restore_at_once<K: Kernel>(kernel: &K, table: &Table) -> Restored {
    let mut restoring = Restoring::begin(kernel, table, |_| true);
    restoring.look(kernel, table);
    restoring.end()
}

/// Makes those threads of `table` what they were.
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

/// Makes the one thread what it was that stands in `row` as `entry` and is held as `thread`, and has its process go on if
/// it is the first of one that we have stopped. The row stays, to be forgotten by who asked.
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

/// What came of a table that was left.
#[derive(Debug)]
pub enum Replayed {
    /// There was none, or one in which everything had been restored.
    Nothing,
    /// It was of an earlier start of the machine, whose threads are no more.
    Stale,
    /// This was done. The table is removed if nothing is left to be done.
    Done(Restored),
}

/// Makes everybody what it was who stands in a table that was left, and removes the table once that is done. Whoever holds
/// the table open is told that it is finished.
///
/// # Errors
/// The table cannot be opened, understood or removed.
pub fn replay<K: Kernel>(kernel: &K, directory: &Directory, held: &Lock) -> Result<Replayed, Reason> {
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

/// What comes of the thread that was `identity`.
fn opened<K: Kernel>(kernel: &K, identity: Identity, act: impl FnOnce(&K::Thread) -> Outcome) -> Outcome {
    match kernel.open_as(identity) {
        Ok(thread) => act(&thread),
        Err(error) => Outcome::of(error),
    }
}

/// Whether it can be what it was only where it may run everywhere: SCHED_DEADLINE is for those alone.
fn comes_last(entry: &Entry) -> bool {
    matches!(entry.original.attributes.policy, Policy::Deadline { .. })
}

/// As near to `original` as can be had where that is refused: not real-time, and without the privilege that it takes to have
/// what it forks inherit.
fn near(original: Attributes) -> Attributes {
    let policy = match original.policy {
        fair @ (Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle) => fair,
        _ => Policy::Other { nice: 0 },
    };
    Attributes { reset_on_fork: true, ..Attributes::of(policy) }
}

/// Whether it was us who had a thread scheduled as `found` that was `original`.
fn is_ours(found: Attributes, original: Attributes) -> bool {
    let raised = [priority::RAISED, priority::AMONG_OTHERS].map(Attributes::raised);
    raised.contains(&found) || found == near(original)
}

/// Schedules it as before, if it was us who changed that.
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
                Some(Reason::from(refused))
            }
        };
        let kept = kernel.attributes(thread)?;
        // What was done to its number was done to it.
        kernel.status(thread)?;
        Ok(match refused {
            _ if kept == original => Outcome::Restored,
            Some(reason) => Outcome::Failed(Reason { why: format!("{}; it is {kept} now", reason.why), ..reason }),
            None => {
                let why = format!("thread {} is {kept} and not {original} as before", entry.thread.tid);
                Outcome::Failed(Reason::new(why, "another try"))
            }
        })
    };
    change().unwrap_or_else(Outcome::of)
}

/// Has a process go on that we have stopped, or were about to.
fn go_on<K: Kernel>(kernel: &K, leader: &K::Thread, table: &Table, row: Row) -> Outcome {
    match kernel.cont(leader) {
        Ok(()) => {
            table.set_stopped(row, false);
            Outcome::Restored
        }
        Err(error) => Outcome::of(error),
    }
}

/// Lets it run where it might before, if it was us who changed that.
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
