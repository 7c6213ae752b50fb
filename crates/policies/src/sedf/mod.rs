//! SEDF: a slice of every period for entities with a reservation, and extra time for work-conserving entities.
//!
//! SEDF is Xen's "simple EDF" (2005 to 2015), derived from Atropos. Every entity has a *slice* and a *period*. An
//! entity is eligible if its period has begun and its slice is not used up. The eligible entity with the earliest end
//! of period runs. Time without an eligible entity is *extra* time, dispatched in quanta of 500 µs. In extra time,
//! entities that lost a part of a slice by blocking run first. The other entities that may use extra time share the
//! rest.
//!
//! ```text
//! a reserves 3 ms of every 10, hard; b has no reservation
//! 0         10        20        30
//! bbbaaabbbbbbbaaabbbbbbbaaabbbb
//! ```
//!
//! The first period of a new entity begins one slice after its first wake-up. In the picture, the first period of `a`
//! begins at 3 ms, not at 0.
//!
//! **Parameters.** A reservation is a slice of at least 5 µs and a period of 10 µs to 10 s. An entity with a soft
//! reservation may use extra time (*work conserving* mode). An entity with a hard reservation may not: when its slice
//! is used up, it waits until the next period, even if CPUs idle. The deadline and the start of a reservation are
//! ignored. Entities without a reservation receive only extra time, in equal parts. With other values of `unreserved`,
//! such an entity receives extra time by weight, or a slice by weight. Slices by weight divide the part of 95 ms in
//! every 100 ms that the reservations on the CPU leave.
//!
//! No reservation is refused for lack of CPU time: the administrator must ensure that the slices fit (ΣS/P ≤ 1 on every
//! CPU). If the slices do not fit, no entity has a guarantee. An entity that misses its deadline loses that period. Of
//! two entities that reserve 80 % each, one receives 80 % and the other 20 %.
//!
//! **Blocking.** The rule depends on the instant of the wake-up.
//! - *Before the next period begins, with no slice left*: the entity competes for extra time again.
//! - *In the period in which the entity blocked, with slice left*: the entity forfeits its remaining slice. This loss
//!   is compensated in extra time, before other entities receive extra time. A larger loss relative to the period is
//!   compensated sooner. Hard reservations are compensated, too.
//! - *Later*: a period begins at the wake-up, with a full slice.
//!
//! A wake-up makes the CPU decide again in three cases; otherwise the woken entity waits:
//! - The period of the woken entity begins before the end of the current time slice.
//! - The running entity is in extra time, and the woken entity is due for a compensation. If the running entity is
//!   being compensated, too, the woken entity must have the larger loss relative to its period.
//! - The CPU idles.
//!
//! An entity that is due for a compensation does not preempt an entity that runs in its slice. With `l0-hack` off, a
//! compensation ends when the entity has run for the lost time; with `l0-hack` on, after its first quantum. Xen ends a
//! compensation after its first quantum from 3.0.3 on, because a driver domain could otherwise occupy the CPU for
//! seconds. Measurements of 2006 (Cherkasova et al.) agree only with `l0-hack` off.
//!
//! **Extra time** is charged in whole quanta. A run costs 2^17 divided by the extra weight of the entity, however short
//! the run is. For an entity with a reservation, the cost is 1024 divided by the utilisation. After a run, the score of
//! the entity is subtracted from all other scores, and its own score becomes the cost. The entity with the minimum
//! score runs next. If an entity blocks during its run, the other scores do not change. So two entities that block
//! alternately can starve a third entity as long as the two leave no time unused.
//!
//! **Lost time.** If the next period begins in less than a quantum, the CPU idles until then, even if entities wait for
//! extra time. The CPU loses up to 500 µs before each beginning of a period, and all extra time if periods begin in
//! quick succession.
//!
//! **Several CPUs.** Each entity stays on the CPU where it was placed. This is the allowed CPU with the fewest other
//! entities, or with `placement = first`, the first allowed CPU. Three equal VMs on two CPUs receive 100, 50 and 50 %.
//!
//! **Latency.** With `unblock = atropos`, an entity that wakes after the end of its period receives a shorter period.
//! This period is as long as the entity's `latency`, and the slice is in proportion. Each used-up slice doubles both,
//! up to the values of the reservation. The other values of `unblock` are the other wake-up rules in Xen's source. Xen
//! selects the rule at compile time, and always selected `extra`.
//!
//! Differences from Xen 3.0.3 to 4.5:
//! - A change of parameters takes effect at once: the queues are sorted again, and the CPU picks again.
//! - Scores do not overflow, and extra weights are as fine as Linux's weights.
//! - An entity with a slice of zero moves directly to a later period. Xen may first dispatch the entity for zero time.
//! - With `unblock = atropos`, no period is shorter than 10 µs and no slice shorter than 5 µs.
//!
//! Source: xen/common/sched_sedf.c, Xen 3.0.3 to 4.5 (removed by 038c6afe08, 2015); Cherkasova, Gupta and Vahdat 2007
//! §4.

mod bounds;
mod queues;
#[cfg(test)]
mod tests;
mod vcpu;

use crate::homes::{self, Homes};
use queues::{Queues, Score};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, Cx, Decision, Descriptor, EntityId, Guarantees, Instant, Knob,
    Knobs, Nanos, Params, Policy, PromiseState, Refused, Running, State, StopReason, Stopped, Topology, Wake,
};
use vcpu::{Dispatch, Request, Unblock, Vcpu};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "sedf",
    title: "a slice of every period, and extra time for work-conserving VMs (Xen until 2015)",
    source: "xen/common/sched_sedf.c, Xen 3.0.3 to 4.5; Cherkasova et al. 2007 §4",
    good_for: "few VMs with known slices and periods on one CPU each, with or without a ceiling",
    bad_at: "several CPUs, many VMs, VMs that block within their periods, and overload: no reservation is ever refused",
    text: include_str!("mod.rs"),
    conserving: bounds::conserving,
    starvation: bounds::starvation,
    // The policy has no admission control, so no reservation is guaranteed. Extra time is shared by quanta, not by
    // time.
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { cpu: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::switch("l0-hack", false, "a compensation ends with its first quantum")
            .from("commit 1d13b43fea (2006-06-17): on in Xen 3.0.3 to 4.5; off: Cherkasova et al. 2007, table 1"),
        Knob::choice(
            "unblock",
            &["extra", "isochronous", "conservative", "atropos", "resume"],
            "the rule for an entity that wakes in the period in which it blocked, or later",
        )
        .from("UNBLOCK_* in sched_sedf.c; EXTRA_SUPPORT is compiled in"),
        Knob::choice(
            "unreserved",
            &["equal", "extra-weight", "slices"],
            "the CPU time of an entity without a reservation",
        )
        .from("sedf_add_task: extra weight 1; sedf_adjdom: an extra weight, or slices by weight"),
        Knob::choice("reserved-extra", &["utilisation", "equal"], "the extra time of an entity with a reservation")
            .from("sedf_adjdom: extra weight 0, its utilisation; sedf_add_task: 1"),
        Knob::time("extra-quantum", Nanos::us(500), (Nanos::us(10), Nanos::ms(10)), "the quantum of extra time")
            .from("EXTRA_QUANTUM"),
        Knob::time(
            "weight-period",
            Nanos::ms(100),
            (Nanos::ms(1), Nanos::s(10)),
            "the period of an entity without a reservation",
        )
        .from("WEIGHT_PERIOD"),
        Knob::time(
            "weight-safety",
            Nanos::ms(5),
            (Nanos::ZERO, Nanos::s(1)),
            "the part of `weight-period` that is not distributed in slices by weight",
        )
        .from("WEIGHT_SAFETY"),
        homes::PLACEMENT,
    ],
    build,
};

/// The rule for the CPU time of an entity without a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unreserved {
    Equal,
    ExtraWeight,
    Slices,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    l0_hack: bool,
    unblock: Unblock,
    unreserved: Unreserved,
    reserved_by_utilisation: bool,
    quantum: Nanos,
    weight_period: Nanos,
    weight_safety: Nanos,
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let settings = Settings {
        l0_hack: knobs.on("l0-hack"),
        unblock: match knobs.word("unblock") {
            "isochronous" => Unblock::Isochronous,
            "conservative" => Unblock::Conservative,
            "atropos" => Unblock::Atropos,
            "resume" => Unblock::Resume,
            _ => Unblock::Extra,
        },
        unreserved: match knobs.word("unreserved") {
            "extra-weight" => Unreserved::ExtraWeight,
            "slices" => Unreserved::Slices,
            _ => Unreserved::Equal,
        },
        reserved_by_utilisation: knobs.word("reserved-extra") == "utilisation",
        quantum: knobs.time("extra-quantum"),
        weight_period: knobs.time("weight-period"),
        weight_safety: knobs.time("weight-safety"),
    };
    Ok(Box::new(Sedf {
        settings,
        vcpus: Vec::new(),
        queues: Queues::new(host.cpus),
        homes: Homes::new(host.cpus, knobs),
        expires: vec![Instant::ZERO; host.cpus],
    }))
}

/// Duration for which a CPU idles if no entity waits for its next period.
const IDLE: Nanos = Nanos::s(1);

const fn period_timer(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

struct Sedf {
    settings: Settings,
    /// State of each entity, by index; `None`: not attached.
    vcpus: Vec<Option<Vcpu>>,
    queues: Queues,
    homes: Homes,
    /// Latest instant at which each CPU picks again.
    expires: Vec<Instant>,
}

impl Sedf {
    fn vcpu(&self, e: EntityId) -> &Vcpu {
        self.vcpus[e.index()].as_ref().expect("it is attached")
    }

    fn vcpu_mut(&mut self, e: EntityId) -> &mut Vcpu {
        self.vcpus[e.index()].as_mut().expect("it is attached")
    }

    /// Enqueues `e` with the entities whose period has begun, or with those whose period is still to come.
    fn queue_period(&mut self, e: EntityId, now: Instant) {
        let (home, begin, end) = (self.vcpu(e).home, self.vcpu(e).begin(), self.vcpu(e).deadline);
        if begin > now {
            self.queues.push_to_come(home, begin, e);
        } else {
            self.queues.push_begun(home, end, e);
        }
    }

    fn queue_utilisation(&mut self, e: EntityId) {
        let Vcpu { home, extra_score, .. } = *self.vcpu(e);
        self.queues.push_utilisation(home, extra_score, e);
    }

    fn queue_penalty(&mut self, e: EntityId) {
        let Vcpu { home, penalty_score, .. } = *self.vcpu(e);
        self.queues.push_penalty(home, penalty_score, e);
    }

    /// Removes `e` from all queues.
    fn dequeue(&mut self, e: EntityId) {
        self.queues.leave_periods(e);
        self.queues.leave_penalty(e);
        self.leave_utilisation(e);
    }

    fn leave_utilisation(&mut self, e: EntityId) {
        if let Some(score) = self.queues.leave_utilisation(e) {
            self.vcpu_mut(e).extra_score = score;
        }
    }

    // ---- Wake-ups ----

    /// Enqueues `e`, which wakes, and kicks its CPU if the CPU must pick again.
    fn unblock(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let (now, latency) = (cx.now(), cx.params(e).latency);
        let first = !self.vcpu(e).has_woken;
        if first {
            let vcpu = self.vcpu_mut(e);
            vcpu.deadline = now + vcpu.slice;
            vcpu.has_woken = true;
        }
        let Settings { unblock, quantum, .. } = self.settings;
        if now < self.vcpu(e).begin() {
            if self.vcpu(e).wants_penalty {
                self.queue_penalty(e);
            }
        } else if now < self.vcpu(e).deadline {
            let compensated = self.vcpu_mut(e).unblock_short(unblock, quantum, now);
            if compensated {
                self.queue_penalty(e);
            }
        } else {
            self.vcpu_mut(e).unblock_long(unblock, latency, now);
        }
        if self.vcpu(e).request.extra {
            self.queue_utilisation(e);
        }
        self.queue_period(e, now);
        self.challenge(e, cx);
    }

    /// Kicks the CPU of `e`, which has just woken, if the CPU must pick again.
    fn challenge(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let woken = self.vcpu(e);
        let home = woken.home;
        let current = match cx.running(home) {
            Running::Above => return,
            Running::Idle | Running::Below => return cx.kick(home),
            Running::Mine { entity, .. } => self.vcpu(entity),
        };
        let interrupts = woken.begin() < self.expires[home.index()]
            || match current.dispatch {
                Dispatch::Slice => false,
                Dispatch::Penalty => woken.wants_penalty && woken.penalty_score < current.penalty_score,
                Dispatch::Utilisation => woken.wants_penalty,
            };
        if interrupts {
            cx.kick(home);
        }
    }

    // ---- The end of a run ----

    /// Ends a run of `e` within its slice.
    fn end_slice(&mut self, e: EntityId, runnable: bool) {
        let vcpu = self.vcpu_mut(e);
        vcpu.used += vcpu.ran;
        if vcpu.used < vcpu.slice && runnable {
            return;
        }
        if vcpu.used >= vcpu.slice {
            vcpu.next_period();
        }
        let (home, begin) = (vcpu.home, vcpu.begin());
        if runnable {
            self.queues.leave_periods(e);
            self.queues.push_to_come(home, begin, e);
        } else {
            self.dequeue(e);
        }
    }

    /// Ends a run of `e` in extra time on `cpu`.
    fn end_extra(&mut self, e: EntityId, cpu: CpuId, runnable: bool) {
        let hack = self.settings.l0_hack;
        let dispatch = core::mem::replace(&mut self.vcpu_mut(e).dispatch, Dispatch::Slice);
        self.vcpu_mut(e).used = Nanos::ZERO;
        match dispatch {
            Dispatch::Penalty => {
                self.queues.leave_penalty(e);
                self.vcpu_mut(e).compensate(hack);
                if runnable && self.vcpu(e).wants_penalty {
                    self.queue_penalty(e);
                }
            }
            Dispatch::Utilisation | Dispatch::Slice => {
                let paid = self.queues.leave_utilisation(e).expect("it runs from there");
                let vcpu = self.vcpu_mut(e);
                vcpu.extra_score = vcpu.request.price;
                if runnable && vcpu.request.extra {
                    self.queues.lower_utilisation(cpu, paid);
                    self.queue_utilisation(e);
                }
            }
        }
        if !runnable {
            self.dequeue(e);
        }
    }

    // ---- The decision ----

    /// Requeues the entities on `cpu` whose periods have begun, whose periods are over, or whose slices are used up.
    fn update(&mut self, cpu: CpuId, now: Instant) {
        while let Some((begin, e)) = self.queues.first_to_come(cpu)
            && begin <= now
        {
            self.queues.leave_periods(e);
            let deadline = self.vcpu(e).deadline;
            self.queues.push_begun(cpu, deadline, e);
        }
        // An entity that is enqueued before the cursor is not visited again, as in Xen's iteration over its list.
        let mut cursor = self.queues.first_begun(cpu);
        while let Some(e) = cursor {
            cursor = self.queues.next(e);
            let vcpu = self.vcpu_mut(e);
            if vcpu.slice.is_zero() {
                vcpu.skip_to_period_after(now);
            } else if vcpu.deadline < now || vcpu.used >= vcpu.slice {
                vcpu.miss(now);
            } else {
                break;
            }
            self.queues.leave_periods(e);
            self.queue_period(e, now);
        }
    }

    /// Returns the entity to run on `cpu`, the kind of its run, and the end of the run. Without an entity, the CPU
    /// idles until that end.
    fn choose(&self, cpu: CpuId, now: Instant) -> (Option<(EntityId, Dispatch)>, Instant) {
        let next = self.queues.first_to_come(cpu).map(|(begin, _)| begin);
        if let Some(e) = self.queues.first_begun(cpu) {
            let vcpu = self.vcpu(e);
            let end = now + (vcpu.slice - vcpu.used);
            return (Some((e, Dispatch::Slice)), next.map_or(end, |next| end.min(next)));
        }
        let Some(next) = next else { return (None, now.saturating_add(IDLE)) };
        if next.since(now) < self.settings.quantum {
            return (None, next);
        }
        let penalty = self.queues.first_penalty(cpu).map(|e| (e, Dispatch::Penalty));
        let extra = penalty.or_else(|| self.queues.first_utilisation(cpu).map(|e| (e, Dispatch::Utilisation)));
        (extra, if extra.is_some() { now + self.settings.quantum } else { next })
    }

    // ---- Changes ----

    /// Converts the reservation or the weight in `params` to a request.
    fn request(&self, params: &Params) -> Result<Request, Refused> {
        let Settings { unreserved, weight_period, reserved_by_utilisation, .. } = self.settings;
        let weight = params.weight;
        match params.reservation {
            Some(reservation) => Request::reserved(&reservation, reserved_by_utilisation, weight),
            None => Ok(Request::unreserved(weight_period, unreserved == Unreserved::ExtraWeight, weight)),
        }
    }

    /// With `unreserved = slices`, distributes the unreserved time on `cpu` by weight.
    fn deal_slices(&mut self, cpu: CpuId) {
        let Settings { unreserved, weight_period, weight_safety, .. } = self.settings;
        if unreserved != Unreserved::Slices {
            return;
        }
        let (mut reserved, mut weights) = (Nanos::ZERO, 0);
        for Vcpu { request, .. } in self.vcpus.iter().flatten().filter(|vcpu| vcpu.home == cpu) {
            if request.reserved {
                reserved += weight_period.scale(request.slice.as_ns(), request.period.as_ns());
            } else {
                weights += u64::from(request.weight.as_linux());
            }
        }
        let left = weight_period.saturating_sub(weight_safety).saturating_sub(reserved);
        for vcpu in self.vcpus.iter_mut().flatten().filter(|vcpu| vcpu.home == cpu && !vcpu.request.reserved) {
            vcpu.request.slice = left.scale(vcpu.request.weight.as_linux().into(), weights);
            vcpu.slice = vcpu.request.slice.scale(vcpu.period.as_ns(), vcpu.request.period.as_ns());
        }
    }

    /// Moves `e`, whose affinity excludes its CPU, to another CPU.
    fn move_home(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let waits = cx.state(e) == State::Waiting;
        if waits {
            self.dequeue(e);
        }
        let old = self.vcpu(e).home;
        self.homes.leave(old);
        let home = self.homes.settle(e, cx);
        self.vcpu_mut(e).home = home;
        self.deal_slices(old);
        self.deal_slices(home);
        // A running entity moves when it stops.
        if waits {
            self.unblock(e, cx);
        }
    }

    /// Enqueues `e` again after a change of its parameters. An entity that runs on a CPU other than its home is
    /// enqueued on its home when it stops.
    fn resort(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let running = match cx.state(e) {
            State::Blocked => return,
            State::Running(cpu) if cpu != self.vcpu(e).home => return,
            State::Running(_) => true,
            State::Waiting => false,
        };
        let vcpu = *self.vcpu(e);
        self.queues.leave_periods(e);
        if running && vcpu.dispatch == Dispatch::Slice {
            self.queues.push_begun(vcpu.home, vcpu.deadline, e);
        } else {
            self.queue_period(e, cx.now());
        }
        let queued = self.queues.wants_utilisation(e);
        if vcpu.request.extra && !queued {
            self.queue_utilisation(e);
        } else if !vcpu.request.extra && queued && !(running && vcpu.dispatch == Dispatch::Utilisation) {
            self.leave_utilisation(e);
        }
        if cx.running(vcpu.home) != Running::Above {
            cx.kick(vcpu.home);
        }
    }
}

impl Policy for Sedf {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let request = self.request(cx.params(e))?;
        let home = self.homes.settle(e, cx);
        if self.vcpus.len() <= e.index() {
            self.vcpus.resize(e.index() + 1, None);
        }
        self.vcpus[e.index()] = Some(Vcpu::new(home, request));
        self.queues.reserve(e);
        self.deal_slices(home);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        let home = self.vcpu(e).home;
        self.homes.leave(home);
        self.vcpus[e.index()] = None;
        self.deal_slices(home);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let request = self.request(&params)?;
        let changed = Ok(&request) != self.request(old).as_ref();
        if changed {
            let vcpu = self.vcpu_mut(e);
            (vcpu.request, vcpu.period, vcpu.slice) = (request, request.period, request.slice);
        }
        let home = self.vcpu(e).home;
        if changed {
            self.deal_slices(home);
        }
        if !params.affinity.contains(home) {
            self.move_home(e, cx);
        } else if changed {
            self.resort(e, cx);
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.unblock(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.dequeue(e);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.vcpu_mut(e).ran += ran;
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Cpu(cpu) = alarm.owner else { unreachable!("only CPUs have alarms here") };
        if matches!(cx.running(cpu), Running::Idle | Running::Below) {
            cx.kick(cpu);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        let stays = self.vcpu(e).home == cpu;
        let runnable = prev.why != StopReason::Blocked && stays;
        if !runnable {
            self.vcpu_mut(e).blocked_at = Some(cx.now());
        }
        match self.vcpu(e).dispatch {
            Dispatch::Slice => self.end_slice(e, runnable),
            Dispatch::Penalty | Dispatch::Utilisation => self.end_extra(e, cpu, runnable),
        }
        // An entity that moves blocks on one CPU and wakes on the other CPU.
        if prev.why != StopReason::Blocked && !stays {
            self.unblock(e, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let now = cx.now();
        self.update(cpu, now);
        let (choice, until) = self.choose(cpu, now);
        self.expires[cpu.index()] = until;
        let Some((e, dispatch)) = choice else {
            // If no period is to come, the next wake-up kicks the CPU.
            match self.queues.first_to_come(cpu) {
                Some(_) => cx.set_alarm(period_timer(cpu), cpu, until),
                None => cx.clear_alarm(period_timer(cpu)),
            }
            return Decision::IDLE;
        };
        cx.clear_alarm(period_timer(cpu));
        let vcpu = self.vcpu_mut(e);
        (vcpu.dispatch, vcpu.ran) = (dispatch, Nanos::ZERO);
        Decision::until(e, until)
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        Some(self.vcpu(e).promise())
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let vcpu = self.vcpu(e);
        let extra = self.queues.utilisation_score(e).unwrap_or(vcpu.extra_score);
        let nanos = |time: Nanos| time.as_ns().cast_signed();
        let score = |score: Score| i64::try_from(score).unwrap_or(i64::MAX);
        show("deadline", vcpu.deadline.as_ns().cast_signed());
        show("period", nanos(vcpu.period));
        show("slice", nanos(vcpu.slice));
        show("used", nanos(vcpu.used));
        show("lost", nanos(vcpu.lost));
        show("wants-penalty", i64::from(vcpu.wants_penalty));
        show("penalty-score", score(vcpu.penalty_score));
        show("extra-score", score(extra));
    }
}
