//! Borrowed virtual time: who has had the least weighted time runs, and who is latency-sensitive may borrow.
//!
//! Xen's first scheduler, until August 2006. Everybody has an *actual virtual time* that grows as it runs, the slower
//! the heavier it is; the least runs. Who wakes does not keep what it did not use: its time is raised to that of the
//! scheduler. A *warped* entity counts as if it were some time behind: it borrows from its own future to run at once.
//!
//! ```text
//! two equal hogs, C = 5 ms       0    5    10   15   20   25   30
//! (slice-unit = ns, as in Xen)   aaaaabbbbbaaaaabbbbbaaaaabbbbb
//! ```
//!
//! **Virtual time.** One minimum charging unit (MCU, 100 µs) costs 10 units at normal weight, half of that at twice the
//! weight. Every dispatch is charged in whole MCUs, rounded up. What counts is the *effective* virtual time: less the
//! warp, while warped.
//!
//! **Decision.** Whoever has the least runs; first in the list among equals: who wakes is put at the head, who stops at
//! the tail. It runs for the context allowance C beyond its lead over the second; alone, for 10 C. (In Xen the lead, a
//! number of MCUs, is taken for nanoseconds, so everybody runs practically for C: `slice-unit`.)
//!
//! Among equals who always want to run, nobody is ever further from its share than C and an MCU. With exact charges
//! (`rounding = off`, `recharge = off`, or the textbook) that also holds between any two, and for what anybody has too
//! much; what one of many lacks can be as much for each of the others. With rounding, unequal weights drift, some by a
//! per mille: a turn of exactly C costs an MCU less than one that is a nanosecond longer.
//!
//! **Wake-up.** An entity behind the scheduler's virtual time (the least of all that are runnable, when the last
//! decision was made) is raised to it. If it is then at or behind the one that runs, charged up to now, it runs at
//! once: the allowance plays no role. Otherwise the one that runs goes on for C from its dispatch, at most.
//!
//! So a light sleeper preempts whoever runs nearly always, and when the rounding has put it ahead, it waits for a whole C:
//! that is what makes I/O batch up in a driver domain, and what makes throughput depend on C (Cherkasova et al. §5.1).
//!
//! **Warp.** `warp` lets an entity run `by` ahead; after `limit` of running in one go it stops counting, and again
//! after `rest` (without a rest: for good). Neither is shorter than an MCU. What becomes of a warp while its owner
//! waits counts from when it next stops or wakes; in the textbook at once.
//!
//! **Several CPUs.** Everybody stays where it was put: on the CPU with the fewest others (`placement = first`: on the
//! first it may run on). Three equal VMs on two CPUs get 100, 50 and 50 %.
//!
//! Differences from Xen at db51cd09d3^:
//! - Virtual times are kept in units of 1/10,000 (rounded down), so that any weight has its advance: 10 units per MCU
//!   at normal weight, 256 in Xen's scale; twice the advance is half the weight.
//! - They have 64 bits and do not overflow. Xen's have 32 (`clock-bits = 32`): at fifteen sixteenths of that, after
//!   eleven hours of one CPU, fourteen are taken off everybody, and who sleeps and had less comes out ahead of all
//!   others, to wait for most of an hour. And who warps further than the clock has come is last, not first.
//! - `rule = textbook` is Duda and Cheriton's: exact charges, and the allowance stands between any two, also at a wake-up.
//!
//! An entity that is chosen again without a switch is charged for the whole of its turn once more, as in Xen: its entry
//! time is only set when it is switched to (`recharge`). That costs heavy entities part of their share, and lone ones
//! all that they run until somebody else comes.
//!
//! Source: xen/common/sched_bvt.c and schedule.c before commit db51cd09d3 (2006-08-23); Duda and Cheriton, SOSP'99.

#[cfg(test)]
mod tests;

use crate::homes::{self, Homes};
use sched::queue::Trees;
use sched::time::SPAN_MAX;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Conserving, CpuId, Cx, Decision, Descriptor, EntityId, Guarantees,
    Instant, Knob, Knobs, LoadBounds, Nanos, Params, Policy, Refused, Running, State, StopReason, Stopped, Topology,
    Wake, Warp,
};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "bvt",
    title: "borrowed virtual time: the least weighted time first, with warp (Xen until 2006)",
    source: "xen/common/sched_bvt.c before db51cd09d3 (2006); Duda and Cheriton, SOSP'99; Cherkasova et al. 2007 §4",
    good_for: "shares by weight on one CPU, with a quick answer for who sleeps much",
    bad_at: "several CPUs, and I/O through another domain: a small allowance costs throughput, a large one latency",
    text: include_str!("mod.rs"),
    conserving: |_| Conserving::PerCpu { slack: Nanos::ZERO },
    starvation,
    guarantees: Guarantees { shares, ..Guarantees::NOTHING },
    alarms: AlarmSlots { entity: &[AlarmKind::Timer, AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::count("clock-bits", [64, 12, 64], "how many bits a virtual time has; from 49 on, it never overflows")
            .from("u32 avt and evt: 32; bvt_do_schedule takes 0xe0000000 off at 0xf0000000"),
        Knob::choice("rule", &["xen", "textbook"], "Xen's, as the other knobs say, or Duda and Cheriton's")
            .from("policies 5.1 and 5.2: sched_bvt.c; SOSP'99 §2"),
        Knob::time(
            "context-allowance",
            Nanos::ms(5),
            (Nanos::us(10), Nanos::s(1)),
            "C: how long a turn goes on beyond a lead",
        )
        .from("CTX_ALLOW 5 ms, at least 10 us; S2 uses 50, 5 and 1 ms"),
        Knob::time("mcu", Nanos::us(100), (Nanos::us(1), Nanos::ms(100)), "the minimum charging unit").from("MCU"),
        Knob::switch("rounding", true, "whether every dispatch is charged in whole MCUs").from("calc_avt"),
        Knob::switch("recharge", true, "whether who is chosen again pays for its whole turn again")
            .from("bvt_do_schedule with runstate.state_entry_time"),
        Knob::choice("slice-unit", &["ns", "mcu"], "what the lead over the second is measured in when a turn is given")
            .from("bvt_do_schedule: ns by mistake, MCUs are meant"),
        homes::PLACEMENT,
    ],
    build,
};

/// With exact charges, nobody's virtual time is ahead of another's by more than one turn alone, 10 C, an allowance and
/// two charging units, each at the least weight. Double charges cost whoever has them without end; and rounding drifts: a turn of
/// exactly C is charged an MCU less than one that is a nanosecond longer.
fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    let exact = !knobs.on("recharge") && !knobs.on("rounding") || knobs.word("rule") == "textbook";
    if !exact || overflows(knobs) {
        return None;
    }
    let turns = knobs.time("context-allowance").saturating_mul(11) + knobs.time("mcu").saturating_mul(2);
    Some(turns.saturating_mul(load.weight_most.div_ceil(load.weight_least.max(1))))
}

/// Everybody else may have to catch up with a lead of one turn, 10 C, at the other end of the weights, and of a warp. A lone entity
/// that is charged again and again comes to lead by all it ever ran: then there is no bound, nor where newcomers begin behind. Nor where the
/// clock overflows: who sleeps meanwhile comes back most of a clock ahead.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    if load.has_changes || knobs.on("recharge") && knobs.word("rule") != "textbook" || overflows(knobs) {
        return None;
    }
    let (allowance, mcu) = (knobs.time("context-allowance"), knobs.time("mcu"));
    let ratio = load.weight_most.div_ceil(load.weight_least.max(1));
    let warp = load.warp_most.saturating_mul(load.weight_most.div_ceil(1024));
    let lead = (allowance.saturating_mul(10) + mcu).saturating_mul(ratio).saturating_add(warp);
    Some(lead.saturating_add(allowance + mcu).saturating_mul(load.entities))
}

fn overflows(knobs: &Knobs) -> bool {
    knobs.get("clock-bits") < i64::from(BITS_ENOUGH)
}

/// Virtual time, in nanoseconds at normal weight: 10,000 to a unit of Xen's.
type VirtualNs = i64;
const XEN_UNIT: VirtualNs = 10_000;

/// Ends a warp that has lasted too long; begins the next.
const WARP_END: u8 = 0;
const WARP_AGAIN: u8 = 1;

#[derive(Clone, Copy, Debug)]
struct Settings {
    allowance: Nanos,
    mcu: Nanos,
    rounding: bool,
    recharge: bool,
    /// Whether a lead is measured in MCUs, not taken for nanoseconds.
    leads_in_mcus: bool,
    /// Whether the allowance stands between a waker and who runs.
    wakers_wait: bool,
    clock: Clock,
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let textbook = knobs.word("rule") == "textbook";
    let settings = Settings {
        allowance: knobs.time("context-allowance"),
        mcu: knobs.time("mcu"),
        rounding: knobs.on("rounding") && !textbook,
        recharge: knobs.on("recharge") && !textbook,
        leads_in_mcus: knobs.word("slice-unit") == "mcu" || textbook,
        wakers_wait: textbook,
        clock: Clock { bits: u32::try_from(knobs.get("clock-bits")).expect("it is in range") },
    };
    Ok(Box::new(Bvt {
        settings,
        members: Vec::new(),
        by_effective: Trees::new(2 * host.cpus),
        by_actual: Trees::new(2 * host.cpus),
        homes: Homes::new(host.cpus, knobs),
        cpus: vec![Cpu { virtual_time: 0, last: None, until: Instant::NEVER }; host.cpus],
        head: 0,
        tail: 0,
    }))
}

/// With so many, the clock is as good as endless.
const BITS_ENOUGH: u32 = 49;
/// Nobody's virtual time is left further behind than this, and the scheduler's goes no further.
const ENDLESS: VirtualNs = 1 << 61;

/// A clock of so many bits of Xen's units.
#[derive(Clone, Copy, Debug)]
struct Clock {
    bits: u32,
}

impl Clock {
    /// `time` as the clock shows it.
    fn shown(self, time: VirtualNs) -> VirtualNs {
        if self.bits >= BITS_ENOUGH { time.max(-ENDLESS) } else { time.rem_euclid(XEN_UNIT << self.bits) }
    }

    /// What is taken off everybody when the scheduler's virtual time has come to `time`: fourteen sixteenths of the clock when
    /// fifteen are over, whoever has not come that far yet. An endless clock is turned back, too, but nobody comes out ahead.
    fn overflow(self, time: VirtualNs) -> Option<VirtualNs> {
        if self.bits >= BITS_ENOUGH {
            return (time >= ENDLESS).then_some(ENDLESS);
        }
        let sixteenth = XEN_UNIT << (self.bits - 4);
        (time >= 15 * sixteenth).then_some(14 * sixteenth)
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    home: CpuId,
    /// Linux's scale.
    weight: u64,
    actual: VirtualNs,
    /// As it was when it last woke or stopped: a warp that begins to count later does so from the next time on.
    effective: VirtualNs,
    /// Its place in the list, while it waits.
    place: i64,
    warp: Option<Warp>,
    /// Whether the warp counts now.
    warped: bool,
    /// Whether it may count again.
    warpback: bool,
    /// What it ran since it was switched to.
    ran: Nanos,
    dispatched: Instant,
}

impl Member {
    /// How far it runs ahead now.
    fn ahead(&self) -> VirtualNs {
        let by = self.warp.filter(|_| self.warped).map_or(Nanos::ZERO, |warp| warp.by);
        by.as_ns().cast_signed()
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// The scheduler's virtual time: the least of all that were runnable at the last decision.
    virtual_time: VirtualNs,
    /// Who ran last.
    last: Option<EntityId>,
    /// The end of the turn that goes on.
    until: Instant,
}

struct Bvt {
    settings: Settings,
    /// By entity.
    members: Vec<Member>,
    /// Who waits on each CPU, by effective virtual time and place in the list.
    by_effective: Trees<(VirtualNs, i64)>,
    /// The same by actual virtual time.
    by_actual: Trees<(VirtualNs, i64)>,
    homes: Homes,
    cpus: Vec<Cpu>,
    /// The places before all others and after all others.
    head: i64,
    tail: i64,
}

impl Bvt {
    fn member(&mut self, e: EntityId) -> &mut Member {
        &mut self.members[e.index()]
    }

    /// What `ran` adds to the actual virtual time of `e`.
    fn cost(&self, e: EntityId, ran: Nanos) -> VirtualNs {
        let Settings { mcu, rounding, .. } = self.settings;
        let charged = if rounding { mcu.saturating_mul(ran.as_ns().div_ceil(mcu.as_ns())) } else { ran };
        charged.scale(1024, self.members[e.index()].weight).as_ns().cast_signed()
    }

    /// How long a turn of `e` lasts for a lead of so much virtual time.
    fn lead(&self, e: EntityId, lead: VirtualNs) -> Nanos {
        let wide = u128::from(lead.max(0).unsigned_abs()) * u128::from(self.members[e.index()].weight) / 1024;
        let time = u64::try_from(wide).map_or(SPAN_MAX, Nanos::ns).min(SPAN_MAX);
        if self.settings.leads_in_mcus { time } else { Nanos::ns(time.as_ns() / self.settings.mcu.as_ns()) }
    }

    /// What somebody with this much actual virtual time is worth to the decision.
    fn effective_of(&self, e: EntityId, actual: VirtualNs) -> VirtualNs {
        self.settings.clock.shown(actual - self.members[e.index()].ahead())
    }

    fn refresh(&mut self, e: EntityId) {
        self.member(e).effective = self.effective_of(e, self.members[e.index()].actual);
    }

    fn push(&mut self, e: EntityId, place: i64) {
        self.member(e).place = place;
        let Member { home, actual, effective, .. } = self.members[e.index()];
        self.by_effective.push(home.index(), (effective, place), e);
        self.by_actual.push(home.index(), (actual, place), e);
    }

    fn push_head(&mut self, e: EntityId) {
        self.head -= 1;
        self.push(e, self.head);
    }

    fn push_tail(&mut self, e: EntityId) {
        self.tail += 1;
        self.push(e, self.tail);
    }

    fn remove(&mut self, e: EntityId) -> bool {
        self.by_actual.remove(e);
        self.by_effective.remove(e)
    }

    /// `e`, which waits at the head of its list, preempts who runs on its CPU, or shortens its turn.
    fn challenge(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Member { home, effective: mine, .. } = self.members[e.index()];
        let runs = match cx.running(home) {
            Running::Mine { entity, since } => Some((entity, since)),
            Running::Idle | Running::Below => None,
            Running::Above => return,
        };
        let Some((current, since)) = runs else { return cx.kick(home) };
        let running = self.members[current.index()];
        let ran = running.ran + cx.now().since(since);
        let theirs = self.effective_of(current, self.settings.clock.shown(running.actual + self.cost(current, ran)));
        let margin = if self.settings.wakers_wait { self.cost(current, self.settings.allowance) } else { 0 };
        if mine <= theirs - margin {
            return cx.kick(home);
        }
        let until = match self.settings.wakers_wait {
            true => cx.now().saturating_add(self.lead(current, mine - theirs + margin)),
            false => {
                let turn = self.lead(current, mine - theirs).saturating_add(self.settings.allowance);
                running.dispatched.saturating_add(turn)
            }
        };
        if until <= cx.now() {
            cx.kick(home);
        } else if until < self.cpus[home.index()].until {
            self.cpus[home.index()].until = until;
            cx.cut(home, until);
        }
    }

    /// Takes `off` off all virtual times on `cpu`; what was less comes out near the clock's end.
    fn turn_back(&mut self, cpu: CpuId, off: VirtualNs) {
        let clock = self.settings.clock;
        self.cpus[cpu.index()].virtual_time -= off;
        for member in self.members.iter_mut().filter(|member| member.home == cpu) {
            member.actual = clock.shown(member.actual - off);
            member.effective = clock.shown(member.effective - off);
        }
        // There, in the other half of the trees, and back: those that wrap change their place.
        let (here, aside) = (cpu.index(), cpu.index() + self.cpus.len());
        for (from, to) in [(here, aside), (aside, here)] {
            while let Some((_, e)) = self.by_effective.pop(from) {
                let Member { actual, effective, place, .. } = self.members[e.index()];
                self.by_actual.remove(e);
                self.by_effective.push(to, (effective, place), e);
                self.by_actual.push(to, (actual, place), e);
            }
        }
    }

    /// The warp of `e` begins or ends to count.
    fn turn_warp(&mut self, e: EntityId, warped: bool, cx: &mut Cx<'_>) {
        self.member(e).warped = warped;
        // In Xen, who waits keeps the effective virtual time it was queued with.
        if self.settings.wakers_wait && self.remove(e) {
            self.refresh(e);
            self.push(e, self.members[e.index()].place);
        }
        let home = self.members[e.index()].home;
        if cx.state(e) != State::Blocked && cx.running(home) != Running::Above {
            cx.kick(home);
        }
    }
}

const fn warp_alarm(e: EntityId, slot: u8) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot }
}

impl Policy for Bvt {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let home = self.homes.settle(e, cx);
        let fresh = Member {
            home,
            weight: u64::from(params.weight.as_linux()),
            actual: self.cpus[home.index()].virtual_time,
            effective: self.cpus[home.index()].virtual_time,
            place: 0,
            warp: params.warp,
            warped: params.warp.is_some(),
            warpback: params.warp.is_some(),
            ran: Nanos::ZERO,
            dispatched: cx.now(),
        };
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, fresh);
        }
        self.members[e.index()] = fresh;
        self.by_effective.reserve(e, (0, 0));
        self.by_actual.reserve(e, (0, 0));
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        let home = self.members[e.index()].home;
        self.homes.leave(home);
        if self.cpus[home.index()].last == Some(e) {
            self.cpus[home.index()].last = None;
        }
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let waits = self.remove(e);
        self.member(e).weight = u64::from(params.weight.as_linux());
        if old.warp != params.warp {
            let warped = params.warp.is_some();
            let member = self.member(e);
            (member.warp, member.warped, member.warpback) = (params.warp, warped, warped);
            cx.clear_alarm(warp_alarm(e, WARP_END));
            cx.clear_alarm(warp_alarm(e, WARP_AGAIN));
        }
        let home = self.members[e.index()].home;
        if !params.affinity.contains(home) {
            self.homes.leave(home);
            let home = self.homes.settle(e, cx);
            self.member(e).home = home;
            // Who has moved begins where the scheduler is.
            self.member(e).actual = self.cpus[home.index()].virtual_time;
        }
        match cx.state(e) {
            State::Running(cpu) => cx.kick(cpu),
            State::Waiting if waits => {
                self.refresh(e);
                self.push_head(e);
                self.challenge(e, cx);
            }
            State::Waiting | State::Blocked => {}
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        let behind = self.cpus[self.members[e.index()].home.index()].virtual_time;
        let member = self.member(e);
        member.actual = member.actual.max(behind);
        self.refresh(e);
        self.push_head(e);
        self.challenge(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.remove(e);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.member(e).ran += ran;
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Entity(e) = alarm.owner else { unreachable!("only entities have alarms here") };
        let Some(warp) = self.members[e.index()].warp else { return };
        match alarm.slot {
            WARP_END if warp.rest.is_zero() => {
                self.member(e).warpback = false;
                self.turn_warp(e, false, cx);
            }
            WARP_END => {
                // It goes on; only the next decision sees the difference.
                self.member(e).warped = false;
                cx.set_alarm(
                    warp_alarm(e, WARP_AGAIN),
                    cx.last_cpu(e),
                    cx.now().saturating_add(warp.rest.max(self.settings.mcu)),
                );
            }
            _ if self.members[e.index()].warpback => self.turn_warp(e, true, cx),
            _ => {}
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        let ran = self.members[e.index()].ran;
        let charged = self.members[e.index()].actual + self.cost(e, ran);
        self.member(e).actual = self.settings.clock.shown(charged);
        if !self.settings.recharge {
            self.member(e).ran = Nanos::ZERO;
        }
        cx.clear_alarm(warp_alarm(e, WARP_END));
        // Who blocks is switched away from, if only to nobody.
        self.cpus[cpu.index()].last = (prev.why != StopReason::Blocked).then_some(e);
        if prev.why == StopReason::Blocked {
            return;
        }
        let home = self.members[e.index()].home;
        if home == cpu {
            self.refresh(e);
            return self.push_tail(e);
        }
        // It stops here, and wakes there.
        self.member(e).actual = self.cpus[home.index()].virtual_time;
        self.refresh(e);
        self.push_head(e);
        self.challenge(e, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some((actual, _)) = self.by_actual.first(cpu.index()).map(|(key, _)| key) else { return Decision::IDLE };
        self.cpus[cpu.index()].virtual_time = actual;
        let ((effective, _), e) = self.by_effective.pop(cpu.index()).expect("both know who waits");
        self.by_actual.remove(e);
        let allowance = self.settings.allowance;
        let turn = match self.by_effective.first(cpu.index()) {
            None => allowance.saturating_mul(10),
            Some(((rival, _), _)) => self.lead(e, rival - effective).saturating_add(allowance),
        };
        if self.cpus[cpu.index()].last != Some(e) || !self.settings.recharge {
            self.member(e).ran = Nanos::ZERO;
            self.member(e).dispatched = cx.now();
        }
        if let Some(off) = self.settings.clock.overflow(actual) {
            self.turn_back(cpu, off);
        }
        let until = cx.now().saturating_add(turn);
        self.cpus[cpu.index()].until = until;
        let member = self.members[e.index()];
        if let Some(warp) = member.warp.filter(|warp| member.warped && member.warpback && !warp.limit.is_zero()) {
            cx.set_alarm(warp_alarm(e, WARP_END), cpu, cx.now().saturating_add(warp.limit.max(self.settings.mcu)));
        }
        Decision::until(e, until)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let member = &self.members[e.index()];
        show("avt", member.actual / XEN_UNIT);
        show("evt", member.effective / XEN_UNIT);
        show("warped", i64::from(member.warped && member.warp.is_some()));
    }
}
