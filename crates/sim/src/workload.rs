//! [`Workload`]: what an entity does with its CPU time.

use sched::{Instant, Nanos};

/// The workload of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// It always wants to run.
    Hog,
    /// It releases a job every `period`, each of `work` CPU time; jobs that come late queue up in order.
    Periodic(Periodic),
    /// It does nothing by itself: the caller wakes and blocks it.
    Scripted,
    /// It is a vCPU: it runs while its guest has something to run.
    Vcpu,
    /// It follows a program, see [`Step`](crate::program::Step).
    Program,
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
    /// From a release to the deadline of the job.
    pub deadline: Nanos,
    /// The input at the end of a job whose successor has already been released.
    pub end: JobEnd,
}

impl Periodic {
    /// Jobs of `work` every `period`, due at the end of their period.
    #[must_use]
    pub const fn new(period: Nanos, work: Nanos) -> Periodic {
        Periodic { period, work, phase: Nanos::ZERO, deadline: period, end: JobEnd::Silent }
    }
}

/// The input at the end of a job whose successor has already been released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// None: the entity goes on, as a process whose sleep is already over.
    Silent,
    /// A yield, the job's end as SCHED_DEADLINE understands it (sched(7)).
    Yield,
}

/// The progress of an entity in its workload.
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
    /// Whether it spins for a lock.
    pub(crate) is_spinning: bool,
    /// Since when it has done so without interruption; NEVER while it does not run.
    spins_since: Instant,
    /// CPU time it has spun.
    pub(crate) spun: Nanos,
}

impl Progress {
    pub(crate) fn new(workload: Workload) -> Progress {
        Progress {
            workload,
            left: None,
            open: 0,
            released: Instant::ZERO,
            woke: false,
            paused: false,
            begun: false,
            is_spinning: false,
            spins_since: Instant::NEVER,
            spun: Nanos::ZERO,
        }
    }

    /// A spinning entity spins from `from` on.
    #[inline]
    pub(crate) fn go_on_spinning(&mut self, from: Instant) {
        if self.is_spinning {
            self.spins_since = from;
        }
    }

    /// A spinning entity stops running.
    #[inline]
    pub(crate) fn pause_spinning(&mut self, now: Instant) {
        if self.is_spinning && self.spins_since != Instant::NEVER {
            self.spun += now.saturating_since(self.spins_since);
            self.spins_since = Instant::NEVER;
        }
    }

    /// It has got the lock that it spun for.
    pub(crate) fn end_spinning(&mut self, now: Instant) {
        self.pause_spinning(now);
        self.is_spinning = false;
        self.left = Some(Nanos::ZERO);
    }

    /// Whether it wants to run.
    pub(crate) fn wants_cpu(&self) -> bool {
        match self.workload {
            Workload::Hog => true,
            Workload::Periodic(_) => self.open > 0,
            // Other modules know what these want.
            Workload::Scripted | Workload::Vcpu | Workload::Program => false,
        }
    }
}
