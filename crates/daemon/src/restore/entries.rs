//! Restores threads from their entries in the table, one property at a time.

use super::outcome::{Outcome, ThreadRestored};
use crate::Explanation;
use crate::affinity::{GivenBack, give_back};
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Row, Table};
use sched::Nanos;
use sys::attributes::{Attributes, Policy};
use sys::thread::Identity;

/// Restores the threads of `entries`, which are rows of `table`. Calls `beat` before each change of a thread.
pub(super) fn bring_back<K: Kernel>(
    kernel: &K,
    table: &Table,
    entries: &[(Row, Entry)],
    beat: &dyn Fn(),
) -> Vec<ThreadRestored> {
    let begin = |(row, entry): &(Row, Entry)| ThreadRestored::begin(Some(*row), entry);
    let entries: Vec<(Row, Entry)> = entries.iter().filter(|(row, _)| !table.is_given_back(*row)).copied().collect();
    let mut threads: Vec<ThreadRestored> = entries.iter().map(begin).collect();
    let rows = || entries.iter().map(|(row, entry)| (*row, entry));
    for (done, (_, entry)) in threads.iter_mut().zip(rows()).filter(|(_, (_, entry))| !comes_last(entry)) {
        beat();
        done.attributes = opened(kernel, entry.thread, |thread| attributes(kernel, thread, entry));
    }
    for (done, (row, entry)) in threads.iter_mut().zip(rows()).filter(|(_, (row, _))| table.is_stopped(*row)) {
        beat();
        done.stop = opened(kernel, entry.leader, |leader| go_on(kernel, leader, table, row));
    }
    for (done, (_, entry)) in threads.iter_mut().zip(rows()) {
        beat();
        done.affinity = opened(kernel, entry.thread, |thread| affinity(kernel, thread, entry));
    }
    for (done, (_, entry)) in threads.iter_mut().zip(rows()).filter(|(_, (_, entry))| comes_last(entry)) {
        beat();
        done.attributes = opened(kernel, entry.thread, |thread| attributes(kernel, thread, entry));
    }
    threads
}

/// Restores the thread of `row`, with entry `entry` and handle `thread`. The row stays in the table; the caller forgets
/// the row.
pub fn restore_entry<K: Kernel>(kernel: &K, row: Row, entry: &Entry, thread: &K::Thread) -> ThreadRestored {
    let mut done = ThreadRestored::begin(Some(row), entry);
    if let Some(refused) = refused(kernel, thread) {
        done.affinity = refused;
        return done;
    }
    if !comes_last(entry) {
        done.attributes = attributes(kernel, thread, entry);
    }
    done.affinity = affinity(kernel, thread, entry);
    if comes_last(entry) {
        done.attributes = attributes(kernel, thread, entry);
    }
    done
}

/// Applies `act` to the thread with this identity.
fn opened<K: Kernel>(kernel: &K, identity: Identity, act: impl FnOnce(&K::Thread) -> Outcome) -> Outcome {
    match kernel.open_as(identity) {
        Ok(thread) => refused(kernel, &thread).unwrap_or_else(|| act(&thread)),
        Err(error) => Outcome::of(error),
    }
}

/// Returns the outcome for a thread of another user, unless this process runs for root. A user may write anything into
/// a table of its own, and with file capabilities the kernel would permit this process to change every thread.
pub(super) fn refused<K: Kernel>(kernel: &K, thread: &K::Thread) -> Option<Outcome> {
    let user = kernel.user();
    if user == 0 {
        return None;
    }
    match kernel.owner(thread) {
        Ok(owner) if owner.real == user => None,
        Ok(owner) => {
            let tid = kernel.identity(thread).tid;
            let why = format!("thread {tid} belongs to user {}, and the table to user {user}", owner.real);
            Some(Outcome::Failed(Explanation::new(why, "remove the table if another program has written it")))
        }
        Err(error) => Some(Outcome::of(error)),
    }
}

/// Returns whether the affinity of the thread must be restored before its class: SCHED_DEADLINE requires an affinity of
/// all CPUs.
fn comes_last(entry: &Entry) -> bool {
    entry.original.attributes.is_some_and(|original| matches!(original.policy, Policy::Deadline { .. }))
}

/// Returns the attributes to set if the kernel refuses `original`: the closest attributes that are not real-time.
/// Reset-on-fork stays set, because clearing reset-on-fork requires a privilege.
fn near(original: Attributes) -> Attributes {
    let policy = match original.policy {
        fair @ (Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle) => fair,
        _ => Policy::Other { nice: 0 },
    };
    Attributes { reset_on_fork: true, ..Attributes::of(policy) }
}

/// Returns whether `found` is a value that Tactus sets for the thread of `entry`, whose attributes were `original`.
fn is_ours(found: Attributes, entry: &Entry, original: Attributes) -> bool {
    let is_raised = match entry.reserved {
        Some(reserved) => found == reserved.attributes(),
        None => priority::ALL_RAISED.map(Attributes::raised).contains(&found),
    };
    is_raised || found == near(original)
}

/// Restores the timer slack of a thread that was reserved and is no longer. Returns whether it had to be changed.
fn restore_slack<K: Kernel>(kernel: &K, thread: &K::Thread, entry: &Entry) -> sys::Result<bool> {
    let slack = entry.reserved.map_or(Nanos::ZERO, |reserved| reserved.slack);
    let is_changed = !slack.is_zero() && kernel.slack(thread)? != slack;
    if is_changed {
        kernel.set_slack(thread, slack)?;
    }
    Ok(is_changed)
}

/// Restores the attributes, if Tactus has changed them.
fn attributes<K: Kernel>(kernel: &K, thread: &K::Thread, entry: &Entry) -> Outcome {
    let Some(original) = entry.original.attributes else { return Outcome::AsBefore };
    let change = || {
        let found = kernel.attributes(thread)?;
        if found == original {
            // An earlier restoration may have been interrupted before it set the timer slack.
            return Ok(if restore_slack(kernel, thread, entry)? { Outcome::Restored } else { Outcome::AsBefore });
        }
        if !is_ours(found, entry, original) {
            return Ok(Outcome::Left);
        }
        let refused = match kernel.schedule(thread, original) {
            Ok(()) => None,
            Err(gone @ sys::Error::Gone(_)) => return Err(gone),
            Err(refused) => {
                // The thread must not stay real-time.
                kernel.schedule(thread, near(original))?;
                Some(Explanation::from(refused))
            }
        };
        restore_slack(kernel, thread, entry)?;
        let kept = kernel.attributes(thread)?;
        // If the thread still exists, the calls by tid have reached this thread, and no later thread with the same tid.
        kernel.status(thread)?;
        Ok(match refused {
            _ if kept == original => Outcome::Restored,
            Some(reason) => {
                Outcome::Failed(Explanation { reason: format!("{}; it is {kept} now", reason.reason).into(), ..reason })
            }
            None => {
                let why = format!("thread {} is {kept} and not {original} as before", entry.thread.tid);
                Outcome::Failed(Explanation::new(why, "try again with `tactus release`"))
            }
        })
    };
    change().unwrap_or_else(Outcome::of)
}

/// Continues a process that an earlier program of Tactus has stopped, or was about to stop.
fn go_on<K: Kernel>(kernel: &K, leader: &K::Thread, table: &Table, row: Row) -> Outcome {
    match kernel.cont(leader) {
        Ok(()) => {
            table.clear_stop(row);
            Outcome::Restored
        }
        Err(error) => Outcome::of(error),
    }
}

/// Restores the affinity, if Tactus has changed it.
pub(super) fn affinity<K: Kernel>(kernel: &K, thread: &K::Thread, entry: &Entry) -> Outcome {
    match give_back(kernel, thread, &entry.original, &entry.confined) {
        Ok(GivenBack::AsBefore) => Outcome::AsBefore,
        Ok(GivenBack::Restored) => Outcome::Restored,
        Ok(GivenBack::Left) => Outcome::Left,
        Err(error) => Outcome::of(error),
    }
}
