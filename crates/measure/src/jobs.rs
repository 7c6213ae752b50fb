//! [`JobLog`]: the list of all jobs of a run.

use sched::{EntityId, Instant};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use trace::{Event, MachineId, Sink, WorldSink};

/// A job. Times are in nanoseconds since the start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Job {
    /// Name of the job's entity.
    pub entity: String,
    /// Instant of the release.
    pub release_ns: u64,
    /// Instant of the deadline.
    pub deadline_ns: u64,
    /// Instant of the completion; `None`: the job did not complete in this run.
    pub completion_ns: Option<u64>,
}

/// Lists every job of a run, as a [`Sink`] of a machine's trace, or as a [`WorldSink`] of the trace of several hosts.
/// The list grows with the run.
#[derive(Debug)]
pub struct JobLog {
    hosts: usize,
    jobs: Vec<Job>,
    names: BTreeMap<(MachineId, EntityId), String>,
    open: BTreeMap<(MachineId, EntityId), VecDeque<usize>>,
}

impl Default for JobLog {
    fn default() -> JobLog {
        JobLog::of(1)
    }
}

impl JobLog {
    /// Creates a log of the first `hosts` machines of a world.
    #[must_use]
    pub fn of(hosts: usize) -> JobLog {
        JobLog { hosts, jobs: Vec::new(), names: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// Returns the jobs in order of release.
    #[must_use]
    pub fn into_jobs(self) -> Vec<Job> {
        self.jobs
    }
}

impl Sink for JobLog {
    fn record(&mut self, at: Instant, event: &Event) {
        WorldSink::record(self, MachineId(0), at, event);
    }
}

impl WorldSink for JobLog {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if machine.index() >= self.hosts {
            return;
        }
        match event {
            Event::Attach { entity, name, .. } => {
                self.names.insert((machine, *entity), name.clone());
            }
            Event::Release { entity, deadline } => {
                self.open.entry((machine, *entity)).or_default().push_back(self.jobs.len());
                self.jobs.push(Job {
                    entity: self.names.get(&(machine, *entity)).cloned().unwrap_or_default(),
                    release_ns: at.as_ns(),
                    deadline_ns: deadline.as_ns(),
                    completion_ns: None,
                });
            }
            Event::Complete { entity } => {
                if let Some(job) = self.open.get_mut(&(machine, *entity)).and_then(VecDeque::pop_front) {
                    self.jobs[job].completion_ns = Some(at.as_ns());
                }
            }
            _ => {}
        }
    }
}
