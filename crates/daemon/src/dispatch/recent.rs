//! [`Recent`]: the recent CPU time of a thread, by which the threads of a client take turns.

use sched::Nanos;

/// The recent CPU time of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    /// CPU time, halved at the end of each period.
    pub(super) time: Nanos,
    /// CPU time since the last turn of a sibling began.
    pub(super) in_turn: Nanos,
    /// CPU time in this period.
    pub(super) in_period: Nanos,
    /// Number of periods since the thread last ran.
    idle: u32,
    /// Number of times that the patience with the thread has doubled: see [`parking`](super::parking).
    pub(super) doublings: u32,
}

impl Recent {
    /// Adds CPU time.
    pub(super) fn add(&mut self, ran: Nanos) {
        if !ran.is_zero() {
            self.time += ran;
            self.in_turn += ran;
            self.in_period += ran;
            self.idle = 0;
        }
    }

    /// Ends the period of the thread's client.
    pub(super) fn end_period(&mut self) {
        self.time = Nanos::ns(self.time.as_ns() / 2);
        self.in_period = Nanos::ZERO;
        self.idle = self.idle.saturating_add(1);
    }

    /// Returns how long the thread has not run, in whole periods.
    pub(super) fn slept(&self, period: Nanos) -> Nanos {
        period.saturating_mul(u64::from(self.idle))
    }

    /// Returns whether the thread has run in this period or the last.
    pub(super) fn is_active(&self) -> bool {
        self.idle < 2
    }
}
