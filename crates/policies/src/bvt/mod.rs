//! Borrowed virtual time: the entity with the least weighted time runs; a latency-sensitive entity may borrow from its
//! future.
//!
//! BVT was Xen's first scheduler, until August 2006. Each entity has an *actual virtual time* that grows while the
//! entity runs, more slowly at a higher weight. The entity with the least virtual time runs. An entity that wakes does
//! not keep its unused time: its virtual time is raised to the scheduler's virtual time. The scheduler treats a
//! *warped* entity as if its virtual time were earlier by the length of its warp. Such an entity borrows from its own
//! future to run at once.
//!
//! ```text
//! two equal hogs, C = 5 ms       0    5    10   15   20   25   30
//! (slice-unit = ns, as in Xen)   aaaaabbbbbaaaaabbbbbaaaaabbbbb
//! ```
//!
//! **Virtual time.** One minimum charging unit (MCU, 100 µs) advances the virtual time by 10 units at normal weight,
//! and by 5 units at twice the weight. Every dispatch is charged in whole MCUs, rounded up. Decisions use the
//! *effective* virtual time. This is the actual virtual time, minus the warp of a warped entity.
//!
//! **Decision.** The entity with the least effective virtual time runs. Of several entities with the same effective
//! virtual time, the first in the list runs. A woken entity is added at the head of the list; an entity that stops
//! without blocking is added at the tail. The time slice is the context allowance C plus the lead. The lead is the CPU
//! time until the effective virtual time of the entity reaches that of the second entity. An entity that is alone
//! receives a time slice of 10 C. In Xen, the lead is a number of MCUs, but is treated as nanoseconds (`slice-unit`).
//! Every other time slice is therefore practically C.
//!
//! Equal entities that are always runnable stay within C plus one MCU of their share. With exact charges, the same
//! bound holds for two entities of any weights, and for the excess of any entity over its share. Charges are exact with
//! `rounding = off` and `recharge = off`, or with the textbook rule. With many entities, the deficit of one entity can
//! reach this bound once for each other entity. With rounding, the shares of unequal weights drift, some of them by 0.1
//! percentage points. The cause is that a time slice of exactly C costs an MCU less than a time slice that is a
//! nanosecond longer.
//!
//! **Wake-up.** The scheduler's virtual time is the minimum actual virtual time of all entities that were runnable at
//! the last decision. If the virtual time of a woken entity is less, it is raised to the scheduler's virtual time. Then
//! the effective virtual times of the woken entity and the running entity are compared. That of the running entity
//! includes its CPU time since the last switch. If the effective virtual time of the woken entity is not later, the
//! woken entity preempts at once, regardless of the allowance. Otherwise the running entity continues, at most until C
//! plus its lead over the woken entity has passed since its dispatch.
//!
//! An entity that sleeps often and runs briefly therefore nearly always preempts the running entity. An entity whose
//! virtual time is later because of rounding waits for a whole C. For this reason I/O is batched in a driver domain,
//! and throughput depends on C (Cherkasova et al. 2007, §5.1).
//!
//! **Warp.** The parameter `warp` lets an entity run ahead by the time `by`. The warp ends once a time slice of the
//! entity has lasted for `limit`, and starts again after `rest`. If `limit` is 0, the warp does not end; if `rest` is
//! 0, it does not start again. Other values below an MCU count as one MCU. If a warp starts again while the entity
//! waits, the warp takes effect at the entity's next stop or wake-up. With the textbook rule, the warp takes effect at
//! once.
//!
//! **Several CPUs.** Each entity stays on the CPU where it was placed. By default, this is the CPU in the affinity with
//! the fewest other entities; with `placement = first`, it is the first CPU in the affinity. On two CPUs, three hogs of
//! equal weight therefore receive 100, 50 and 50 % of a CPU.
//!
//! Differences from Xen at db51cd09d3^:
//! - Virtual times are kept in 1/10,000 of Xen's unit, rounded down, so that virtual time advances at every weight. At
//!   normal weight, 256 in Xen's scale, it advances by 10 units per MCU; at half the weight, it advances twice as fast.
//! - Virtual times have 64 bits and do not overflow. Xen's virtual times have 32 bits (`clock-bits = 32`). At normal
//!   weight, a virtual time reaches 15/16 of that range after eleven hours of CPU time. Then 14/16 of the range are
//!   subtracted from every virtual time. If the virtual time of a sleeper is less than this amount, it wraps around. It
//!   is then later than the scheduler's virtual time by about 1/16 of the range (45 minutes) or more. The sleeper waits
//!   until the other entities have caught up. An entity that warps further than the clock has advanced is last instead
//!   of first.
//! - `rule = textbook` is the rule of Duda and Cheriton. Charges are exact, and a woken entity preempts only if it lags
//!   by the allowance or more.
//!
//! An entity that is picked again without a switch is charged again for its whole run since the last switch
//! (`recharge`). The cause in Xen is that the time of entry to the running state is set only at a switch. Entities with
//! a high weight lose part of their share as a result. An entity that runs alone is charged repeatedly until another
//! entity wakes.
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

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "bvt",
    title: "borrowed virtual time: the least weighted time first, with warp (Xen until 2006)",
    source: "xen/common/sched_bvt.c before db51cd09d3 (2006); Duda and Cheriton, SOSP'99; Cherkasova et al. 2007 §4",
    good_for: "shares by weight on one CPU, with short wake-up latency for entities that often sleep",
    bad_at: "several CPUs, and I/O through another domain: a small allowance costs throughput, a large allowance costs latency",
    text: include_str!("mod.rs"),
    conserving: |_| Conserving::PerCpu { slack: Nanos::ZERO },
    starvation,
    guarantees: Guarantees { shares, ..Guarantees::NOTHING },
    alarms: AlarmSlots { entity: &[AlarmKind::Timer, AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::count("clock-bits", [64, 12, 64], "the number of bits of a virtual time; from 49 on, it never overflows")
            .from("u32 avt and evt: 32; bvt_do_schedule subtracts 0xe0000000 at 0xf0000000"),
        Knob::choice(
            "rule",
            &["xen", "textbook"],
            "Xen's rule, with the other knobs, or the rule of Duda and Cheriton",
        )
        .from("sched_bvt.c before db51cd09d3; Duda and Cheriton, SOSP'99 §2"),
        Knob::time(
            "context-allowance",
            Nanos::ms(5),
            (Nanos::us(10), Nanos::s(1)),
            "C, the context allowance: the length of a time slice beyond the lead",
        )
        .from("CTX_ALLOW 5 ms, at least 10 us; Cherkasova et al. 2007 use 50, 5 and 1 ms"),
        Knob::time("mcu", Nanos::us(100), (Nanos::us(1), Nanos::ms(100)), "the minimum charging unit").from("MCU"),
        Knob::switch("rounding", true, "every dispatch is charged in whole MCUs").from("calc_avt"),
        Knob::switch("recharge", true, "an entity that is picked again is charged for its whole run again")
            .from("bvt_do_schedule with runstate.state_entry_time"),
        Knob::choice(
            "slice-unit",
            &["ns", "mcu"],
            "the unit of the lead over the second entity, when a time slice is computed",
        )
        .from("bvt_do_schedule: ns by mistake; MCUs are intended"),
        homes::PLACEMENT,
    ],
    build,
};

/// Returns the maximum distance from the weighted share. With exact charges, there is a bound for the difference
/// between the virtual times of two entities. The bound is the sum, at the minimum weight, of the time slice of a lone
/// entity (10 C), an allowance and two charging units. With `recharge`, an entity loses time without bound. With
/// rounding, shares drift: a time slice of exactly C is charged an MCU less than a slice that is a nanosecond longer.
fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    let knobs = load.knobs;
    let exact = !knobs.on("recharge") && !knobs.on("rounding") || knobs.word("rule") == "textbook";
    if !exact || overflows(knobs) {
        return None;
    }
    let turns = knobs.time("context-allowance").saturating_mul(11) + knobs.time("mcu").saturating_mul(2);
    Some(turns.saturating_mul(load.weight_most.div_ceil(load.weight_least.max(1))))
}

/// Returns the maximum wait of an entity. Before the entity runs, all other entities may have to advance by two leads.
/// The first lead is the time slice of a lone entity (10 C), multiplied by the ratio of the extreme weights. The second
/// lead is the largest warp. There is no bound in three cases. First, a lone entity that is charged repeatedly leads by
/// all its CPU time. Second, new entities may start with an earlier virtual time. Third, after an overflow of the
/// clock, the virtual time of a sleeper may be later by most of the clock's range.
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

/// Virtual time, in nanoseconds at normal weight; 10,000 ns equal one unit of Xen.
type VirtualNs = i64;
const XEN_UNIT: VirtualNs = 10_000;

/// Alarm slots: the end of a warp that has lasted `limit`, and the start of the next warp.
const WARP_END: u8 = 0;
const WARP_AGAIN: u8 = 1;

#[derive(Clone, Copy, Debug)]
struct Settings {
    allowance: Nanos,
    mcu: Nanos,
    rounding: bool,
    recharge: bool,
    /// Whether a lead is measured in MCUs instead of nanoseconds.
    leads_in_mcus: bool,
    /// Whether the allowance protects the running entity from a woken entity.
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

/// Minimum number of bits with which the clock practically never overflows.
const BITS_ENOUGH: u32 = 49;
/// Limit of virtual time on a clock with 49 or more bits. The minimum is the negative limit; virtual times are reduced
/// when the scheduler's virtual time reaches the limit.
const ENDLESS: VirtualNs = 1 << 61;

/// A clock with this number of bits, in Xen's units.
#[derive(Clone, Copy, Debug)]
struct Clock {
    bits: u32,
}

impl Clock {
    /// Returns `time` modulo the range of the clock. A clock with 49 or more bits does not wrap around.
    fn shown(self, time: VirtualNs) -> VirtualNs {
        if self.bits >= BITS_ENOUGH { time.max(-ENDLESS) } else { time.rem_euclid(XEN_UNIT << self.bits) }
    }

    /// Returns the amount to subtract from all virtual times when the scheduler's virtual time has reached `time`:
    /// 14/16 of the range, once `time` reaches 15/16; `None` before. Virtual times of a clock with 49 or more bits are
    /// also reduced, but never wrap around.
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
    /// Weight of the entity in Linux's scale.
    weight: u64,
    actual: VirtualNs,
    /// Effective virtual time. It is computed at a wake-up, at a stop after which the entity waits, and when the
    /// parameters of a waiting entity change. With Xen's rule, a warp that starts while the entity waits takes effect
    /// at the next of these instants. With the textbook rule, such a warp takes effect at once.
    effective: VirtualNs,
    /// Position of the entity in the list, while the entity waits.
    place: i64,
    warp: Option<Warp>,
    /// Whether the warp is in effect.
    warped: bool,
    /// Whether the warp may start again.
    warpback: bool,
    /// CPU time of the entity since the last switch to it; without `recharge`, since its last dispatch.
    ran: Nanos,
    dispatched: Instant,
}

impl Member {
    /// Returns the current warp, in virtual time.
    fn ahead(&self) -> VirtualNs {
        let by = self.warp.filter(|_| self.warped).map_or(Nanos::ZERO, |warp| warp.by);
        by.as_ns().cast_signed()
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// Virtual time of the scheduler: the minimum actual virtual time of all entities that were runnable at the last
    /// decision.
    virtual_time: VirtualNs,
    /// Entity that ran last.
    last: Option<EntityId>,
    /// End of the current time slice.
    until: Instant,
}

struct Bvt {
    settings: Settings,
    /// State of each entity, by index.
    members: Vec<Member>,
    /// Waiting entities of each CPU, by effective virtual time and position in the list.
    by_effective: Trees<(VirtualNs, i64)>,
    /// Waiting entities of each CPU, by actual virtual time and position in the list.
    by_actual: Trees<(VirtualNs, i64)>,
    homes: Homes,
    cpus: Vec<Cpu>,
    /// Lowest and highest position that an entity has received so far.
    head: i64,
    tail: i64,
}

impl Bvt {
    fn member(&mut self, e: EntityId) -> &mut Member {
        &mut self.members[e.index()]
    }

    /// Returns the virtual time by which `ran` advances `e`.
    fn cost(&self, e: EntityId, ran: Nanos) -> VirtualNs {
        let Settings { mcu, rounding, .. } = self.settings;
        let charged = if rounding { mcu.saturating_mul(ran.as_ns().div_ceil(mcu.as_ns())) } else { ran };
        charged.scale(1024, self.members[e.index()].weight).as_ns().cast_signed()
    }

    /// Converts a lead of `e` in virtual time to the CPU time that the lead adds to the time slice.
    fn lead(&self, e: EntityId, lead: VirtualNs) -> Nanos {
        let wide = u128::from(lead.max(0).unsigned_abs()) * u128::from(self.members[e.index()].weight) / 1024;
        let time = u64::try_from(wide).map_or(SPAN_MAX, Nanos::ns).min(SPAN_MAX);
        if self.settings.leads_in_mcus { time } else { Nanos::ns(time.as_ns() / self.settings.mcu.as_ns()) }
    }

    /// Returns the effective virtual time of `e` for this actual virtual time.
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

    /// Lets `e`, which waits at the head of its list, preempt the running entity of its CPU, or shortens the time slice
    /// of that entity.
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

    /// Subtracts `off` from all virtual times on `cpu`. On a clock with fewer than 49 bits, virtual times below `off`
    /// wrap around.
    fn turn_back(&mut self, cpu: CpuId, off: VirtualNs) {
        let clock = self.settings.clock;
        self.cpus[cpu.index()].virtual_time -= off;
        for member in self.members.iter_mut().filter(|member| member.home == cpu) {
            member.actual = clock.shown(member.actual - off);
            member.effective = clock.shown(member.effective - off);
        }
        // Moves all entries to the other half of the trees and back, because entries that wrap change their position.
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

    /// Starts or ends the warp of `e`.
    fn turn_warp(&mut self, e: EntityId, warped: bool, cx: &mut Cx<'_>) {
        self.member(e).warped = warped;
        // In Xen, a waiting entity keeps the effective virtual time with which it was enqueued.
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
            // After a migration, an entity starts at the virtual time of its new CPU's scheduler.
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
                // The entity continues; the change takes effect at the next decision.
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
        // A block counts as a switch to another entity, even if the CPU becomes idle.
        self.cpus[cpu.index()].last = (prev.why != StopReason::Blocked).then_some(e);
        if prev.why == StopReason::Blocked {
            return;
        }
        let home = self.members[e.index()].home;
        if home == cpu {
            self.refresh(e);
            return self.push_tail(e);
        }
        // An entity whose home has changed leaves this CPU as if it blocked, and joins its new home as if it woke.
        self.member(e).actual = self.cpus[home.index()].virtual_time;
        self.refresh(e);
        self.push_head(e);
        self.challenge(e, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some((actual, _)) = self.by_actual.first(cpu.index()).map(|(key, _)| key) else { return Decision::IDLE };
        self.cpus[cpu.index()].virtual_time = actual;
        let ((effective, _), e) = self.by_effective.pop(cpu.index()).expect("both trees hold every waiting entity");
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
