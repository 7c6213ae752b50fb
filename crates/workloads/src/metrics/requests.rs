//! Requests to a server, measured by the server's clients.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second};
use sched::Instant;
use std::collections::{BTreeMap, VecDeque};
use trace::Durations;

/// Role of a task whose jobs create requests: the n-th job that the other tasks begin handles the request of this
/// task's n-th job.
pub(crate) const ARRIVALS: &str = "arrivals";

/// The duration of each request, from its creation to its answer. Without a task `arrivals`, the duration starts when
/// the sleep of the client was due to end. If the client did not sleep, the duration starts with the job. Requests that
/// are open at the end of the run are counted separately.
#[derive(Debug, Default)]
pub(super) struct Requests {
    came: Option<Instant>,
    over: Option<Instant>,
    there: u64,
    /// Due time of each task's next job, by role.
    due: BTreeMap<String, Instant>,
    /// Start of the duration of each task's open request, by role.
    open: BTreeMap<String, Instant>,
    /// Creation times of the requests that no client has sent yet.
    made: VecDeque<Instant>,
    has_arrivals: bool,
    took: Durations,
    answered: u64,
}

impl Gauge for Requests {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        let makes = role == ARRIVALS;
        match fact {
            Fact::Came => {
                self.came.get_or_insert(at);
                self.there += 1;
                self.has_arrivals |= makes;
            }
            Fact::Left => {
                self.there -= 1;
                self.over = Some(at);
                self.open.remove(role);
                self.due.remove(role);
            }
            Fact::Begins if makes => self.made.push_back(at),
            Fact::Begins => {
                let made = if self.has_arrivals { self.made.pop_front() } else { self.due.remove(role) };
                self.open.insert(role.to_string(), made.unwrap_or(at));
            }
            Fact::Late(late) => {
                let due = at.saturating_since(Instant::ZERO).saturating_sub(late);
                self.due.insert(role.to_string(), Instant::ZERO.saturating_add(due));
            }
            Fact::Done if !makes => {
                if let Some(made) = self.open.remove(role) {
                    self.took.record(at.saturating_since(made));
                    self.answered += 1;
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        self.came = self.came.map(|came| came.max(at));
        (self.took, self.answered) = (Durations::default(), 0);
    }

    fn read(&mut self, end: Instant) -> Reading {
        let over = self.over.filter(|_| self.there == 0).unwrap_or(end);
        let there = over.saturating_since(self.came.unwrap_or(over));
        let mut reading = Reading::default();
        reading.add("requests", self.answered);
        reading.add("requests_per_s_milli", per_second(self.answered, there));
        reading.add("open", (self.open.len() + self.made.len()) as u64);
        let mean = self.took.total().as_ns().checked_div(self.took.count()).unwrap_or(0);
        reading.add("response_mean_ns", mean);
        reading.time("response_p50_ns", self.took.percentile(50));
        reading.time("response_p95_ns", self.took.percentile(95));
        reading.time("response_p99_ns", self.took.percentile(99));
        reading.time("response_max_ns", self.took.longest());
        reading
    }
}
