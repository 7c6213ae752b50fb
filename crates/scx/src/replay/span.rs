//! [`Span`]: the time that an event of a recording takes.
//!
//! A timer begins a period at one instant, and the thread comes to the queue of its CPU at a later one. Between the two, the thread is
//! on its way: other CPUs choose, and cannot choose it.

use super::comparison::LATE_MOST;
use super::lived::Lived;
use crate::recording::{Record, What};
use std::collections::BTreeMap;

/// From the clock with which the kernel has decided until the effect is there. Unit: ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    begin_ns: u64,
    end_ns: u64,
}

impl Span {
    fn of(record: &Record) -> Span {
        Span { begin_ns: record.at_ns, end_ns: record.at_ns + record.took_ns }
    }

    /// Returns the time between two spans; 0 if they overlap. Unit: ns.
    pub(super) fn apart_ns(self, other: Span) -> u64 {
        let (first, second) = if self.begin_ns <= other.begin_ns { (self, other) } else { (other, self) };
        second.begin_ns.saturating_sub(first.end_ns)
    }
}

/// Threads on their way to the queue of their CPU.
#[derive(Default)]
struct Way {
    /// Indices of the records with which it began. Another period may begin on the way.
    begins: Vec<usize>,
    /// The CPU that has chosen the promise since, and the end of this choice. Unit: ns.
    chosen: Option<(usize, u64)>,
}

impl Way {
    /// Returns the end of the way, whose record is `come` with the span `own`. `None`: the thread was not on its way.
    ///
    /// The CPU that brings a thread reads the clock after the thread has come. The CPU of the thread may choose it before. A CPU
    /// that has chosen a thread and brings it afterwards has chosen it without bringing it.
    fn end_ns(&self, come: &Record, own: Span) -> Option<u64> {
        match self.chosen {
            Some((cpu, _)) if cpu == come.cpu => None,
            Some((_, end_ns)) => Some(end_ns),
            None => Some(own.end_ns),
        }
    }
}

/// Returns the span of each record.
///
/// A wake-up, or the begin of a period, lasts until its thread has come to the queue, and both records have this span. A thread that does
/// not come within the time for which a choice may be late was not brought.
pub(super) fn spans(records: &[Record], lived: &Lived) -> Vec<Span> {
    let mut spans: Vec<Span> = records.iter().map(Span::of).collect();
    let mut under_way: BTreeMap<i32, Way> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        match record.what {
            What::Wake | What::Renew => {
                let way = under_way.entry(record.promise).or_default();
                if way.chosen.is_some() {
                    *way = Way::default();
                }
                way.begins.push(index);
            }
            What::Move => {
                let Some(way) = under_way.remove(&record.promise) else { continue };
                let Some(end_ns) = way.end_ns(record, spans[index]) else { continue };
                // The earliest one comes last, so the record of the move has its span.
                for begin in way.begins.into_iter().rev() {
                    let way = Span { begin_ns: records[begin].at_ns, end_ns };
                    if lived.between(way.begin_ns, way.end_ns) <= LATE_MOST {
                        (spans[begin], spans[index]) = (way, way);
                    }
                }
            }
            What::Run | What::Choice { .. } => {
                if let Some(way) = under_way.get_mut(&record.promise) {
                    way.chosen.get_or_insert((record.cpu, spans[index].end_ns));
                }
            }
            What::Sleep => {
                under_way.remove(&record.promise);
            }
            What::Begin { .. } | What::Stop | What::Yield | What::Beat => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, at_us: u64, promise: i32, what: What) -> Record {
        Record { number, at_ns: at_us * 1_000, took_ns: 1_000, cpu: 0, promise, what }
    }

    /// Returns the spans of these records of a guest in which something happens every 100 us.
    fn spans_beside(records: &[Record]) -> Vec<Span> {
        let others: Vec<Record> =
            (0..40).map(|at| record(at, at * 100, 99, What::Choice { deadline_ns: 0, left_ns: 0 })).collect();
        spans(records, &Lived::new(&others, 1))
    }

    fn span(begin_us: u64, end_us: u64) -> Span {
        Span { begin_ns: begin_us * 1_000, end_ns: end_us * 1_000 }
    }

    #[test]
    fn the_begin_of_a_period_lasts_until_the_thread_has_come_to_the_queue() {
        let records = [record(0, 10, 7, What::Renew), record(1, 30, 8, What::Move), record(2, 60, 7, What::Move)];
        assert_eq!(spans_beside(&records), [span(10, 61), span(30, 31), span(10, 61)]);
    }

    #[test]
    fn a_thread_that_runs_or_comes_too_late_was_not_on_its_way() {
        let ran = [record(0, 10, 7, What::Renew), record(1, 30, 7, What::Run), record(2, 60, 7, What::Move)];
        assert_eq!(spans_beside(&ran), [span(10, 11), span(30, 31), span(60, 61)]);
        let late = [record(0, 10, 7, What::Renew), record(1, 2_020, 7, What::Move)];
        assert_eq!(spans_beside(&late), [span(10, 11), span(2_020, 2_021)]);
    }

    #[test]
    fn a_thread_that_was_chosen_had_come_although_its_record_follows() {
        let chosen = Record { cpu: 1, ..record(1, 40, 7, What::Choice { deadline_ns: 0, left_ns: 0 }) };
        let records = [record(0, 10, 7, What::Renew), chosen, record(2, 60, 7, What::Move)];
        assert_eq!(spans_beside(&records), [span(10, 41), span(40, 41), span(10, 41)]);
        let again = [record(0, 10, 7, What::Renew), chosen, record(2, 50, 7, What::Wake), record(3, 60, 7, What::Move)];
        assert_eq!(spans_beside(&again), [span(10, 11), span(40, 41), span(50, 61), span(50, 61)]);
    }

    #[test]
    fn the_way_to_the_queue_goes_on_while_another_period_begins() {
        let come_at =
            |us| [record(0, 100, 7, What::Renew), record(1, 1_100, 7, What::Renew), record(2, us, 7, What::Move)];
        assert_eq!(spans_beside(&come_at(1_900)), [span(100, 1_901), span(1_100, 1_901), span(100, 1_901)]);
        assert_eq!(spans_beside(&come_at(2_200)), [span(100, 101), span(1_100, 2_201), span(1_100, 2_201)]);
    }

    #[test]
    fn the_time_between_two_spans_is_from_the_end_of_the_first_one() {
        assert_eq!(span(10, 20).apart_ns(span(25, 30)), 5_000);
        assert_eq!(span(25, 30).apart_ns(span(10, 20)), 5_000);
        assert_eq!(span(10, 40).apart_ns(span(25, 30)), 0);
    }

    #[test]
    fn a_way_goes_on_after_a_time_in_which_the_guest_stood_still() {
        let late = [record(0, 10, 7, What::Renew), record(1, 2_500, 7, What::Move)];
        assert_eq!(spans(&late, &Lived::new(&late, 1)), [span(10, 2_501), span(10, 2_501)]);
        assert_eq!(spans_beside(&late), [span(10, 11), span(2_500, 2_501)]);
    }
}
