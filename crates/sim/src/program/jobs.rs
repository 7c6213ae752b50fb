//! [`Jobs`]: the releases, CPU time and deadlines of a task's jobs, and the progress of the task in them.

use sched::{Instant, Nanos};
use std::sync::Arc;

/// The jobs of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jobs {
    /// Instants of the releases.
    pub releases: Releases,
    /// CPU time of each job. Range: above zero.
    pub work: Nanos,
    /// Time from the release of a job to its deadline. Range: above zero.
    pub deadline: Nanos,
    /// The consequence of a deadline that passes before the job completes.
    pub late: LateJobs,
}

/// Instants of releases, as times since the start of the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Releases {
    /// A release at `first`, and another after every `period`.
    Every {
        /// Time of the first release.
        first: Nanos,
        /// Time from one release to the next. Range: above zero.
        period: Nanos,
    },
    /// Releases at these times, in ascending order.
    At(Vec<Nanos>),
}

/// The consequence of a missed deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LateJobs {
    /// The job continues until it completes. Its successors wait.
    Continue,
    /// The job is aborted at its deadline.
    Abort,
}

/// The progress of a task in its jobs.
#[derive(Debug)]
pub(crate) struct JobState {
    pub(super) jobs: Arc<Jobs>,
    /// Instant at which the task started.
    pub(super) began: Instant,
    /// Number of released jobs.
    pub(super) released: u64,
    /// Number of completed or aborted jobs.
    pub(super) ended: u64,
    /// Instant at which the oldest open job first executed. `None`: the job has not executed.
    pub(super) started: Option<Instant>,
}

/// The next events of a task with jobs. NEVER: the event does not happen.
#[derive(Clone, Copy)]
pub(super) struct NextEvents {
    /// Instant of the next release.
    pub(super) release: Instant,
    /// Instant at which the oldest open job is aborted.
    pub(super) abort: Instant,
}

impl JobState {
    pub(super) fn new(jobs: Arc<Jobs>, began: Instant) -> JobState {
        JobState { jobs, began, released: 0, ended: 0, started: None }
    }

    pub(super) fn has_open(&self) -> bool {
        self.released > self.ended
    }

    /// Returns the instant of release `number`, counted from 0. NEVER if there are fewer releases.
    fn release(&self, number: u64) -> Instant {
        let time = match &self.jobs.releases {
            Releases::Every { first, period } => Some(first.saturating_add(period.saturating_mul(number))),
            Releases::At(times) => usize::try_from(number).ok().and_then(|number| times.get(number)).copied(),
        };
        time.map_or(Instant::NEVER, |time| self.began.saturating_add(time))
    }

    /// Returns the release of the oldest open job.
    pub(super) fn oldest(&self) -> Instant {
        self.release(self.ended)
    }

    pub(super) fn next_events(&self) -> NextEvents {
        let aborts = self.jobs.late == LateJobs::Abort && self.has_open();
        let abort = if aborts { self.oldest().saturating_add(self.jobs.deadline) } else { Instant::NEVER };
        NextEvents { release: self.release(self.released), abort }
    }

    /// Returns the number of open jobs whose deadlines are before `now`.
    pub(super) fn late(&self, now: Instant) -> u64 {
        let is_late = |number: &u64| self.release(*number).saturating_add(self.jobs.deadline) < now;
        (self.ended..self.released).take_while(is_late).count() as u64
    }
}
