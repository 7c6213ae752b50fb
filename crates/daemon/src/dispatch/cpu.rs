//! [`CpuState`]: a CPU as the machine's actions have left it, and the cost of turns there.

use sched::{EntityId, Instant, Nanos};

/// The cost of a context switch and an interrupt, at most, in addition to a turn.
const SWITCH_MOST: Nanos = Nanos::us(20);

/// The state of a CPU: its dispatched client, and the end of the time slice.
#[derive(Clone, Debug)]
pub(super) struct CpuState {
    dispatched: Option<EntityId>,
    until: Instant,
    /// The cost of turns: the time from the start of a slice in which its client had no CPU. The timer at the end of a slice is
    /// delayed by it.
    pub(super) cost: Cost,
}

impl CpuState {
    /// An idle CPU.
    pub(super) fn idle() -> CpuState {
        CpuState { dispatched: None, until: Instant::NEVER, cost: Cost::default() }
    }

    /// The client of the last `Run` without a `Stop`.
    pub(super) fn dispatched(&self) -> Option<EntityId> {
        self.dispatched
    }

    /// The end of its time slice; NEVER if it has none, has ended, or the CPU idles.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// `Action::Run`.
    pub(super) fn run(&mut self, e: EntityId, until: Instant, now: Instant) {
        self.dispatched = Some(e);
        self.extend(until, now);
    }

    /// `Action::Extend`.
    pub(super) fn extend(&mut self, until: Instant, now: Instant) {
        self.until = until;
        self.cost.begin(now);
    }

    /// `Action::Stop`, or the departure of `e`.
    pub(super) fn stop(&mut self, e: EntityId) {
        if self.dispatched == Some(e) {
            (self.dispatched, self.until) = (None, Instant::NEVER);
        }
    }

    /// Ends the time slice: the dispatched client has blocked, or has used it up. The next actions stop or extend it.
    pub(super) fn end_slice(&mut self) {
        self.until = Instant::NEVER;
    }
}

/// The cost of turns on a CPU for its running client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) usual: Nanos,
    /// When the current slice started.
    pub(super) begun: Instant,
    /// CPU time used of it.
    pub(super) ran: Nanos,
    /// Duration of the last turn.
    pub(super) turn: Nanos,
}

impl Cost {
    fn begin(&mut self, now: Instant) {
        (self.begun, self.ran) = (now, Nanos::ZERO);
    }

    /// Learns from a slice of which `lost` was lost. Returns whether that exceeds the cost of a turn: then the client has blocked.
    pub(super) fn learn(&mut self, lost: Nanos) -> bool {
        let most = self.turn.saturating_mul(2) + SWITCH_MOST;
        let slept = lost > most;
        let lost = lost.min(most);
        self.usual = Nanos::ns((self.usual.as_ns() * 7 + lost.as_ns()) / 8);
        slept
    }
}
