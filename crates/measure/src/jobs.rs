//! [`JobLog`]: the list of all jobs of a run.

use sched::{Action, EntityId, Instant};
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
    /// Instant at which the job first executed ([`Starts`]). `None`: the job did not execute.
    pub start_ns: Option<u64>,
    /// Instant of the completion; `None`: the job was aborted, or did not complete in this run.
    pub completion_ns: Option<u64>,
}

/// The instant that counts as the start of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Starts {
    /// The first dispatch of the entity for the job. The costs of this dispatch belong to the job.
    #[default]
    Dispatched,
    /// The start that the workload reports ([`Event::Woke`]), after the costs of the dispatch.
    Reported,
}

/// The end of a job.
#[derive(Clone, Copy)]
enum Outcome {
    Completed,
    Aborted { executed: bool },
}

/// Lists every job of a run, as a [`Sink`] of a machine's trace, or as a [`WorldSink`] of the trace of several hosts.
/// The list grows with the run.
#[derive(Debug)]
pub struct JobLog {
    hosts: usize,
    starts: Starts,
    jobs: Vec<Job>,
    names: BTreeMap<(MachineId, EntityId), String>,
    open: BTreeMap<(MachineId, EntityId), VecDeque<usize>>,
    /// Entities that have a CPU, each with the instant since which it executes its oldest open job.
    running: BTreeMap<(MachineId, EntityId), Instant>,
}

impl Default for JobLog {
    fn default() -> JobLog {
        JobLog::of(1, Starts::Dispatched)
    }
}

impl JobLog {
    /// Creates a log of the first `hosts` machines of a world.
    #[must_use]
    pub fn of(hosts: usize, starts: Starts) -> JobLog {
        JobLog {
            hosts,
            starts,
            jobs: Vec::new(),
            names: BTreeMap::new(),
            open: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }

    /// Records that the entity has executed its oldest open job until `at`, if the entity has a CPU.
    fn execute(&mut self, key: (MachineId, EntityId), at: Instant) {
        let Some(since) = self.running.get_mut(&key) else { return };
        let since = std::mem::replace(since, at);
        if at > since
            && self.starts == Starts::Dispatched
            && let Some(&job) = self.open.get(&key).and_then(VecDeque::front)
        {
            self.jobs[job].start_ns.get_or_insert(since.as_ns());
        }
    }

    /// Records the reported start of the oldest open job of an entity. A job that is interrupted at its start reports
    /// its start again.
    fn report(&mut self, key: (MachineId, EntityId), at: Instant) {
        if let Some(&job) = self.open.get(&key).and_then(VecDeque::front) {
            self.jobs[job].start_ns = Some(at.as_ns());
        }
    }

    /// Ends the oldest open job of an entity.
    fn end(&mut self, key: (MachineId, EntityId), at: Instant, outcome: Outcome) {
        self.execute(key, at);
        if let Some(job) = self.open.get_mut(&key).and_then(VecDeque::pop_front) {
            match outcome {
                Outcome::Completed => self.jobs[job].completion_ns = Some(at.as_ns()),
                Outcome::Aborted { executed: true } => {}
                // The job was interrupted at the start that it reported.
                Outcome::Aborted { executed: false } => self.jobs[job].start_ns = None,
            }
        }
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
                self.execute((machine, *entity), at);
                self.open.entry((machine, *entity)).or_default().push_back(self.jobs.len());
                self.jobs.push(Job {
                    entity: self.names.get(&(machine, *entity)).cloned().unwrap_or_default(),
                    release_ns: at.as_ns(),
                    deadline_ns: deadline.as_ns(),
                    start_ns: None,
                    completion_ns: None,
                });
            }
            Event::Action(Action::Run { entity, .. }) => drop(self.running.insert((machine, *entity), at)),
            Event::Action(Action::Stop { entity, .. }) => {
                self.execute((machine, *entity), at);
                self.running.remove(&(machine, *entity));
            }
            Event::Woke { entity, .. } if self.starts == Starts::Reported => self.report((machine, *entity), at),
            Event::Complete { entity } => self.end((machine, *entity), at, Outcome::Completed),
            Event::Aborted { entity, executed } => {
                self.end((machine, *entity), at, Outcome::Aborted { executed: *executed });
            }
            Event::End => {
                let running: Vec<_> = self.running.keys().filter(|(on, _)| *on == machine).copied().collect();
                running.into_iter().for_each(|key| self.execute(key, at));
            }
            _ => {}
        }
    }
}
