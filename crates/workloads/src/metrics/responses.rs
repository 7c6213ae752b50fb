//! Answers to a user: the time until each answer.

use super::Grade;
use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use sched::Instant;
use trace::Durations;

/// The duration from each click to the answer, that is, from the due start of a job to its end. The due start is the
/// instant at which the task's sleep was due to end. A job that is due or open at the end of the run counts with its
/// duration up to the end of the run.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// Due start of the next job.
    due: Option<Instant>,
    began: Option<Instant>,
    took: Durations,
    done: u64,
}

impl Gauge for Responses {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Awake => self.due = Some(at),
            Fact::Asleep => self.due = None,
            // In a guest, the timer itself may be late.
            Fact::Late(late) => {
                let due = at.saturating_since(Instant::ZERO).saturating_sub(late);
                self.due = Some(Instant::ZERO.saturating_add(due));
            }
            Fact::Begins => self.began = Some(self.due.take().unwrap_or(at)),
            Fact::Done => {
                if let Some(began) = self.began.take() {
                    self.took.record(at.saturating_since(began));
                    self.done += 1;
                }
            }
            Fact::Left => (self.began, self.due) = (None, None),
            _ => {}
        }
    }

    fn begin(&mut self, _: Instant) {
        (self.took, self.done) = (Durations::default(), 0);
    }

    fn read(&mut self, end: Instant) -> Reading {
        if let Some(began) = self.began.or(self.due) {
            self.took.record(end.saturating_since(began));
        }
        let mut reading = Reading::default();
        reading.add("answers", self.done);
        reading.time("response_p50_ns", self.took.percentile(50));
        reading.time("response_p95_ns", self.took.percentile(95));
        reading.time("response_p99_ns", self.took.percentile(99));
        reading.time("response_max_ns", self.took.longest());
        let grade =
            if self.took.count() == 0 { Grade::Jitter } else { Grade::of(&self.took.percentile(95), &Grade::ANSWERS) };
        reading.add("grade", grade.number());
        reading
    }
}
