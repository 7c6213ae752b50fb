//! The state that guest and host share about one vCPU, and the effect of each event under the rules of a protocol.

use crate::{Boost, Coordination, Protocol};

/// A request for a boost of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoostRequest {
    /// The requested boost.
    pub boost: Boost,
    /// Whether the only reason for the boost is that the task on the vCPU must not be preempted.
    pub locked: bool,
}

/// The choice of a guest's scheduler on one of its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestChoice {
    /// Whether a task runs.
    pub runs: bool,
    /// The boost for the running task. `None`: the task is not urgent.
    pub task_boost: Option<Boost>,
    /// Whether an urgent task waits on the CPU.
    pub waits: bool,
    /// Whether an urgent task that last ran on the CPU sleeps. An interrupt for the CPU may wake this task.
    pub sleeps: bool,
    /// Whether the running task must not be preempted: the task holds a spin lock, or waits for a spin lock.
    pub locked: bool,
}

/// The report of a guest about the choice of its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GuestReport {
    /// Whether the guest reports a change to its host.
    pub hint: bool,
    /// Whether the guest reports by a hypercall.
    pub call: bool,
}

const NOTHING: GuestReport = GuestReport { hint: false, call: false };
const CALL: GuestReport = GuestReport { hint: true, call: true };

/// The protocol state of one vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProtocolState {
    /// Last report of the guest: the boost for the running task, and whether the task must not be preempted.
    /// Corresponds to RFC v1's `boost_req` and `preempt_disabled`, and to RFC v2's record.
    task_boost: Option<Boost>,
    locked: bool,
    /// Whether the host boosted the vCPU for an interrupt that the guest has not yet reported as handled (S0, Kiszka).
    raised: bool,
    /// Whether the guest has announced that an interrupt may be for an urgent task (S0).
    expects_urgent: bool,
    /// The resulting request for the vCPU.
    pub request: Option<BoostRequest>,
}

fn urgent(boost: Boost) -> BoostRequest {
    BoostRequest { boost, locked: false }
}

impl ProtocolState {
    /// Processes a choice of the guest's scheduler. `boosted`: whether the host shows this vCPU as boosted (RFC v1's
    /// `boost_status`).
    pub fn on_pick(&mut self, with: &Coordination, choice: GuestChoice, boosted: bool) -> GuestReport {
        let Coordination { protocol, boost, .. } = *with;
        match protocol {
            // An idle CPU reports nothing, so a boost stays in force for its next wake-up.
            Protocol::S0 | Protocol::Kiszka if !choice.runs => NOTHING,
            Protocol::S0 => self.report_change(boost, choice),
            Protocol::Kiszka => {
                let task_boost = choice.task_boost.map(|task_boost| task_boost.within(boost));
                if task_boost == self.task_boost && !self.raised {
                    return NOTHING;
                }
                (self.task_boost, self.raised) = (task_boost, false);
                self.request = task_boost.map(urgent);
                CALL
            }
            Protocol::RfcV1 => self.report_lazily(boost, choice, boosted),
            Protocol::RfcV2 => {
                let task_boost =
                    choice.task_boost.or(choice.waits.then_some(boost)).map(|task_boost| task_boost.within(boost));
                let before = self.task_boost;
                let report = self.record(task_boost, choice.locked);
                // An idle vCPU halts, and its host then reads the hint.
                if !boosted || !choice.runs || !self.is_less_than(before) {
                    return report;
                }
                self.on_exit(with, false);
                CALL
            }
        }
    }

    /// Reports a changed request, unless an interrupt has just caused the same boost (S0).
    fn report_change(&mut self, boost: Boost, choice: GuestChoice) -> GuestReport {
        let task_boost = (choice.task_boost.is_some() || choice.waits).then_some(boost);
        let expects_urgent = task_boost.is_some() || choice.sleeps;
        let raised = std::mem::replace(&mut self.raised, false);
        let known = if raised { Some(boost) } else { self.task_boost };
        let is_new = (task_boost, expects_urgent) != (known, self.expects_urgent);
        (self.task_boost, self.expects_urgent) = (task_boost, expects_urgent);
        if !is_new {
            return NOTHING;
        }
        self.request = task_boost.map(urgent);
        CALL
    }

    /// Returns whether the record requests less than `before`, or no boost (RFC v2).
    fn is_less_than(&self, before: Option<Boost>) -> bool {
        match (before, self.task_boost) {
            (Some(before), Some(task_boost)) => task_boost.max(before) != task_boost,
            (None, Some(_)) => false,
            (_, None) => !self.locked,
        }
    }

    fn record(&mut self, task_boost: Option<Boost>, locked: bool) -> GuestReport {
        let hint = (task_boost, locked) != (self.task_boost, self.locked);
        (self.task_boost, self.locked) = (task_boost, locked);
        GuestReport { hint, call: false }
    }

    /// Writes a request for a boost to shared memory, and ends a boost by a hypercall (RFC v1).
    fn report_lazily(&mut self, boost: Boost, choice: GuestChoice, boosted: bool) -> GuestReport {
        if !choice.runs {
            self.locked = false;
            return NOTHING;
        }
        let task_boost = (choice.task_boost.is_some() || choice.waits).then_some(boost);
        let report = self.record(task_boost, choice.locked);
        if task_boost.is_some() || !boosted {
            return report;
        }
        if choice.locked {
            self.request = self.request.map(|request| BoostRequest { locked: true, ..request });
            return report;
        }
        self.request = None;
        CALL
    }

    /// Processes an exit of the vCPU from its guest. `pending`: whether an interrupt waits for the vCPU.
    pub fn on_exit(&mut self, with: &Coordination, pending: bool) {
        let boost = with.boost;
        self.request = match with.protocol {
            Protocol::S0 | Protocol::Kiszka => return,
            Protocol::RfcV1 | Protocol::RfcV2 => match self.task_boost {
                Some(task_boost) => Some(urgent(task_boost)),
                None if pending => Some(urgent(boost)),
                None => self.locked.then_some(BoostRequest { boost, locked: true }),
            },
        };
    }

    /// Processes an interrupt that the host injects into the vCPU. `present`: whether the vCPU has a CPU.
    pub fn on_interrupt(&mut self, with: &Coordination, present: bool) {
        match with.protocol {
            Protocol::S0 => {
                if self.expects_urgent && self.task_boost.is_none() {
                    self.raised = true;
                    self.request = Some(urgent(with.boost));
                }
            }
            Protocol::Kiszka => {
                let raised = self.task_boost.map_or(with.interrupt, |task_boost| task_boost.max(with.interrupt));
                if self.task_boost != Some(raised) {
                    self.raised = true;
                    self.request = Some(urgent(raised));
                }
            }
            Protocol::RfcV1 => self.request = Some(urgent(with.boost)),
            // The record describes the running task. The record of a sleeping guest cannot describe the next task.
            Protocol::RfcV2 if present => self.on_exit(with, false),
            Protocol::RfcV2 => self.request = Some(urgent(with.boost)),
        }
    }

    /// Ends a request that no report has renewed. The next urgent report requests a boost again.
    pub fn lapse(&mut self) {
        (self.task_boost, self.raised, self.request) = (None, false, None);
    }

    /// Processes a halt of the vCPU.
    pub fn on_halt(&mut self, with: &Coordination) {
        match with.protocol {
            Protocol::S0 | Protocol::Kiszka => {}
            Protocol::RfcV1 => self.request = Some(urgent(with.boost)),
            Protocol::RfcV2 => self.on_exit(with, false),
        }
    }
}

impl Boost {
    /// Returns the greater of the two boosts.
    fn max(self, other: Boost) -> Boost {
        if self.within(other) == self { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Class, RtPriority};

    const IDLE: GuestChoice = GuestChoice { runs: false, task_boost: None, waits: false, sleeps: false, locked: false };
    const ORDINARY: GuestChoice = GuestChoice { runs: true, ..IDLE };

    fn fifo(priority: u8) -> Boost {
        Boost::like(Class::Fifo(RtPriority::new(priority).unwrap())).unwrap()
    }

    fn urgently(priority: u8) -> GuestChoice {
        GuestChoice { task_boost: Some(fifo(priority)), ..ORDINARY }
    }

    fn boost_of(state: &ProtocolState) -> Option<Boost> {
        state.request.map(|request| request.boost)
    }

    #[test]
    fn s0_calls_when_its_predicate_changes_and_leaves_the_boost_on_while_idle() {
        let with = Coordination::new(Protocol::S0);
        let mut state = ProtocolState::default();
        assert_eq!(state.on_pick(&with, ORDINARY, false), NOTHING);
        assert_eq!(state.on_pick(&with, urgently(50), false), CALL);
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(
            state.on_pick(&with, GuestChoice { waits: true, ..ORDINARY }, true),
            NOTHING,
            "an urgent task waits"
        );
        state.on_exit(&with, false);
        state.on_halt(&with);
        assert_eq!(state.on_pick(&with, IDLE, true), NOTHING);
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&state), None);
        state.on_interrupt(&with, false);
        assert_eq!(boost_of(&state), None, "no urgent task is expected");
    }

    #[test]
    fn under_s0_the_host_boosts_at_an_interrupt_for_an_announced_urgent_sleeper() {
        let with = Coordination::new(Protocol::S0);
        let mut state = ProtocolState::default();
        let sleeps = GuestChoice { sleeps: true, ..ORDINARY };
        assert_eq!(state.on_pick(&with, urgently(50), false), CALL);
        assert_eq!(state.on_pick(&with, sleeps, true), CALL, "the boost ends");
        assert_eq!(boost_of(&state), None);
        assert_eq!(state.on_pick(&with, sleeps, false), NOTHING);
        state.on_interrupt(&with, false);
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, urgently(50), true), NOTHING, "it was for the expected task, and is boosted");
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, sleeps, true), CALL);
        state.on_interrupt(&with, true);
        assert_eq!(state.on_pick(&with, sleeps, true), CALL, "it was for no urgent task");
        assert_eq!(boost_of(&state), None);
        assert_eq!(state.on_pick(&with, ORDINARY, false), CALL, "no urgent task is left");
        state.on_interrupt(&with, false);
        assert_eq!(boost_of(&state), None);
    }

    #[test]
    fn kiszka_reports_classes_and_what_an_interrupt_raised_comes_down_when_it_is_handled() {
        let with = Coordination { interrupt: fifo(4), ..Coordination::new(Protocol::Kiszka) };
        let mut state = ProtocolState::default();
        assert_eq!(state.on_pick(&with, urgently(2), false), CALL);
        assert_eq!(boost_of(&state), Some(fifo(2)));
        assert_eq!(state.on_pick(&with, urgently(2), true), NOTHING);
        assert_eq!(state.on_pick(&with, urgently(70), true), CALL);
        assert_eq!(boost_of(&state), Some(fifo(8)), "the maximum of its VM");
        state.on_interrupt(&with, true);
        assert_eq!(state.on_pick(&with, urgently(70), true), NOTHING, "it was above that already");
        assert_eq!(state.on_pick(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&state), None);
        state.on_interrupt(&with, false);
        assert_eq!(boost_of(&state), Some(fifo(4)));
        assert_eq!(state.on_pick(&with, IDLE, true), NOTHING, "nothing is chosen yet");
        assert_eq!(state.on_pick(&with, ORDINARY, true), CALL, "the interrupt is done");
        assert_eq!(boost_of(&state), None);
    }

    #[test]
    fn rfc_v1_reads_a_wish_at_the_next_exit_and_ends_a_boost_by_a_call() {
        let with = Coordination::new(Protocol::RfcV1);
        let mut state = ProtocolState::default();
        assert_eq!(state.on_pick(&with, urgently(50), false), GuestReport { hint: true, call: false });
        assert_eq!(boost_of(&state), None, "the host has not looked");
        state.on_exit(&with, false);
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, ORDINARY, false), GuestReport { hint: true, call: false }, "it is not boosted");
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&state), None);
        state.on_exit(&with, true);
        assert_eq!(boost_of(&state), Some(with.boost), "an interrupt is pending");
        state.on_exit(&with, false);
        assert_eq!(boost_of(&state), None);
        state.on_halt(&with);
        assert_eq!(boost_of(&state), Some(with.boost), "so that it wakes fast");
        assert_eq!(state.on_pick(&with, IDLE, true), NOTHING);
        let locked = GuestChoice { locked: true, ..ORDINARY };
        assert_eq!(state.on_pick(&with, locked, true), GuestReport { hint: true, call: false });
        assert_eq!(state.request, Some(BoostRequest { boost: with.boost, locked: true }));
        state.on_exit(&with, false);
        assert_eq!(state.request, Some(BoostRequest { boost: with.boost, locked: true }));
    }

    #[test]
    fn rfc_v2_has_a_driver_that_acts_at_events_and_a_guest_that_forces_one_when_it_says_less() {
        let with = Coordination::new(Protocol::RfcV2);
        let mut state = ProtocolState::default();
        let hint_only = GuestReport { hint: true, call: false };
        assert_eq!(state.on_pick(&with, urgently(3), false), hint_only);
        assert_eq!(boost_of(&state), None);
        state.on_exit(&with, false);
        assert_eq!(boost_of(&state), Some(fifo(3)), "its own class and priority");
        assert_eq!(state.on_pick(&with, urgently(7), true), hint_only, "that is more, and can wait for an exit");
        assert_eq!(boost_of(&state), Some(fifo(3)));
        state.on_exit(&with, false);
        assert_eq!(state.on_pick(&with, urgently(3), true), CALL, "less");
        assert_eq!(boost_of(&state), Some(fifo(3)));
        assert_eq!(state.on_pick(&with, IDLE, true), hint_only, "it will halt");
        assert_eq!(state.on_pick(&with, urgently(3), true), hint_only);
        assert_eq!(state.on_pick(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&state), None, "what runs there is ordinary");
        state.on_interrupt(&with, true);
        assert_eq!(boost_of(&state), None);
        assert_eq!(state.on_pick(&with, IDLE, false), NOTHING);
        state.on_halt(&with);
        assert_eq!(boost_of(&state), None);
        state.on_interrupt(&with, false);
        assert_eq!(boost_of(&state), Some(with.boost));
        assert_eq!(state.on_pick(&with, GuestChoice { locked: true, ..ORDINARY }, true), hint_only);
        state.on_exit(&with, false);
        assert_eq!(state.request, Some(BoostRequest { boost: with.boost, locked: true }));
    }
}
