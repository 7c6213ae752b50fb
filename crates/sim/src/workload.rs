//! [`Workload`]: what an entity does with the CPU time it gets.

use sched::{Instant, Nanos};

/// What an entity does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// It always wants to run.
    Hog,
    /// It releases a job every `period`, each of `work` CPU time; jobs that come late queue up in order.
    Periodic(Periodic),
    /// It does nothing of its own accord: whoever drives the host wakes and blocks it.
    Scripted,
}

/// A periodic workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periodic {
    /// From one release to the next. Range: above zero.
    pub period: Nanos,
    /// CPU time per job. Range: above zero.
    pub work: Nanos,
    /// From the entity's arrival to its first release.
    pub phase: Nanos,
    /// From a release to when the job should be done.
    pub deadline: Nanos,
    /// What the scheduler learns at the end of a job whose successor has already been released.
    pub end: JobEnd,
}

impl Periodic {
    /// Jobs of `work` every `period`, due at the end of their period.
    #[must_use]
    pub const fn new(period: Nanos, work: Nanos) -> Periodic {
        Periodic { period, work, phase: Nanos::ZERO, deadline: period, end: JobEnd::Silent }
    }
}

/// What the scheduler learns at the end of a job whose successor waits already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// Nothing: the entity just goes on, as a process that finds its sleep already over.
    Silent,
    /// A yield, the job's end as SCHED_DEADLINE understands it (sched(7)).
    Yield,
}

/// Where an entity stands in its workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) workload: Workload,
    /// CPU time until the current burst is done; `None`: it never is.
    pub(crate) left: Option<Nanos>,
    /// Jobs released and not completed.
    pub(crate) open: u32,
    /// The release of the oldest of them.
    pub(crate) released: Instant,
    /// Whether it ever woke.
    pub(crate) woke: bool,
    /// Whether it is paused: releases do not wake it.
    pub(crate) paused: bool,
    /// Whether the current job has run already.
    pub(crate) begun: bool,
}

impl Progress {
    pub(crate) fn new(workload: Workload) -> Progress {
        Progress { workload, left: None, open: 0, released: Instant::ZERO, woke: false, paused: false, begun: false }
    }

    /// Whether it has something to run.
    pub(crate) fn wants_cpu(&self) -> bool {
        match self.workload {
            Workload::Hog => true,
            Workload::Periodic(_) => self.open > 0,
            Workload::Scripted => false,
        }
    }
}
