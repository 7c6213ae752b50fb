//! Linux: the real-time classes over a fair one.
//!
//! A task is in one class at a time, by what is asked for it: SCHED_FIFO and SCHED_RR are real-time, all others fair. On
//! every CPU the real-time class is asked first who runs; the fair class gets what that leaves. A real-time task
//! preempts a fair one at once, wherever it wakes. Real-time throttling gives the fair class at least 50 ms of
//! every second of a CPU.
//!
//! ```text
//! one CPU, f and g fair, r FIFO every 10 ms for 4 ms
//! 0         10        20        30        40
//! rrrrggggffrrrrggggffrrrrffffggrrrrggggff
//! ```
//!
//! The rules of the classes are in `rt` and in the fair class, `cfs`. Between them there is only this:
//!
//! - Whoever changes class leaves the old one as if it blocked, and enters the new one as if it woke. Who runs meanwhile
//!   goes on as a real-time task at once; as a fair one, it has to be picked.
//! - Groups, weights and quotas are the fair class's; real-time tasks do not count in them.
//! - `yield_to` works within the fair class.
//!
//! SCHED_DEADLINE and the stop class are not here.
//!
//! Source: torvalds/linux kernel/sched/core.c, rt.c, v5.13; sched(7).

#[cfg(test)]
mod tests;

use crate::cfs as fair_class;
use crate::rt::{self, Rt};
use sched::{
    Alarm, AlarmBase, AlarmKind, AlarmSlots, Conserving, CpuId, Cx, Descriptor, EntityId, GroupChange, GroupId, Held,
    Host, Keeps, Knob, Knobs, Load, Nanos, Notice, Of, Params, Policy, Refused, Slice, State, Stopped, Wake, Why,
};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "linux",
    title: "SCHED_FIFO and SCHED_RR over the fair class, as in Linux v5.13",
    source: "Linux v5.13, kernel/sched/{core,rt,fair}.c; sched(7)",
    good_for: "what an ordinary Linux host or guest does, real-time tasks included",
    bad_at: "keeping promises to several who all ask for real-time priorities",
    text: include_str!("mod.rs"),
    conserving,
    starvation,
    // Real-time tasks have no quota.
    keeps: Keeps { quota: |load| if load.has_rt { None } else { (FAIR.keeps.quota)(load) }, ..Keeps::NOTHING },
    alarms: AlarmSlots {
        policy: &POLICY_ALARMS,
        cpu: &CPU_ALARMS,
        entity: FAIR.alarms.entity,
        group: FAIR.alarms.group,
    },
    knobs: &KNOBS,
    build,
};

const FAIR: Descriptor = fair_class::POLICY;

/// The real-time class's knobs, then the fair class's.
const KNOBS: [Knob; rt::KNOBS.len() + FAIR.knobs.len()] = concat(rt::KNOBS, FAIR.knobs);
const POLICY_ALARMS: [AlarmKind; rt::ALARMS.policy.len() + FAIR.alarms.policy.len()] =
    concat(rt::ALARMS.policy, FAIR.alarms.policy);
const CPU_ALARMS: [AlarmKind; rt::ALARMS.cpu.len() + FAIR.alarms.cpu.len()] = concat(rt::ALARMS.cpu, FAIR.alarms.cpu);

const RT: u8 = 0;
const FAIR_BELOW: u8 = 1;

/// Where the fair class's alarm slots begin.
const BASE: AlarmBase = AlarmBase { policy: count(rt::ALARMS.policy), cpu: count(rt::ALARMS.cpu), entity: 0, group: 0 };

/// `first`, which is not empty, and `second`.
const fn concat<T: Copy, const N: usize>(first: &[T], second: &[T]) -> [T; N] {
    assert!(first.len() + second.len() == N, "the lengths add up");
    let mut all = [first[0]; N];
    let mut n = 1;
    while n < N {
        all[n] = if n < first.len() { first[n] } else { second[n - first.len()] };
        n += 1;
    }
    all
}

const fn count(slots: &[AlarmKind]) -> u8 {
    assert!(slots.len() < 256, "slots are numbered in 8 bits");
    #[expect(clippy::cast_possible_truncation, reason = "just asserted")]
    let count = slots.len() as u8;
    count
}

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let fair = (FAIR.build)(host, knobs)?;
    Ok(Box::new(Linux { rt: Rt::new(host, knobs), fair, members: Vec::new() }))
}

/// The real-time class leaves no CPU idle, but one that is throttled, which is so to the end of the period: then a
/// real-time task may wait elsewhere, behind a more urgent one.
fn conserving(load: &Load<'_>) -> Conserving {
    let below = (FAIR.conserving)(load);
    if !load.has_rt || !rt::is_limited(load.knobs) {
        return below;
    }
    let (period, runtime) = (load.knobs.time("rt-period"), load.knobs.time("rt-runtime"));
    match below {
        // What is used beyond the runtime, a tick at most, is paid off in one period.
        Conserving::Global { slack } if runtime > load.knobs.time("tick") => {
            Conserving::Global { slack: slack.max(period) }
        }
        _ => Conserving::Never,
    }
}

/// Priorities are strict: only among fair tasks is there a bound.
fn starvation(load: &Load<'_>) -> Option<Nanos> {
    if load.has_rt { None } else { (FAIR.starvation)(load) }
}

/// The class an entity is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Rt,
    Fair,
    /// Fair, but still running where it ran as a real-time task; the fair class takes it for blocked.
    Joining,
}

struct Linux {
    rt: Rt,
    fair: Box<dyn Policy>,
    /// By entity.
    members: Vec<Member>,
}

fn rt_view<'a>(cx: &'a mut Cx<'_>) -> Cx<'a> {
    cx.as_class(RT, AlarmBase::default())
}

fn fair_view<'a>(cx: &'a mut Cx<'_>) -> Cx<'a> {
    cx.as_class(FAIR_BELOW, BASE)
}

impl Linux {
    fn member(&self, e: EntityId) -> Member {
        self.members[e.index()]
    }

    fn enter(&mut self, e: EntityId, member: Member, cx: &mut Cx<'_>) {
        self.members[e.index()] = member;
        cx.classify(e, if member == Member::Fair { FAIR_BELOW } else { RT });
    }

    /// A fair task becomes real-time.
    fn make_real_time(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.rt.attach(e, &mut rt_view(cx))?;
        let state = cx.state(e);
        let below = &mut fair_view(cx);
        match (state, self.member(e)) {
            (State::Waiting, _) => self.fair.sleep(e, below),
            (State::Running(cpu), Member::Fair) => {
                self.fair.put(cpu, Stopped { entity: e, why: Why::Blocked }, below);
            }
            _ => {}
        }
        self.fair.detach(e, below);
        // What held it there does not hold it here.
        for held in Held::ALL {
            cx.release(e, held);
        }
        self.enter(e, Member::Rt, cx);
        match state {
            State::Waiting => self.rt.wake(e, Wake::Resumed, &mut rt_view(cx)),
            State::Running(cpu) => {
                self.rt.adopt(e, cpu);
                cx.kick(cpu);
            }
            State::Blocked => {}
        }
        Ok(())
    }

    /// A real-time task becomes fair.
    fn make_fair(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.fair.attach(e, &mut fair_view(cx))?;
        let state = cx.state(e);
        let above = &mut rt_view(cx);
        match state {
            State::Waiting => self.rt.sleep(e, above),
            State::Running(cpu) => self.rt.put(cpu, Stopped { entity: e, why: Why::Blocked }, above),
            State::Blocked => {}
        }
        self.rt.detach(e, above);
        match state {
            State::Blocked => self.enter(e, Member::Fair, cx),
            State::Waiting => {
                self.enter(e, Member::Fair, cx);
                self.fair.wake(e, Wake::Resumed, &mut fair_view(cx));
            }
            State::Running(cpu) => {
                self.enter(e, Member::Joining, cx);
                cx.kick(cpu);
            }
        }
        Ok(())
    }
}

impl Policy for Linux {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, Member::Fair);
        }
        match cx.params(e).class.rt_priority() {
            Some(_) => {
                self.enter(e, Member::Rt, cx);
                self.rt.attach(e, &mut rt_view(cx))
            }
            None => {
                self.enter(e, Member::Fair, cx);
                self.fair.attach(e, &mut fair_view(cx))
            }
        }
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        match self.member(e) {
            Member::Rt => self.rt.detach(e, &mut rt_view(cx)),
            Member::Fair | Member::Joining => self.fair.detach(e, &mut fair_view(cx)),
        }
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        match (self.member(e), cx.params(e).class.rt_priority()) {
            (Member::Rt, Some(_)) => self.rt.adjust(e, old, &mut rt_view(cx)),
            (Member::Rt, None) => self.make_fair(e, cx),
            (Member::Fair | Member::Joining, Some(_)) => self.make_real_time(e, cx),
            (Member::Fair | Member::Joining, None) => self.fair.adjust(e, old, &mut fair_view(cx)),
        }
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.fair.group(g, change, &mut fair_view(cx))
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        match self.member(e) {
            Member::Rt => self.rt.wake(e, why, &mut rt_view(cx)),
            Member::Fair | Member::Joining => self.fair.wake(e, why, &mut fair_view(cx)),
        }
    }

    fn event(&mut self, e: EntityId, what: Notice, cx: &mut Cx<'_>) {
        if self.member(e) == Member::Fair {
            self.fair.event(e, what, &mut fair_view(cx));
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        match self.member(e) {
            Member::Rt => self.rt.sleep(e, &mut rt_view(cx)),
            Member::Fair | Member::Joining => self.fair.sleep(e, &mut fair_view(cx)),
        }
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        match self.member(e) {
            Member::Rt | Member::Joining => self.rt.charge(e, ran, &mut rt_view(cx)),
            Member::Fair => self.fair.charge(e, ran, &mut fair_view(cx)),
        }
    }

    fn yield_to(&mut self, from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        let fair = |e| self.member(e) == Member::Fair;
        fair(from) && fair(to) && self.fair.yield_to(from, to, &mut fair_view(cx))
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let base = match alarm.of {
            Of::Policy => BASE.policy,
            Of::Cpu(_) => BASE.cpu,
            Of::Entity(_) => BASE.entity,
            Of::Group(_) => BASE.group,
        };
        match alarm.slot.checked_sub(base) {
            None => self.rt.alarm(alarm, &mut rt_view(cx)),
            Some(slot) => self.fair.alarm(Alarm { slot, ..alarm }, &mut fair_view(cx)),
        }
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        self.fair.plan(&mut fair_view(cx));
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        match self.member(e) {
            Member::Rt => self.rt.put(cpu, prev, &mut rt_view(cx)),
            Member::Fair => self.fair.put(cpu, prev, &mut fair_view(cx)),
            Member::Joining => {
                self.enter(e, Member::Fair, cx);
                if prev.why != Why::Blocked {
                    self.fair.wake(e, Wake::Resumed, &mut fair_view(cx));
                }
            }
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Slice {
        let urgent = self.rt.pick(cpu, &mut rt_view(cx));
        if urgent.run.is_some() { urgent } else { self.fair.pick(cpu, &mut fair_view(cx)) }
    }

    fn interactive(&self, e: EntityId) -> bool {
        match self.member(e) {
            Member::Rt => self.rt.interactive(e),
            Member::Fair | Member::Joining => self.fair.interactive(e),
        }
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        match self.member(e) {
            Member::Rt => self.rt.inspect(e, show),
            Member::Fair | Member::Joining => self.fair.inspect(e, show),
        }
    }
}
