//! [`JobLog`]: every job of a run, one by one.

use sched::{EntityId, Instant};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use trace::{Event, Sink};

/// A job. Times in nanoseconds since the start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Job {
    /// Whose it is.
    pub entity: String,
    /// When it was released.
    pub release_ns: u64,
    /// When it should be done.
    pub deadline_ns: u64,
    /// When it was done; `None`: not in this run.
    pub completion_ns: Option<u64>,
}

/// Lists every job of a run, as a [`Sink`] of its trace. It grows with the run.
#[derive(Debug, Default)]
pub struct JobLog {
    jobs: Vec<Job>,
    names: BTreeMap<EntityId, String>,
    open: BTreeMap<EntityId, VecDeque<usize>>,
}

impl JobLog {
    /// The jobs in order of release.
    #[must_use]
    pub fn into_jobs(self) -> Vec<Job> {
        self.jobs
    }
}

impl Sink for JobLog {
    fn record(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Attach { entity, name, .. } => {
                self.names.insert(*entity, name.clone());
            }
            Event::Release { entity, deadline } => {
                self.open.entry(*entity).or_default().push_back(self.jobs.len());
                self.jobs.push(Job {
                    entity: self.names.get(entity).cloned().unwrap_or_default(),
                    release_ns: at.as_ns(),
                    deadline_ns: deadline.as_ns(),
                    completion_ns: None,
                });
            }
            Event::Complete { entity } => {
                if let Some(job) = self.open.get_mut(entity).and_then(VecDeque::pop_front) {
                    self.jobs[job].completion_ns = Some(at.as_ns());
                }
            }
            _ => {}
        }
    }
}
