//! [`Jobs`]: the results of an entity's jobs.

use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// The results of the jobs of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jobs {
    /// Number of jobs released.
    pub releases: u64,
    /// Number of jobs completed.
    pub completions: u64,
    /// Number of jobs completed after their deadline.
    pub misses: u64,
    /// Number of jobs aborted at their deadline, and of incomplete jobs whose deadline had passed when the run ended or
    /// the entity was detached.
    pub unfinished_late: u64,
    /// Maximum tardiness of a completed job. Zero if no completed job was late.
    pub worst_lateness: Nanos,
}

impl Jobs {
    /// Adds the results of `other`: sums, and the maximum of the tardiness.
    pub(super) fn add(&mut self, other: &Jobs) {
        self.releases += other.releases;
        self.completions += other.completions;
        self.misses += other.misses;
        self.unfinished_late += other.unfinished_late;
        self.worst_lateness = self.worst_lateness.max(other.worst_lateness);
    }
}

/// A job that is not completed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenJob {
    pub(super) released: Instant,
    pub(super) deadline: Instant,
}

/// Consecutive jobs with equally spaced releases and equally spaced deadlines.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: OpenJob,
    /// Time from one release to the next, and from one deadline to the next.
    apart: [Nanos; 2],
    count: u64,
}

impl Stretch {
    const EMPTY: Stretch = Stretch {
        first: OpenJob { released: Instant::ZERO, deadline: Instant::ZERO },
        apart: [Nanos::ZERO; 2],
        count: 0,
    };

    /// Returns the `n`-th job after the first.
    fn job(&self, n: u64) -> OpenJob {
        let [released, deadline] = self.apart.map(|apart| apart.saturating_mul(n));
        OpenJob {
            released: self.first.released.saturating_add(released),
            deadline: self.first.deadline.saturating_add(deadline),
        }
    }

    /// Appends `job`. Returns false, and appends nothing, if the distances would not remain equal or would be negative.
    #[inline]
    fn extend(&mut self, job: OpenJob) -> bool {
        match self.count {
            0 => self.first = job,
            1 if job.released >= self.first.released && job.deadline >= self.first.deadline => {
                self.apart = [job.released.since(self.first.released), job.deadline.since(self.first.deadline)];
            }
            1 => return false,
            count if self.job(count) != job => return false,
            _ => {}
        }
        self.count += 1;
        true
    }

    /// Returns the number of deadlines before `now`.
    fn late(&self, now: Instant) -> u64 {
        match (now.saturating_since(self.first.deadline).as_ns(), self.apart[1].as_ns()) {
            (0, _) => 0,
            (_, 0) => self.count,
            (past, apart) => past.div_ceil(apart).min(self.count),
        }
    }
}

/// The jobs not completed yet, in order of release. Any number of jobs at equal distances takes constant memory.
#[derive(Clone, Debug)]
pub(super) struct OpenJobs {
    /// Oldest stretch of jobs, usually the only stretch. Empty only if no jobs are open.
    oldest: Stretch,
    later: VecDeque<Stretch>,
}

impl Default for OpenJobs {
    fn default() -> OpenJobs {
        OpenJobs { oldest: Stretch::EMPTY, later: VecDeque::new() }
    }
}

impl OpenJobs {
    #[inline]
    pub(super) fn push(&mut self, job: OpenJob) {
        if !(self.later.is_empty() && self.oldest.extend(job)) {
            self.push_later(job);
        }
    }

    #[cold]
    fn push_later(&mut self, job: OpenJob) {
        if !self.later.back_mut().is_some_and(|last| last.extend(job)) {
            self.later.push_back(Stretch { first: job, count: 1, ..Stretch::EMPTY });
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<OpenJob> {
        let job = self.oldest.first;
        match self.oldest.count {
            0 => return None,
            1 if self.later.is_empty() => self.oldest.count = 0,
            1 => self.oldest = self.later.pop_front().unwrap_or(Stretch::EMPTY),
            _ => {
                self.oldest.first = self.oldest.job(1);
                self.oldest.count -= 1;
            }
        }
        Some(job)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.oldest.count == 0
    }

    /// Returns the number of deadlines before `now`.
    pub(super) fn late(&self, now: Instant) -> u64 {
        std::iter::once(&self.oldest).chain(&self.later).map(|stretch| stretch.late(now)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(released: u64, deadline: u64) -> OpenJob {
        OpenJob { released: Instant::at_ns(released), deadline: Instant::at_ns(deadline) }
    }

    #[test]
    fn jobs_are_taken_in_the_order_in_which_they_were_added() {
        let deadlines = [10, 20, 30, 35, 36, 36, 36, 5, 9, 100, 100];
        // The releases are equally spaced, equal to the deadlines, or irregular.
        for released in [|i: u64, _: u64| 7 * i, |_, deadline| deadline, |i, deadline| deadline * i % 11] {
            let given: Vec<OpenJob> = (0..).zip(deadlines).map(|(i, at)| job(released(i, at), at)).collect();
            let mut jobs = OpenJobs::default();
            given.iter().for_each(|&job| jobs.push(job));
            for now in 0..=101 {
                let late = given.iter().filter(|job| job.deadline < Instant::at_ns(now)).count() as u64;
                assert_eq!(jobs.late(Instant::at_ns(now)), late, "before {now}");
            }
            let found: Vec<OpenJob> = std::iter::from_fn(|| jobs.pop()).collect();
            assert_eq!(found, given);
            assert!(jobs.is_empty());
        }
    }

    #[test]
    fn a_million_periods_late_take_no_room() {
        let mut jobs = OpenJobs::default();
        (0..1_000_000).for_each(|i| jobs.push(job(3 * i, 7 + 3 * i)));
        assert!(jobs.later.is_empty());
        assert_eq!(jobs.late(Instant::NEVER), 1_000_000);
    }
}
