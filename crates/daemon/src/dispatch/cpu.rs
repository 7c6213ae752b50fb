//! [`CpuState`]: the state of a CPU after the machine's actions, and the cost of turns on that CPU.

use sched::{EntityId, Instant, Nanos};

/// Maximum cost of a context switch and an interrupt, in addition to a turn.
const SWITCH_MOST: Nanos = Nanos::us(20);

/// The state of a CPU: its dispatched client, and the end of the time slice.
#[derive(Clone, Debug)]
pub(super) struct CpuState {
    dispatched: Option<EntityId>,
    until: Instant,
    /// Instant when the running thread moves behind the other threads of its client; [`Instant::NEVER`] if it is alone.
    pub(super) turn_ends: Instant,
    /// Cost of turns: the part of a slice in which the client had no CPU. The timer for the end of a slice is delayed
    /// by this time.
    pub(super) cost: Cost,
}

impl CpuState {
    /// Returns the state of an idle CPU.
    pub(super) fn idle() -> CpuState {
        CpuState { dispatched: None, until: Instant::NEVER, turn_ends: Instant::NEVER, cost: Cost::default() }
    }

    /// Returns the client of the last `Action::Run` that no `Action::Stop` has followed.
    pub(super) fn dispatched(&self) -> Option<EntityId> {
        self.dispatched
    }

    /// Returns the end of the client's time slice; [`Instant::NEVER`] if the CPU is idle or the slice has ended.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Applies `Action::Run`.
    pub(super) fn run(&mut self, e: EntityId, until: Instant, now: Instant) {
        (self.dispatched, self.turn_ends) = (Some(e), Instant::NEVER);
        self.extend(until, now);
    }

    /// Applies `Action::Extend`.
    pub(super) fn extend(&mut self, until: Instant, now: Instant) {
        self.until = until;
        self.cost.begin(now);
    }

    /// Applies `Action::Stop`, or the dismissal of `e`.
    pub(super) fn stop(&mut self, e: EntityId) {
        if self.dispatched == Some(e) {
            (self.dispatched, self.until) = (None, Instant::NEVER);
        }
    }

    /// Ends the time slice: the dispatched client has blocked, or has used up the slice. The next actions stop or
    /// extend the client.
    pub(super) fn end_slice(&mut self) {
        self.until = Instant::NEVER;
    }
}

/// The cost of turns on a CPU for its running client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) usual: Nanos,
    /// Instant when the current slice started.
    pub(super) begun: Instant,
    /// CPU time that the client has used in the current slice.
    pub(super) ran: Nanos,
    /// Duration of the last turn.
    pub(super) turn: Nanos,
}

impl Cost {
    fn begin(&mut self, now: Instant) {
        (self.begun, self.ran) = (now, Nanos::ZERO);
    }

    /// Records that the client had no CPU for `lost` of the last slice. Returns whether `lost` exceeds the maximum cost
    /// of turns and context switches, so that the client must have blocked.
    pub(super) fn learn(&mut self, lost: Nanos) -> bool {
        let most = self.turn.saturating_mul(2) + SWITCH_MOST;
        let slept = lost > most;
        let lost = lost.min(most);
        self.usual = Nanos::ns((self.usual.as_ns() * 7 + lost.as_ns()) / 8);
        slept
    }
}
