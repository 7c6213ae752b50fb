//! [`attributed`]: whether a difference follows from two events on different CPUs that are too close for one to know of the other.
//!
//! A CPU chooses while another one lets a promise wake, sleep or begin a period, or moves its thread to a queue: the choice may be of
//! the state before or after. Two CPUs change one promise: the account then depends on which of them was first.

use super::comparison::Kind;
use crate::recording::{Record, What};
use sched::Nanos;

/// Maximum time between two events on different CPUs of which one need not know of the other.
pub(super) const CLOSE: Nanos = Nanos::us(20);

/// What a difference is about.
pub(super) struct Subject<'a> {
    /// Index of the record at which it was found.
    pub(super) index: usize,
    pub(super) kind: Kind,
    pub(super) promises: &'a [i32],
    /// Index of the record at which kernel and policy last agreed on one of the promises.
    pub(super) since: usize,
}

/// Returns the indices of two records of different CPUs, at most [`CLOSE`] apart, from which a difference follows.
pub(super) fn attributed(records: &[Record], subject: &Subject<'_>) -> Option<(usize, usize)> {
    match subject.kind {
        // 20 µs are no reason for milliseconds.
        Kind::NoChoice { .. } | Kind::NoPeriod { .. } => None,
        Kind::Choice { kernel: Some(kernel), policy: Some(policy) } if kernel.promise == policy.promise => {
            with_choice(records, subject, changes_account).or_else(|| of_one_promise(records, subject))
        }
        Kind::Choice { .. } | Kind::Run { .. } | Kind::State => {
            with_choice(records, subject, is_event).or_else(|| of_one_promise(records, subject))
        }
    }
}

/// Whether an event may change the deadline or the remaining slice at once.
fn changes_account(what: What) -> bool {
    matches!(what, What::Wake | What::Sleep | What::Renew | What::Yield)
}

fn is_event(what: What) -> bool {
    !matches!(what, What::Choice { .. } | What::Begin { .. })
}

/// Finds an event of one of the promises close to the record of the difference.
fn with_choice(records: &[Record], subject: &Subject<'_>, counts: fn(What) -> bool) -> Option<(usize, usize)> {
    let Subject { index, promises, .. } = *subject;
    let this = records[index];
    let explains =
        |record: &Record| promises.contains(&record.promise) && record.cpu != this.cpu && counts(record.what);
    let is_close = |record: &Record| record.at_ns.abs_diff(this.at_ns) <= CLOSE.as_ns();
    let before = (0..index).rev().take_while(|at| is_close(&records[*at])).find(|at| explains(&records[*at]));
    let after =
        || (index + 1..records.len()).take_while(|at| is_close(&records[*at])).find(|at| explains(&records[*at]));
    before.map(|before| (before, index)).or_else(|| after().map(|after| (index, after)))
}

/// Finds two events that change the account of one of the promises, since the last agreement.
fn of_one_promise(records: &[Record], subject: &Subject<'_>) -> Option<(usize, usize)> {
    let Subject { index, promises, since, .. } = *subject;
    let changes = |at: &usize| {
        let Record { promise, what, .. } = records[*at];
        promises.contains(&promise) && is_event(what) && what != What::Move
    };
    let changes: Vec<usize> = (since..=index).filter(changes).collect();
    // The last pair is the likeliest cause.
    for (place, &later) in changes.iter().enumerate().rev() {
        let is_close = |at: &usize| records[later].at_ns - records[*at].at_ns <= CLOSE.as_ns();
        for &earlier in changes[..place].iter().rev().take_while(|at| is_close(at)) {
            let (one, other) = (records[earlier], records[later]);
            let is_pair = one.promise == other.promise && one.cpu != other.cpu;
            if is_pair && (changes_account(one.what) || changes_account(other.what)) {
                return Some((earlier, later));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::comparison::Choice;
    use super::*;

    fn record(number: u64, at_us: u64, cpu: usize, promise: i32, what: What) -> Record {
        Record { number, at_ns: at_us * 1_000, took_ns: 0, cpu, promise, what }
    }

    const CHOICE: What = What::Choice { deadline_ns: 0, left_ns: 0 };

    fn pair(records: &[Record], index: usize, kernel: Option<i32>, policy: i32) -> Option<(usize, usize)> {
        let choice = |promise| Choice { promise, deadline_ns: 0, left_ns: 0 };
        let kind = Kind::Choice { kernel: kernel.map(choice), policy: Some(choice(policy)) };
        let promises: Vec<i32> = kernel.into_iter().chain([policy]).collect();
        attributed(records, &Subject { index, kind, promises: &promises, since: 0 })
    }

    #[test]
    fn a_choice_that_misses_an_event_of_another_cpu_just_before_is_attributed_to_both() {
        let records = |us: u64, cpu: usize, promise: i32| {
            [record(0, 100, cpu, promise, What::Wake), record(1, 100 + us, 0, 0, CHOICE)]
        };
        assert_eq!(pair(&records(20, 1, 7), 1, None, 7), Some((0, 1)));
        assert_eq!(pair(&records(21, 1, 7), 1, None, 7), None, "it is too old");
        assert_eq!(pair(&records(20, 0, 7), 1, None, 7), None, "it was on the same CPU");
        assert_eq!(pair(&records(20, 1, 8), 1, None, 7), None, "it was of another promise");
    }

    #[test]
    fn another_deadline_is_attributed_only_to_events_that_change_an_account() {
        let records = |one: What, other: What| {
            let later = [record(1, 110, 1, 7, other), record(2, 900, 0, 7, CHOICE)];
            [&[record(0, 100, 0, 7, one)][..], &later].concat()
        };
        assert_eq!(pair(&records(What::Sleep, What::Renew), 2, Some(7), 7), Some((0, 1)));
        assert_eq!(pair(&records(What::Move, What::Renew), 2, Some(7), 7), None);
        assert_eq!(pair(&records(What::Run, What::Stop), 2, Some(7), 7), None);
        let moved = [record(0, 100, 1, 7, What::Move), record(1, 105, 0, 7, CHOICE)];
        assert_eq!((pair(&moved, 1, Some(7), 7), pair(&moved, 1, None, 7)), (None, Some((0, 1))));
    }

    #[test]
    fn a_choice_that_does_not_come_is_never_attributed() {
        let records = [record(0, 100, 1, 7, What::Wake), record(1, 105, 0, 0, CHOICE)];
        let kind = Kind::NoChoice { since_ns: 0 };
        assert_eq!(attributed(&records, &Subject { index: 1, kind, promises: &[7], since: 0 }), None);
    }
}
