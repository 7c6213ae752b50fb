//! [`Workload`]: the CPU demand of an entity over time.

use sched::{Instant, Nanos};

/// The workload of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// An entity that is always runnable.
    Hog,
    /// An entity that releases a job of `work` CPU time every `period`. Late jobs queue up in order.
    Periodic(Periodic),
    /// An entity that the caller wakes and blocks.
    Scripted,
    /// A vCPU, which is runnable while the guest has work for it.
    Vcpu,
    /// A task that executes a program of [`Step`](crate::program::Step)s.
    Program,
}

/// A periodic workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periodic {
    /// Time from one release to the next. Range: above zero.
    pub period: Nanos,
    /// CPU time per job. Range: above zero.
    pub work: Nanos,
    /// Time from the entity's attachment to its first release.
    pub phase: Nanos,
    /// Time from a release to the deadline of its job.
    pub deadline: Nanos,
    /// Input at the end of a job whose successor has already been released.
    pub end: JobEnd,
}

impl Periodic {
    /// Creates a workload that releases a job of `work` CPU time every `period`. A job is due at the end of its period.
    #[must_use]
    pub const fn new(period: Nanos, work: Nanos) -> Periodic {
        Periodic { period, work, phase: Nanos::ZERO, deadline: period, end: JobEnd::Silent }
    }
}

/// The input at the end of a job whose successor has already been released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// No input: the entity continues, like a process whose sleep is already over.
    Silent,
    /// A yield, which sched(7) defines as the end of a SCHED_DEADLINE job.
    Yield,
}

/// The progress of an entity in its workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) workload: Workload,
    /// Remaining CPU time of the current burst. `None`: the burst has no end.
    pub(crate) left: Option<Nanos>,
    /// Number of jobs that are released and not completed.
    pub(crate) open: u32,
    /// Instant at which the oldest open job was released.
    pub(crate) released: Instant,
    /// Whether the entity has woken before.
    pub(crate) woke: bool,
    /// Whether the entity is paused. Releases do not wake a paused entity.
    pub(crate) paused: bool,
    /// Whether the current burst has begun.
    pub(crate) begun: bool,
    /// Whether the entity spins for a lock or a barrier.
    pub(crate) is_spinning: bool,
    /// Instant since which the entity spins without interruption. NEVER while the entity does not spin on a CPU.
    spins_since: Instant,
    /// CPU time that the entity has spun.
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

    /// Begins or resumes the spin of a spinning entity at `from`.
    #[inline]
    pub(crate) fn go_on_spinning(&mut self, from: Instant) {
        if self.is_spinning {
            self.spins_since = from;
        }
    }

    /// Pauses the spin of a spinning entity that stops running.
    #[inline]
    pub(crate) fn pause_spinning(&mut self, now: Instant) {
        if self.is_spinning && self.spins_since != Instant::NEVER {
            self.spun += now.saturating_since(self.spins_since);
            self.spins_since = Instant::NEVER;
        }
    }

    /// Ends the spin of an entity whose wait is over.
    pub(crate) fn end_spinning(&mut self, now: Instant) {
        self.give_up_spinning(now);
        self.left = Some(Nanos::ZERO);
    }

    /// Ends the spin of an entity that blocks for the rest of its wait.
    pub(crate) fn give_up_spinning(&mut self, now: Instant) {
        self.pause_spinning(now);
        self.is_spinning = false;
    }

    /// Returns whether the workload makes the entity runnable.
    pub(crate) fn wants_cpu(&self) -> bool {
        match self.workload {
            Workload::Hog => true,
            Workload::Periodic(_) => self.open > 0,
            // Other modules decide for these workloads.
            Workload::Scripted | Workload::Vcpu | Workload::Program => false,
        }
    }
}
