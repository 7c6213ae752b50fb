//! The file operations of a program: operations per second, and read and written data.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, per_second, ratio};
use sched::Instant;
use std::collections::BTreeMap;
use trace::Durations;

/// The relation between the jobs and the operations of a program that works on files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operations {
    /// Whether an operation is a transaction. A transaction has several parts and no measured duration.
    pub is_transactions: bool,
    /// Number of jobs that together perform `operations` operations. Minimum: 1.
    pub jobs: u64,
    /// Number of operations that `jobs` jobs perform. Minimum: 1.
    pub operations: u64,
    /// Total number of operations. `None`: without end.
    pub most: Option<u64>,
    /// Data that `operations` operations read. Unit: bytes.
    pub read: u64,
    /// Data that `operations` operations write. Unit: bytes.
    pub written: u64,
}

/// A gauge that counts operations at every completed job.
#[derive(Debug)]
pub(super) struct Counted {
    of: Operations,
    there: u64,
    /// Start of the first job, or of counting if that is later.
    began: Option<Instant>,
    /// End of the most recently completed job.
    done: Instant,
    /// Instant of the most recent departure of a task.
    over: Instant,
    /// Start of the open job of each task, by role.
    open: BTreeMap<String, Instant>,
    jobs: u64,
    /// Number of jobs completed before counting began.
    before: u64,
    took: Durations,
}

impl Counted {
    pub(super) fn new(of: Operations) -> Counted {
        Counted {
            of,
            there: 0,
            began: None,
            done: Instant::ZERO,
            over: Instant::ZERO,
            open: BTreeMap::new(),
            jobs: 0,
            before: 0,
            took: Durations::default(),
        }
    }

    /// Returns the number of operations for this number of jobs.
    fn operations(&self, jobs: u64) -> u64 {
        let count = ratio(jobs, self.of.operations, self.of.jobs);
        count.min(self.of.most.unwrap_or(u64::MAX))
    }
}

impl Gauge for Counted {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        match fact {
            Fact::Came => self.there += 1,
            Fact::Left => {
                self.there -= 1;
                self.over = at;
                self.open.remove(role);
            }
            Fact::Begins => {
                self.began.get_or_insert(at);
                self.open.insert(role.to_string(), at);
            }
            Fact::Done => {
                if let Some(began) = self.open.remove(role) {
                    self.took.record(at.saturating_since(began));
                    (self.done, self.jobs) = (at, self.jobs + 1);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        self.began = self.began.map(|began| began.max(at));
        (self.before, self.took) = (self.jobs, Durations::default());
    }

    fn read(&mut self, end: Instant) -> Reading {
        let all = self.operations(self.jobs);
        let count = all - self.operations(self.before);
        // If a job is unfinished or operations are left, and a task is present, the measurement lasts until the end of
        // the run.
        let is_going_on = !self.open.is_empty() || self.of.most.is_some_and(|most| all < most);
        let until = if is_going_on && self.there > 0 { end } else { self.done };
        let took = until.saturating_since(self.began.unwrap_or(until));
        let bytes = |bytes: u64| {
            let moved = u128::from(bytes) * u128::from(count) / u128::from(self.of.operations);
            // One byte per nanosecond is a million thousandths of a megabyte per second.
            ratio(u64::try_from(moved).unwrap_or(u64::MAX), 1_000_000, took.as_ns())
        };
        let mut reading = Reading::default();
        let (counted, rate) = match self.of.is_transactions {
            true => ("transactions", "transactions_per_s_milli"),
            false => ("operations", "operations_per_s_milli"),
        };
        reading.add(counted, count);
        reading.add(rate, per_second(count, took));
        reading.add("mb_read_per_s_milli", bytes(self.of.read));
        reading.add("mb_written_per_s_milli", bytes(self.of.written));
        if !self.of.is_transactions {
            let mean = self.took.total().as_ns().checked_div(self.took.count()).unwrap_or(0);
            reading.add("operation_mean_ns", mean);
            reading.time("operation_p50_ns", self.took.percentile(50));
            reading.time("operation_p95_ns", self.took.percentile(95));
            reading.time("operation_p99_ns", self.took.percentile(99));
            reading.time("operation_max_ns", self.took.longest());
        }
        reading.time("took_ns", took);
        reading.add("unfinished", u64::from(self.there > 0 || self.began.is_none()));
        reading
    }
}
