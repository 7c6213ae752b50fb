//! [`Coordinator`]: on the host, grants the boosts that are requested for the vCPUs of a VM, within the VM's budget and
//! limits. About the host, the coordinator needs to know only which vCPUs run.

use crate::{Boost, BoostRequest, Coordination};
use sched::{Instant, Nanos};

/// The reason why a request is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Denied {
    /// The budget is used up.
    Budget,
    /// The boost has lasted too long.
    Limit,
    /// A boost whose only reason is that the guest must not be preempted has lasted too long.
    Locked,
    /// The host's policy refuses the boost.
    Policy,
}

/// One vCPU of a coordinated VM.
#[derive(Clone, Copy, Default, Debug)]
struct Member {
    request: Option<BoostRequest>,
    granted: Option<Boost>,
    runs: bool,
    /// Boosted time since the boost began or the vCPU last slept, and boosted time since the request was last changed
    /// to `locked`.
    held: Nanos,
    locked: Nanos,
    denied: Option<Denied>,
}

/// The boosts of the vCPUs of one VM.
#[derive(Clone, Debug)]
pub struct Coordinator {
    with: Coordination,
    members: Vec<Member>,
    /// Start of the current window, and the boosted time in this window.
    window_start: Instant,
    spent: Nanos,
    /// Instant up to which boosted time is counted.
    accounted_until: Instant,
    /// Boosted time of all windows.
    pub boosted: Nanos,
    /// Number of boosts that the budget denied or ended.
    pub over_budget: u64,
    /// Number of boosts that a limit ended.
    pub over_limit: u64,
}

impl Coordinator {
    /// The coordinator of a VM with `vcpus` vCPUs, from `now` on. No vCPU runs, and none has a request.
    #[must_use]
    pub fn new(with: Coordination, vcpus: usize, now: Instant) -> Coordinator {
        Coordinator {
            with,
            members: vec![Member::default(); vcpus],
            window_start: now,
            spent: Nanos::ZERO,
            accounted_until: now,
            boosted: Nanos::ZERO,
            over_budget: 0,
            over_limit: 0,
        }
    }

    /// Advances to `now` and counts boosted time up to `now`. Must be called before any other event of this instant.
    pub fn advance(&mut self, now: Instant) {
        let time = now.since(self.accounted_until);
        self.accounted_until = now;
        if !time.is_zero() {
            for vcpu in 0..self.members.len() {
                if self.members[vcpu].runs {
                    self.charge(vcpu, time);
                }
            }
        }
        let windows = now.since(self.window_start).as_ns() / self.with.window.as_ns();
        if windows > 0 {
            self.window_start = self.window_start.saturating_add(self.with.window.saturating_mul(windows));
            self.spent = Nanos::ZERO;
        }
    }

    /// Counts CPU time that a vCPU has received since the last call, if it is boosted: for a caller that measures this time instead of
    /// [reporting](Coordinator::set_running) when the vCPU runs.
    pub fn charge(&mut self, vcpu: usize, time: Nanos) {
        let member = &mut self.members[vcpu];
        if member.granted.is_none() {
            return;
        }
        member.held += time;
        if member.request.is_some_and(|request| request.locked) {
            member.locked += time;
        }
        self.spend(time);
    }

    /// Counts further time against the budget: of threads that are boosted with a vCPU, or of a vCPU whose boost has just ended.
    pub fn spend(&mut self, time: Nanos) {
        self.spent += time;
        self.boosted += time;
    }

    /// Sets the request for a vCPU from now on.
    pub fn request(&mut self, vcpu: usize, request: Option<BoostRequest>) {
        let member = &mut self.members[vcpu];
        if request.is_none() {
            member.denied = None;
        }
        let locked = |request: Option<BoostRequest>| request.is_some_and(|request| request.locked);
        if locked(request) != locked(member.request) {
            member.locked = Nanos::ZERO;
            if member.denied == Some(Denied::Locked) {
                member.denied = None;
            }
        }
        member.request = request;
    }

    /// Records that a vCPU sleeps: its boosted time restarts at zero.
    pub fn record_sleep(&mut self, vcpu: usize) {
        let member = &mut self.members[vcpu];
        (member.held, member.locked) = (Nanos::ZERO, Nanos::ZERO);
        if matches!(member.denied, Some(Denied::Limit | Denied::Locked)) {
            member.denied = None;
        }
    }

    /// Records that a vCPU received or lost a CPU.
    pub fn set_running(&mut self, vcpu: usize, runs: bool) {
        self.members[vcpu].runs = runs;
    }

    /// Returns the current boost of a vCPU.
    pub fn granted(&self, vcpu: usize) -> Option<Boost> {
        self.members[vcpu].granted
    }

    /// Returns the boost that the vCPU should have now.
    pub fn due(&mut self, vcpu: usize) -> Option<Boost> {
        // The budget is used up when less than 1 ns per vCPU remains.
        let spent = self.with.budget.saturating_sub(self.spent).as_ns() < self.members.len() as u64;
        let Coordination { limit, preempt_limit, .. } = self.with;
        let member = &mut self.members[vcpu];
        let request = member.request?;
        let denied = match member.denied {
            Some(Denied::Policy | Denied::Limit | Denied::Locked) => return None,
            _ if member.held >= limit => Some(Denied::Limit),
            _ if request.locked && member.locked >= preempt_limit => Some(Denied::Locked),
            _ if spent => Some(Denied::Budget),
            _ => None,
        };
        if denied != member.denied {
            member.denied = denied;
            self.over_budget += u64::from(denied == Some(Denied::Budget));
            self.over_limit += u64::from(matches!(denied, Some(Denied::Limit | Denied::Locked)));
        }
        if denied.is_some() { None } else { Some(request.boost) }
    }

    /// Records the current boost of a vCPU. `refused`: the policy refused the boost.
    pub fn grant(&mut self, vcpu: usize, boost: Option<Boost>, refused: bool) {
        let member = &mut self.members[vcpu];
        member.granted = boost;
        if boost.is_none() {
            (member.held, member.locked) = (Nanos::ZERO, Nanos::ZERO);
        }
        if refused {
            member.denied = Some(Denied::Policy);
        }
    }

    /// Returns whether any boosted vCPU runs.
    pub fn is_used(&self) -> bool {
        self.members.iter().any(|member| member.runs && member.granted.is_some())
    }

    /// Returns the next instant at which a boost may change without an event: a limit is reached, the budget is used
    /// up, or the window ends.
    pub fn next(&self) -> Instant {
        self.next_while(|member| member.runs)
    }

    /// Returns the same instant if all boosted vCPUs run: for a caller that measures their CPU time.
    pub fn next_at_most(&self) -> Instant {
        self.next_while(|_| true)
    }

    fn next_while(&self, runs: impl Fn(&Member) -> bool) -> Instant {
        let Coordination { budget, window, limit, preempt_limit, .. } = self.with;
        let mut next = Instant::NEVER;
        let mut used = 0;
        for member in self.members.iter().filter(|member| member.granted.is_some() && runs(member)) {
            used += 1;
            next = next.min(self.accounted_until.saturating_add(limit.saturating_sub(member.held)));
            if member.request.is_some_and(|request| request.locked) {
                next = next.min(self.accounted_until.saturating_add(preempt_limit.saturating_sub(member.locked)));
            }
        }
        if let Some(left) = budget.saturating_sub(self.spent).as_ns().checked_div(used) {
            next = next.min(self.accounted_until.saturating_add(Nanos::ns(left)));
        }
        if used > 0 || self.members.iter().any(|member| member.denied == Some(Denied::Budget)) {
            next = next.min(self.window_start.saturating_add(window));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    fn us(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    fn with() -> Coordination {
        Coordination {
            budget: Nanos::us(30),
            window: Nanos::us(100),
            limit: Nanos::us(20),
            preempt_limit: Nanos::us(5),
            ..Coordination::new(Protocol::RfcV1)
        }
    }

    fn request(locked: bool) -> Option<BoostRequest> {
        Some(BoostRequest { boost: with().boost, locked })
    }

    fn decide(it: &mut Coordinator, now: Instant) -> Vec<bool> {
        it.advance(now);
        for vcpu in 0..it.members.len() {
            let due = it.due(vcpu);
            it.grant(vcpu, due, false);
        }
        it.members.iter().map(|member| member.granted.is_some()).collect()
    }

    #[test]
    fn two_that_run_boosted_use_up_the_budget_of_their_window_in_half_the_time() {
        let mut it = Coordinator::new(with(), 2, us(0));
        for vcpu in 0..2 {
            it.request(vcpu, request(false));
            it.set_running(vcpu, true);
        }
        assert_eq!(decide(&mut it, us(0)), [true, true]);
        assert_eq!(it.next(), us(15));
        assert_eq!(decide(&mut it, us(15)), [false, false]);
        assert_eq!((it.boosted, it.over_budget), (Nanos::us(30), 2));
        assert_eq!(it.next(), us(100), "the next window");
        assert_eq!(decide(&mut it, us(99)), [false, false]);
        assert_eq!(decide(&mut it, us(100)), [true, true]);
        assert_eq!(it.over_budget, 2);
    }

    #[test]
    fn a_limit_is_not_begun_anew_by_a_lock_that_is_taken_and_let_go() {
        let mut it = Coordinator::new(with(), 1, us(0));
        it.set_running(0, true);
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(0)), [true]);
        assert_eq!(decide(&mut it, us(20)), [false], "it has lasted too long");
        for (at, locked) in [(21, true), (22, false), (23, true)] {
            it.request(0, request(locked));
            assert_eq!(decide(&mut it, us(at)), [false]);
        }
        it.record_sleep(0);
        assert_eq!(decide(&mut it, us(24)), [true]);
    }

    #[test]
    fn a_boost_that_lasts_too_long_ends_and_comes_again_after_a_sleep_or_another_wish() {
        let mut it = Coordinator::new(with(), 1, us(0));
        it.set_running(0, true);
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(0)), [true]);
        assert_eq!(it.next(), us(20));
        assert_eq!(decide(&mut it, us(20)), [false]);
        assert_eq!((it.over_limit, it.next()), (1, Instant::NEVER));
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(21)), [false], "the request is unchanged");
        it.record_sleep(0);
        assert_eq!(decide(&mut it, us(22)), [true], "it slept");
        assert_eq!(decide(&mut it, us(32)), [false], "the budget");
        it.request(0, None);
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(100)), [true]);
        assert_eq!((it.over_limit, it.over_budget), (1, 1));
    }

    #[test]
    fn a_boost_because_of_disabled_preemption_ends_sooner() {
        let mut it = Coordinator::new(with(), 1, us(0));
        it.set_running(0, true);
        it.request(0, request(false));
        decide(&mut it, us(0));
        decide(&mut it, us(10));
        it.request(0, request(true));
        assert_eq!(it.next(), us(15));
        assert_eq!(decide(&mut it, us(14)), [true]);
        assert_eq!(decide(&mut it, us(15)), [false]);
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(15)), [true], "preemption is enabled again");
    }

    #[test]
    fn time_without_a_cpu_is_not_boosted() {
        let mut it = Coordinator::new(with(), 1, us(0));
        it.request(0, request(false));
        assert_eq!(decide(&mut it, us(0)), [true]);
        assert_eq!((decide(&mut it, us(90)), it.boosted, it.next()), (vec![true], Nanos::ZERO, Instant::NEVER));
    }

    #[test]
    fn a_refused_boost_is_not_asked_for_again_before_a_new_wish() {
        let mut it = Coordinator::new(with(), 1, us(0));
        it.request(0, request(false));
        assert!(it.due(0).is_some());
        it.grant(0, None, true);
        assert!(it.due(0).is_none());
        it.request(0, None);
        it.request(0, request(false));
        assert!(it.due(0).is_some());
    }
}
