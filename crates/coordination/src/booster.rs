//! [`Booster`]: on a real host, the boosts of a VM, from the hints of its agent and from interrupts.
//!
//! ```text
//! hint ──▶ protocol ──▶ request ─┐
//! timer of the hint, a little earlier ──▶ protocol ──▶ request ──▶ budget and limits ──▶ boost
//! interrupt for the vCPU ──▶ protocol ──▶ request ─┤
//! interrupt for the VM that no hint announced ─────┘
//! ```
//!
//! The boost that matters comes before the guest runs: a vCPU without a CPU can say nothing. A hint announces the next timer of an urgent
//! task, and the boost begins [`LEAD`] before it. Every boost ends [`EXPIRY`] after its last reason: an agent that was killed, or
//! a hint that was lost, leaves no vCPU boosted.

use crate::clock_offset::ClockOffset;
use crate::coordinator::Coordinator;
use crate::inbox::Inbox;
use crate::protocol::ProtocolState;
use crate::wire::Hint;
use crate::{Boost, BoostRequest, Coordination, GuestChoice};
use sched::{Instant, Nanos};

/// Time from the begin of a boost to the timer for which it begins: that of an agent's turn on the host.
pub const LEAD: Nanos = Nanos::us(40);
/// Maximum time from a hint, a timer or an interrupt to the end of the boost that follows from it.
pub const EXPIRY: Nanos = Nanos::ms(8);

/// Time for which a vCPU is boosted for an interrupt that no hint has announced. In an emulator, the handler and the task that it woke took 0.2 ms.
const UNANNOUNCED: Nanos = Nanos::us(300);

/// Time without a hint after which an agent counts as ended: a guest that was killed says no goodbye.
const SILENT: Nanos = Nanos::s(2);

/// Minimum time from a decision to the next one that only the budget or a limit demands. A vCPU that sleeps uses nothing, so a smaller rest
/// would demand one decision after another.
const AGAIN: Nanos = Nanos::us(200);

/// What is known of a vCPU.
#[derive(Clone, Copy, Default, Debug)]
struct Vcpu {
    protocol: ProtocolState,
    /// Begin of the boost for the announced timer, on the host's clock.
    due: Option<Instant>,
    /// Instant at which the request lapses.
    until: Instant,
    /// Whether an urgent task sleeps that a device wakes, whose interrupts no hint announces.
    awaits_device: bool,
    /// Instant at which the request for such an interrupt lapses.
    unannounced_until: Instant,
}

impl Vcpu {
    /// Returns the request at `now`.
    fn request(&self, with: &Coordination, now: Instant) -> Option<BoostRequest> {
        let unannounced = now < self.unannounced_until;
        self.protocol.request.or(unannounced.then_some(BoostRequest { boost: with.boost, locked: false }))
    }

    /// Returns the instant at which this request lapses; `None` without a request.
    fn lapses(&self, now: Instant) -> Option<Instant> {
        let of_protocol = self.protocol.request.map(|_| self.until);
        of_protocol.max(Some(self.unannounced_until).filter(|at| *at > now))
    }
}

/// The boosts of a VM. Instants are on the host's clock, except those of hints.
#[derive(Clone, Debug)]
pub struct Booster {
    with: Coordination,
    inbox: Inbox,
    offset: ClockOffset,
    vcpus: Vec<Vcpu>,
    coordinator: Coordinator,
    /// Instant of the last hint.
    heard: Option<Instant>,
    /// Instant of the last decision.
    decided: Instant,
}

impl Booster {
    /// The booster of a VM with `vcpus` vCPUs, without hints.
    #[must_use]
    pub fn new(with: Coordination, vcpus: usize, now: Instant) -> Booster {
        Booster {
            with,
            inbox: Inbox::new(vcpus),
            offset: ClockOffset::default(),
            vcpus: vec![Vcpu::default(); vcpus],
            coordinator: Coordinator::new(with, vcpus, now),
            heard: None,
            decided: now,
        }
    }

    /// Forgets all hints: the agent has started or ended, or the guest was paused. No vCPU is boosted from the next decision on. What is
    /// used up of the budget stays so, and an agent counts as there until it has been silent for long.
    pub fn clear(&mut self) {
        self.inbox.clear();
        self.offset.clear();
        self.vcpus.fill(Vcpu::default());
    }

    /// Receives a hint at `now`. A hint that is not the newest of its vCPU changes nothing.
    pub fn receive(&mut self, hint: Hint, now: Instant) {
        if !self.inbox.receive(hint) {
            return;
        }
        self.heard = Some(now);
        self.offset.record(hint.sent, now);
        let vcpu = &mut self.vcpus[usize::from(hint.vcpu)];
        if !hint.choice.runs {
            // The guest's CPU idles.
            self.coordinator.record_sleep(usize::from(hint.vcpu));
        }
        // A hint is a state, also of an idle CPU, of which a protocol reports no choice. What the host shows does not reach the guest before
        // the guest runs.
        vcpu.protocol.on_pick(&self.with, GuestChoice { runs: true, ..hint.choice }, false);
        vcpu.due = hint.expiry.and_then(|expiry| self.offset.to_host(expiry));
        vcpu.due = vcpu.due.map(|expiry| Instant::at_ns(expiry.as_ns().saturating_sub(LEAD.as_ns())));
        vcpu.until = now.saturating_add(EXPIRY);
        vcpu.awaits_device = hint.choice.sleeps && hint.sources.has_devices();
    }

    /// An interrupt is on its way to the VM; it is not known to which vCPU. Without an agent, it may wake an urgent task of each. An agent
    /// announces timers, and says whose urgent task a device wakes. A boost that has begun is not extended: between two, the limit of a boost begins
    /// anew, and only the budget ends a stream of interrupts.
    pub fn unannounced_interrupt(&mut self, now: Instant, is_of_device: bool) {
        let has_agent = self.heard.is_some_and(|heard| now < heard.saturating_add(SILENT));
        let is_unannounced =
            |vcpu: &&mut Vcpu| vcpu.unannounced_until <= now && (!has_agent || is_of_device && vcpu.awaits_device);
        for vcpu in self.vcpus.iter_mut().filter(is_unannounced) {
            vcpu.unannounced_until = now.saturating_add(UNANNOUNCED);
        }
    }

    /// An interrupt that is on its way to a vCPU may wake an urgent task.
    pub fn interrupt(&mut self, vcpu: usize, now: Instant) {
        if let Some(vcpu) = self.vcpus.get_mut(vcpu) {
            vcpu.protocol.on_interrupt(&self.with, false);
            vcpu.until = now.saturating_add(EXPIRY);
        }
    }

    /// Counts further CPU time against the budget: of threads that are boosted with a vCPU, or of a vCPU whose boost has just ended.
    pub fn spend(&mut self, time: Nanos) {
        self.coordinator.spend(time);
    }

    /// Decides at `now`. `used`: the CPU time of each vCPU since the last decision. Calls `set` with each vCPU whose boost changes.
    pub fn decide(&mut self, now: Instant, used: &[Nanos], mut set: impl FnMut(usize, Option<Boost>)) {
        for (vcpu, &time) in used.iter().enumerate().take(self.vcpus.len()) {
            self.coordinator.charge(vcpu, time);
        }
        self.coordinator.advance(now);
        self.decided = now;
        for index in 0..self.vcpus.len() {
            if self.vcpus[index].due.is_some_and(|due| due <= now) {
                self.vcpus[index].due = None;
                self.interrupt(index, now);
            }
            let vcpu = &mut self.vcpus[index];
            if vcpu.until <= now && vcpu.protocol.request.is_some() {
                vcpu.protocol.lapse();
            }
            let request = vcpu.request(&self.with, now);
            self.coordinator.request(index, request);
            let (due, granted) = (self.coordinator.due(index), self.coordinator.granted(index));
            if due != granted {
                self.coordinator.grant(index, due, false);
                set(index, due);
            }
        }
    }

    /// Returns the next instant at which a boost may change without an event.
    #[must_use]
    pub fn next(&self) -> Instant {
        let due = self.vcpus.iter().filter_map(|vcpu| vcpu.due).min().unwrap_or(Instant::NEVER);
        let lapse = self.vcpus.iter().filter_map(|vcpu| vcpu.lapses(self.decided)).min().unwrap_or(Instant::NEVER);
        due.min(lapse).min(self.coordinator.next_at_most().max(self.decided.saturating_add(AGAIN)))
    }

    /// Returns the instant at which the last request lapses, unless it is renewed. Without a request, an instant that has passed.
    #[must_use]
    pub fn lapses(&self) -> Instant {
        self.vcpus.iter().filter_map(|vcpu| vcpu.lapses(self.decided)).max().unwrap_or(self.decided)
    }

    /// Returns the number of boosts that were refused or ended because the budget was used up.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.coordinator.over_budget
    }

    /// Returns the boosted time so far.
    #[must_use]
    pub fn boosted(&self) -> Nanos {
        self.coordinator.boosted
    }

    /// Returns the number of hints that arrived late, twice or about a vCPU that the guest lacks.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inbox.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Source, Sources};
    use crate::{GuestChoice, Protocol};

    /// The guest's clock is 5 s behind the host's, and a message takes 100 us.
    const BEHIND: Nanos = Nanos::s(5);
    const WAY: Nanos = Nanos::us(100);

    fn us(us: u64) -> Instant {
        Instant::ZERO + BEHIND + Nanos::us(us)
    }

    fn with() -> Coordination {
        Coordination { budget: Nanos::ms(3), window: Nanos::ms(100), ..Coordination::new(Protocol::S0) }
    }

    /// A hint that the host receives at `us(at)`: a hog runs, and an urgent task sleeps until `us(expiry)`.
    fn asleep(number: u32, at: u64, expiry: Option<u64>) -> Hint {
        let on_guest = |at: u64| Instant::ZERO + Nanos::us(at);
        let choice = GuestChoice { runs: true, task_boost: None, waits: false, sleeps: true, locked: false };
        let sources = Sources::default().with(Source::Timer);
        let sent = on_guest(at - WAY.as_ns() / 1_000);
        Hint { vcpu: 0, number, sent, choice, expiry: expiry.map(on_guest), sources }
    }

    /// Decides, while the vCPU has used this time, and returns whether it is boosted then; `None`: as before.
    fn decide(booster: &mut Booster, at: u64, used_us: u64) -> Option<bool> {
        let mut changed = None;
        booster.decide(us(at), &[Nanos::us(used_us)], |vcpu, boost| {
            assert_eq!(vcpu, 0);
            changed = Some(boost.is_some());
        });
        changed
    }

    #[test]
    fn a_boost_begins_before_the_timer_and_ends_with_the_next_hint() {
        let mut booster = Booster::new(with(), 1, us(0));
        booster.receive(asleep(0, 1_000, Some(10_000)), us(1_000));
        assert_eq!(decide(&mut booster, 1_000, 0), None);
        // The least difference of the clocks has the way of the message in it.
        let begin = us(10_000) + (WAY - LEAD);
        assert_eq!(booster.next(), begin);
        assert_eq!(decide(&mut booster, 10_060, 0), Some(true));
        assert_eq!(booster.next(), us(10_060) + Nanos::ms(3), "the budget, if the vCPU runs");
        booster.receive(asleep(1, 10_400, Some(20_000)), us(10_400));
        assert_eq!(decide(&mut booster, 10_400, 340), Some(false));
        assert_eq!(booster.boosted(), Nanos::us(340));
    }

    #[test]
    fn a_boost_lapses_if_nothing_renews_it() {
        let mut booster =
            Booster::new(Coordination { budget: Nanos::ms(90), limit: Nanos::ms(90), ..with() }, 1, us(0));
        booster.receive(asleep(0, 1_000, None), us(1_000));
        booster.interrupt(0, us(2_000));
        assert_eq!(decide(&mut booster, 2_000, 0), Some(true));
        assert_eq!(booster.next(), us(10_000));
        assert_eq!(decide(&mut booster, 9_999, 0), None);
        assert_eq!(decide(&mut booster, 10_000, 0), Some(false));
        assert_eq!(booster.next(), Instant::NEVER);
        booster.interrupt(0, us(11_000));
        assert_eq!(decide(&mut booster, 11_000, 0), Some(true));
        booster.clear();
        assert_eq!(decide(&mut booster, 11_001, 0), Some(false));
        booster.interrupt(0, us(11_002));
        assert_eq!(decide(&mut booster, 11_002, 0), None, "without a hint, nothing is urgent");
    }

    #[test]
    fn an_idle_guest_is_boosted_for_its_timers_again_and_again() {
        let mut booster = Booster::new(with(), 1, us(0));
        let idle = |number: u32, at: u64| {
            let hint = asleep(number, at, Some(at + 900));
            Hint { choice: GuestChoice { runs: false, ..hint.choice }, ..hint }
        };
        for nth in 1..=40 {
            let at = u64::from(nth) * 1_000;
            booster.receive(idle(nth, at), us(at));
            assert_eq!(decide(&mut booster, at, 50), if nth == 1 { None } else { Some(false) });
            // The task runs for 50 us at its timer.
            assert_eq!(decide(&mut booster, at + 961, 0), Some(true), "timer {nth}");
        }
        assert_eq!(decide(&mut booster, 60_000, 50), Some(false));
        // An urgent task that runs for long: its boost lapses, and its next hint boosts again.
        let urgent = |number: u32, at: u64| {
            let hint = asleep(number, at, None);
            Hint { choice: GuestChoice { task_boost: Some(with().boost), ..hint.choice }, ..hint }
        };
        booster.receive(urgent(50, 150_000), us(150_000));
        assert_eq!(decide(&mut booster, 150_000, 0), Some(true));
        assert_eq!(decide(&mut booster, 158_000, 100), Some(false));
        booster.receive(urgent(51, 170_000), us(170_000));
        assert_eq!(decide(&mut booster, 170_000, 0), Some(true));
    }

    #[test]
    fn what_is_left_of_a_limit_demands_no_decision_after_another() {
        let mut booster = Booster::new(Coordination { budget: Nanos::ms(90), ..with() }, 1, us(0));
        booster.receive(asleep(0, 100, None), us(100));
        booster.interrupt(0, us(1_000));
        assert_eq!(decide(&mut booster, 1_000, 0), Some(true));
        // The limit is 10 ms, and the vCPU has used all but 1 us of it, and sleeps.
        assert_eq!(decide(&mut booster, 2_000, 9_999), None);
        assert_eq!(booster.next(), us(2_000) + AGAIN);
    }

    #[test]
    fn the_budget_counts_only_time_that_the_vcpu_received() {
        let mut booster = Booster::new(with(), 1, us(0));
        booster.receive(asleep(0, 100, None), us(100));
        booster.interrupt(0, us(1_000));
        assert_eq!(decide(&mut booster, 1_000, 500), Some(true), "the time before the boost is not boosted");
        assert_eq!(decide(&mut booster, 5_000, 2_999), None);
        assert_eq!(decide(&mut booster, 5_010, 1), Some(false), "3 ms are used up");
        booster.interrupt(0, us(6_000));
        assert_eq!(decide(&mut booster, 6_000, 1_000), None);
        // The next window.
        booster.interrupt(0, us(100_000));
        assert_eq!(decide(&mut booster, 100_000, 0), Some(true));
        assert_eq!(booster.boosted(), Nanos::ms(3));
    }

    #[test]
    fn an_interrupt_that_no_hint_announced_boosts_for_a_short_time() {
        let mut booster = Booster::new(with(), 1, us(0));
        booster.unannounced_interrupt(us(1_000), false);
        assert_eq!(
            decide(&mut booster, 1_000, 0),
            Some(true),
            "without an agent, any interrupt may be for an urgent task"
        );
        assert_eq!((booster.next(), booster.lapses()), (us(1_300), us(1_300)));
        // The next one comes meanwhile, and the next but one afterwards.
        booster.unannounced_interrupt(us(1_200), true);
        assert_eq!(decide(&mut booster, 1_300, 250), Some(false));
        assert_eq!((booster.next(), booster.boosted()), (Instant::NEVER, Nanos::us(250)));
        booster.unannounced_interrupt(us(1_400), true);
        assert_eq!(decide(&mut booster, 1_400, 0), Some(true));
        assert_eq!(decide(&mut booster, 1_700, 200), Some(false));
        // The task sleeps until a timer, whose interrupt is announced, and then until a packet.
        booster.receive(asleep(0, 2_000, Some(9_000)), us(2_000));
        booster.unannounced_interrupt(us(3_000), true);
        assert_eq!(decide(&mut booster, 3_000, 0), None);
        let sources = Sources::default().with(Source::Timer).with(Source::Network);
        booster.receive(Hint { sources, ..asleep(1, 4_000, None) }, us(4_000));
        booster.unannounced_interrupt(us(4_500), false);
        assert_eq!(decide(&mut booster, 4_500, 0), None, "it is of a timer");
        booster.unannounced_interrupt(us(5_000), true);
        assert_eq!(decide(&mut booster, 5_000, 0), Some(true));
        booster.clear();
        assert_eq!(decide(&mut booster, 5_001, 0), Some(false));
        booster.unannounced_interrupt(us(6_000), false);
        assert_eq!(decide(&mut booster, 6_000, 0), None, "the agent is there still");
        // The agent was killed.
        let later = 4_000 + SILENT.as_ns() / 1_000;
        booster.unannounced_interrupt(us(later), false);
        assert_eq!(decide(&mut booster, later, 0), Some(true));
        assert_eq!(decide(&mut booster, later + 100, 3_100), Some(false), "the budget is used up");
        booster.unannounced_interrupt(us(later + 1_000), false);
        assert_eq!(decide(&mut booster, later + 1_000, 0), None);
    }

    #[test]
    fn hints_of_other_vcpus_and_late_ones_change_nothing() {
        let mut booster = Booster::new(with(), 1, us(0));
        booster.receive(Hint { vcpu: 7, ..asleep(0, 500, Some(600)) }, us(500));
        booster.interrupt(7, us(500));
        booster.receive(asleep(3, 1_000, Some(5_000)), us(1_000));
        booster.receive(asleep(2, 1_100, Some(1_200)), us(1_100));
        assert_eq!((decide(&mut booster, 1_300, 0), booster.dropped()), (None, 2));
        assert_eq!(decide(&mut booster, 5_100, 0), Some(true));
    }
}
