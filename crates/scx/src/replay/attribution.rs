//! [`attributed`]: whether a difference follows from two events on different CPUs that are too close for one to know of the other.
//!
//! A CPU chooses while another one lets a promise wake, sleep or begin a period, or moves its thread to a queue: the choice may be of
//! the state before or after. Two CPUs change one promise: the account then depends on which of them was first.
//!
//! An event takes time (`span.rs`): two events are close if at most [`CLOSE`] is between the end of one and the begin of the other.

use super::comparison::{Kind, LATE_MOST};
use super::lived::Lived;
use super::span::Span;
use crate::recording::{Record, What};
use sched::Nanos;

/// Maximum time between two events on different CPUs of which one need not know of the other.
pub(super) const CLOSE: Nanos = Nanos::us(20);

/// Indices of two close records of different CPUs.
pub(super) type Pair = (usize, usize);

/// What a difference is about.
pub(super) struct Subject<'a> {
    /// Index of the record at which it was found.
    pub(super) index: usize,
    pub(super) kind: Kind,
    pub(super) promises: &'a [i32],
    /// Index of the record at which kernel and policy last agreed on one of the promises.
    pub(super) since: usize,
}

/// Records, the span of each, and the time of the recording without its silence.
#[derive(Clone, Copy)]
pub(super) struct Events<'a> {
    pub(super) records: &'a [Record],
    pub(super) spans: &'a [Span],
    pub(super) lived: &'a Lived,
}

impl Events<'_> {
    fn are_close(self, one: usize, other: usize) -> bool {
        self.spans[one].apart_ns(self.spans[other]) <= CLOSE.as_ns()
    }

    /// Whether the clocks of two records are so near that they can be close.
    fn can_be_close(self, one: usize, other: usize) -> bool {
        let (one, other) = (self.records[one].at_ns, self.records[other].at_ns);
        self.lived.between(one.min(other), one.max(other)) <= LATE_MOST + CLOSE
    }
}

/// Returns the indices of two close records of different CPUs, from which a difference follows.
pub(super) fn attributed(events: Events<'_>, subject: &Subject<'_>) -> Option<Pair> {
    match subject.kind {
        // 20 µs are no reason for milliseconds.
        Kind::NoChoice { .. } | Kind::NoPeriod { .. } => None,
        Kind::Choice { kernel: Some(kernel), policy: Some(policy) } if kernel.promise == policy.promise => {
            with_choice(events, subject, changes_account).or_else(|| of_one_promise(events, subject))
        }
        Kind::Choice { .. } | Kind::Run { .. } | Kind::State => {
            with_choice(events, subject, is_event).or_else(|| of_one_promise(events, subject))
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
fn with_choice(events: Events<'_>, subject: &Subject<'_>, counts: fn(What) -> bool) -> Option<Pair> {
    let Subject { index, promises, .. } = *subject;
    let Events { records, .. } = events;
    let explains = |at: &usize| {
        let Record { promise, cpu, what, .. } = records[*at];
        promises.contains(&promise) && cpu != records[index].cpu && counts(what) && events.are_close(*at, index)
    };
    let can_explain = |at: &usize| events.can_be_close(*at, index);
    let before = (0..index).rev().take_while(can_explain).find(explains);
    let after = || (index + 1..records.len()).take_while(can_explain).find(explains);
    before.map(|before| (before, index)).or_else(|| after().map(|after| (index, after)))
}

/// Finds two events that change the account of one of the promises, since the last agreement.
fn of_one_promise(events: Events<'_>, subject: &Subject<'_>) -> Option<Pair> {
    let Subject { index, promises, since, .. } = *subject;
    let Events { records, .. } = events;
    let changes = |at: &usize| {
        let Record { promise, what, .. } = records[*at];
        promises.contains(&promise) && is_event(what) && what != What::Move
    };
    let changes: Vec<usize> = (since..=index).filter(changes).collect();
    // The last pair is the likeliest cause.
    for (place, &later) in changes.iter().enumerate().rev() {
        for &earlier in changes[..place].iter().rev().take_while(|at| events.can_be_close(**at, later)) {
            let (one, other) = (records[earlier], records[later]);
            let is_pair = one.promise == other.promise && one.cpu != other.cpu && events.are_close(earlier, later);
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
    use super::super::span::spans;
    use super::*;

    fn record(number: u64, at_us: u64, cpu: usize, promise: i32, what: What) -> Record {
        Record { number, at_ns: at_us * 1_000, took_ns: 0, cpu, promise, what }
    }

    const CHOICE: What = What::Choice { deadline_ns: 0, left_ns: 0 };

    fn pair(records: &[Record], index: usize, kernel: Option<i32>, policy: i32) -> Option<Pair> {
        let choice = |promise| Choice { promise, deadline_ns: 0, left_ns: 0 };
        let kind = Kind::Choice { kernel: kernel.map(choice), policy: Some(choice(policy)) };
        let promises: Vec<i32> = kernel.into_iter().chain([policy]).collect();
        let lived = Lived::new(records, 2);
        let events = Events { records, spans: &spans(records, &lived), lived: &lived };
        attributed(events, &Subject { index, kind, promises: &promises, since: 0 })
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
        let lived = Lived::new(&records, 2);
        let events = Events { records: &records, spans: &spans(&records, &lived), lived: &lived };
        assert_eq!(attributed(events, &Subject { index: 1, kind, promises: &[7], since: 0 }), None);
    }
}
