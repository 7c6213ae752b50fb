//! [`CpuState`]: the state of a CPU after the machine's actions, and the cost of turns on that CPU.

use super::client::Since;
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
    /// Usual time from the instant of an alarm to the turn that it causes.
    pub(super) delay: Nanos,
    /// Instant when the current slice started.
    pub(super) begun: Instant,
    /// CPU time that the client has used in the current slice.
    pub(super) ran: Nanos,
    /// Time in the current slice for which the runnable client had no CPU.
    pub(super) waited: Nanos,
    /// Number of times in the current slice that a thread of the client was switched in, and number of turns.
    pub(super) dispatches: u64,
    pub(super) turns: u64,
    /// Duration of the last turn.
    pub(super) turn: Nanos,
}

impl Cost {
    fn begin(&mut self, now: Instant) {
        *self = Cost { usual: self.usual, delay: self.delay, turn: self.turn, begun: now, ..Cost::default() };
    }

    /// Counts what a turn has read, except the CPU time.
    pub(super) fn count(&mut self, since: &Since) {
        self.waited += since.waited;
        self.dispatches += since.dispatches;
        self.turns += 1;
    }

    /// Returns the time in the current slice, until `now`, for which the client had no CPU.
    pub(super) fn lost(&self, now: Instant) -> Nanos {
        now.saturating_since(self.begun).saturating_sub(self.ran)
    }

    /// Returns the maximum cost of the turns and context switches of a slice.
    fn most(&self) -> Nanos {
        self.turn.saturating_mul(2) + SWITCH_MOST
    }

    /// Returns whether the client neither ran nor waited for longer in the current slice than turns and context switches
    /// take. It has slept, or waits right now, or steal time and interrupts are not part of its CPU time.
    pub(super) fn has_gap(&self, now: Instant) -> bool {
        self.lost(now).saturating_sub(self.waited) > self.most()
    }

    /// Returns whether the client has left the CPU in the current slice between turns: each turn switches it in once.
    pub(super) fn has_left(&self) -> bool {
        self.dispatches > self.turns
    }

    /// Returns by how much the client has exceeded the slice that ends at `until`; `None` if it has not used it up.
    pub(super) fn excess(&self, until: Instant) -> Option<Nanos> {
        let slice = until.saturating_since(self.begun);
        (self.ran >= slice).then(|| self.ran.saturating_sub(slice))
    }

    /// Learns the usual cost of the turns of a slice from the slice that ends.
    pub(super) fn learn(&mut self, now: Instant) {
        self.usual = average(self.usual, self.lost(now).min(self.most()));
    }

    /// Learns the usual delay of the turn for an alarm.
    pub(super) fn learn_delay(&mut self, delay: Nanos) {
        self.delay = average(self.delay, delay.min(SWITCH_MOST));
    }
}

/// Returns the moving average of durations, after one more.
fn average(usual: Nanos, latest: Nanos) -> Nanos {
    Nanos::ns((usual.as_ns() * 7 + latest.as_ns()) / 8)
}
