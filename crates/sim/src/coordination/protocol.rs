//! The state that guest and host share about one vCPU, and the effect of each event by the rules of a protocol.

use super::{Boost, Coordination, Protocol};

/// The boost that a vCPU is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    pub(crate) boost: Boost,
    /// Whether the only reason is that the task on the vCPU must not be preempted.
    pub(crate) locked: bool,
}

/// The choice of a guest's scheduler on one of its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight {
    /// Whether a task runs.
    pub(crate) runs: bool,
    /// The boost for the running task. `None`: it is an ordinary task.
    pub(crate) worth: Option<Boost>,
    /// Whether an urgent task waits on the CPU.
    pub(crate) waits: bool,
    /// Whether an urgent task sleeps on the CPU that an interrupt may wake.
    pub(crate) sleeps: bool,
    /// Whether the running task must not be preempted: it holds a spin lock, or waits for a spin lock.
    pub(crate) locked: bool,
}

/// The report of a guest about the choice of its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Said {
    /// Whether the guest reports a change to its host.
    pub(crate) hint: bool,
    /// Whether the guest reports by a hypercall.
    pub(crate) call: bool,
}

const NOTHING: Said = Said { hint: false, call: false };
const CALL: Said = Said { hint: true, call: true };

/// The protocol state of one vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Seat {
    /// The last report of the guest: the boost for the running task, and whether the task must not be preempted. RFC
    /// v1's `boost_req` and `preempt_disabled`, RFC v2's record.
    worth: Option<Boost>,
    locked: bool,
    /// S0, Kiszka: whether an interrupt is under way that the guest has not reported as handled.
    raised: bool,
    /// S0: whether the guest has announced that an interrupt may be for an urgent task.
    expects: bool,
    /// The resulting wish of the host for the vCPU.
    pub(crate) wish: Option<Wish>,
}

fn urgent(boost: Boost) -> Wish {
    Wish { boost, locked: false }
}

impl Seat {
    /// Processes a choice of the guest's scheduler. `boosted`: whether the host shows this vCPU as boosted (RFC v1's
    /// `boost_status`).
    pub(crate) fn chosen(&mut self, with: &Coordination, sight: Sight, boosted: bool) -> Said {
        let Coordination { protocol, boost, .. } = *with;
        match protocol {
            // An idle CPU keeps its wish: no task can request its wake-up later.
            Protocol::S0 | Protocol::Kiszka if !sight.runs => NOTHING,
            Protocol::S0 => self.ask(boost, sight),
            Protocol::Kiszka => {
                let worth = sight.worth.map(|worth| worth.within(boost));
                if worth == self.worth && !self.raised {
                    return NOTHING;
                }
                (self.worth, self.raised) = (worth, false);
                self.wish = worth.map(urgent);
                CALL
            }
            Protocol::RfcV1 => self.lazily(boost, sight, boosted),
            Protocol::RfcV2 => {
                let worth = sight.worth.or(sight.waits.then_some(boost)).map(|worth| worth.within(boost));
                let before = self.worth;
                let said = self.record(worth, sight.locked);
                // An idle vCPU halts, and its host reads the hint then.
                if !boosted || !sight.runs || !self.is_less_than(before) {
                    return said;
                }
                self.exits(with, false);
                CALL
            }
        }
    }

    /// Reports a changed request, unless an interrupt has just caused the same boost (S0).
    fn ask(&mut self, boost: Boost, sight: Sight) -> Said {
        let worth = (sight.worth.is_some() || sight.waits).then_some(boost);
        let expects = worth.is_some() || sight.sleeps;
        let raised = std::mem::replace(&mut self.raised, false);
        let known = if raised { Some(boost) } else { self.worth };
        let is_new = (worth, expects) != (known, self.expects);
        (self.worth, self.expects) = (worth, expects);
        if !is_new {
            return NOTHING;
        }
        self.wish = worth.map(urgent);
        CALL
    }

    /// Whether the record asks for less than `before`, or for no boost (RFC v2).
    fn is_less_than(&self, before: Option<Boost>) -> bool {
        match (before, self.worth) {
            (Some(before), Some(worth)) => worth.most(before) != worth,
            (None, Some(_)) => false,
            (_, None) => !self.locked,
        }
    }

    fn record(&mut self, worth: Option<Boost>, locked: bool) -> Said {
        let hint = (worth, locked) != (self.worth, self.locked);
        (self.worth, self.locked) = (worth, locked);
        Said { hint, call: false }
    }

    /// Notes a boost in shared memory, and reports its end (RFC v1).
    fn lazily(&mut self, boost: Boost, sight: Sight, boosted: bool) -> Said {
        if !sight.runs {
            self.locked = false;
            return NOTHING;
        }
        let worth = (sight.worth.is_some() || sight.waits).then_some(boost);
        let said = self.record(worth, sight.locked);
        if worth.is_some() || !boosted {
            return said;
        }
        if sight.locked {
            self.wish = self.wish.map(|wish| Wish { locked: true, ..wish });
            return said;
        }
        self.wish = None;
        CALL
    }

    /// Processes an exit of the vCPU from its guest. `pending`: whether an interrupt waits for the vCPU.
    pub(crate) fn exits(&mut self, with: &Coordination, pending: bool) {
        let boost = with.boost;
        self.wish = match with.protocol {
            Protocol::S0 | Protocol::Kiszka => return,
            Protocol::RfcV1 | Protocol::RfcV2 => match self.worth {
                Some(worth) => Some(urgent(worth)),
                None if pending => Some(urgent(boost)),
                None => self.locked.then_some(Wish { boost, locked: true }),
            },
        };
    }

    /// Processes an interrupt of the host for the vCPU. `present`: whether the vCPU has a CPU.
    pub(crate) fn injected(&mut self, with: &Coordination, present: bool) {
        match with.protocol {
            Protocol::S0 => {
                if self.expects && self.worth.is_none() {
                    self.raised = true;
                    self.wish = Some(urgent(with.boost));
                }
            }
            Protocol::Kiszka => {
                let raised = self.worth.map_or(with.interrupt, |worth| worth.most(with.interrupt));
                if self.worth != Some(raised) {
                    self.raised = true;
                    self.wish = Some(urgent(raised));
                }
            }
            Protocol::RfcV1 => self.wish = Some(urgent(with.boost)),
            // The record describes the running task. It cannot describe the next task of a sleeping guest.
            Protocol::RfcV2 if present => self.exits(with, false),
            Protocol::RfcV2 => self.wish = Some(urgent(with.boost)),
        }
    }

    /// Processes a halt of the vCPU.
    pub(crate) fn halts(&mut self, with: &Coordination) {
        match with.protocol {
            Protocol::S0 | Protocol::Kiszka => {}
            Protocol::RfcV1 => self.wish = Some(urgent(with.boost)),
            Protocol::RfcV2 => self.exits(with, false),
        }
    }
}

impl Boost {
    /// Returns the greater of both boosts.
    fn most(self, other: Boost) -> Boost {
        if self.within(other) == self { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Class, RtPriority};

    const IDLE: Sight = Sight { runs: false, worth: None, waits: false, sleeps: false, locked: false };
    const ORDINARY: Sight = Sight { runs: true, ..IDLE };

    fn fifo(priority: u8) -> Boost {
        Boost::like(Class::Fifo(RtPriority::new(priority).unwrap())).unwrap()
    }

    fn urgently(priority: u8) -> Sight {
        Sight { worth: Some(fifo(priority)), ..ORDINARY }
    }

    fn boost_of(seat: &Seat) -> Option<Boost> {
        seat.wish.map(|wish| wish.boost)
    }

    #[test]
    fn s0_calls_when_its_predicate_changes_and_leaves_the_boost_on_while_idle() {
        let with = Coordination::new(Protocol::S0);
        let mut seat = Seat::default();
        assert_eq!(seat.chosen(&with, ORDINARY, false), NOTHING);
        assert_eq!(seat.chosen(&with, urgently(50), false), CALL);
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, Sight { waits: true, ..ORDINARY }, true), NOTHING, "an urgent task waits");
        seat.exits(&with, false);
        seat.halts(&with);
        assert_eq!(seat.chosen(&with, IDLE, true), NOTHING);
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&seat), None);
        seat.injected(&with, false);
        assert_eq!(boost_of(&seat), None, "no urgent task is expected");
    }

    #[test]
    fn under_s0_the_host_boosts_at_an_interrupt_for_an_announced_urgent_sleeper() {
        let with = Coordination::new(Protocol::S0);
        let mut seat = Seat::default();
        let sleeps = Sight { sleeps: true, ..ORDINARY };
        assert_eq!(seat.chosen(&with, urgently(50), false), CALL);
        assert_eq!(seat.chosen(&with, sleeps, true), CALL, "the boost ends");
        assert_eq!(boost_of(&seat), None);
        assert_eq!(seat.chosen(&with, sleeps, false), NOTHING);
        seat.injected(&with, false);
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, urgently(50), true), NOTHING, "it was for the expected task, and is boosted");
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, sleeps, true), CALL);
        seat.injected(&with, true);
        assert_eq!(seat.chosen(&with, sleeps, true), CALL, "it was for no urgent task");
        assert_eq!(boost_of(&seat), None);
        assert_eq!(seat.chosen(&with, ORDINARY, false), CALL, "no urgent task is left");
        seat.injected(&with, false);
        assert_eq!(boost_of(&seat), None);
    }

    #[test]
    fn kiszka_reports_classes_and_what_an_interrupt_raised_comes_down_when_it_is_handled() {
        let with = Coordination { interrupt: fifo(4), ..Coordination::new(Protocol::Kiszka) };
        let mut seat = Seat::default();
        assert_eq!(seat.chosen(&with, urgently(2), false), CALL);
        assert_eq!(boost_of(&seat), Some(fifo(2)));
        assert_eq!(seat.chosen(&with, urgently(2), true), NOTHING);
        assert_eq!(seat.chosen(&with, urgently(70), true), CALL);
        assert_eq!(boost_of(&seat), Some(fifo(8)), "the most that its VM may have");
        seat.injected(&with, true);
        assert_eq!(seat.chosen(&with, urgently(70), true), NOTHING, "it was above that already");
        assert_eq!(seat.chosen(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&seat), None);
        seat.injected(&with, false);
        assert_eq!(boost_of(&seat), Some(fifo(4)));
        assert_eq!(seat.chosen(&with, IDLE, true), NOTHING, "nothing is chosen yet");
        assert_eq!(seat.chosen(&with, ORDINARY, true), CALL, "the interrupt is done");
        assert_eq!(boost_of(&seat), None);
    }

    #[test]
    fn rfc_v1_reads_a_wish_at_the_next_exit_and_ends_a_boost_by_a_call() {
        let with = Coordination::new(Protocol::RfcV1);
        let mut seat = Seat::default();
        assert_eq!(seat.chosen(&with, urgently(50), false), Said { hint: true, call: false });
        assert_eq!(boost_of(&seat), None, "the host has not looked");
        seat.exits(&with, false);
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, ORDINARY, false), Said { hint: true, call: false }, "it is not boosted");
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&seat), None);
        seat.exits(&with, true);
        assert_eq!(boost_of(&seat), Some(with.boost), "an interrupt is pending");
        seat.exits(&with, false);
        assert_eq!(boost_of(&seat), None);
        seat.halts(&with);
        assert_eq!(boost_of(&seat), Some(with.boost), "so that it wakes fast");
        assert_eq!(seat.chosen(&with, IDLE, true), NOTHING);
        let locked = Sight { locked: true, ..ORDINARY };
        assert_eq!(seat.chosen(&with, locked, true), Said { hint: true, call: false });
        assert_eq!(seat.wish, Some(Wish { boost: with.boost, locked: true }));
        seat.exits(&with, false);
        assert_eq!(seat.wish, Some(Wish { boost: with.boost, locked: true }));
    }

    #[test]
    fn rfc_v2_has_a_driver_that_acts_at_events_and_a_guest_that_forces_one_when_it_says_less() {
        let with = Coordination::new(Protocol::RfcV2);
        let mut seat = Seat::default();
        let told = Said { hint: true, call: false };
        assert_eq!(seat.chosen(&with, urgently(3), false), told);
        assert_eq!(boost_of(&seat), None);
        seat.exits(&with, false);
        assert_eq!(boost_of(&seat), Some(fifo(3)), "its own class and priority");
        assert_eq!(seat.chosen(&with, urgently(7), true), told, "that is more, and can wait for an exit");
        assert_eq!(boost_of(&seat), Some(fifo(3)));
        seat.exits(&with, false);
        assert_eq!(seat.chosen(&with, urgently(3), true), CALL, "less");
        assert_eq!(boost_of(&seat), Some(fifo(3)));
        assert_eq!(seat.chosen(&with, IDLE, true), told, "it will halt");
        assert_eq!(seat.chosen(&with, urgently(3), true), told);
        assert_eq!(seat.chosen(&with, ORDINARY, true), CALL);
        assert_eq!(boost_of(&seat), None, "what runs there is ordinary");
        seat.injected(&with, true);
        assert_eq!(boost_of(&seat), None);
        assert_eq!(seat.chosen(&with, IDLE, false), NOTHING);
        seat.halts(&with);
        assert_eq!(boost_of(&seat), None);
        seat.injected(&with, false);
        assert_eq!(boost_of(&seat), Some(with.boost));
        assert_eq!(seat.chosen(&with, Sight { locked: true, ..ORDINARY }, true), told);
        seat.exits(&with, false);
        assert_eq!(seat.wish, Some(Wish { boost: with.boost, locked: true }));
    }
}
