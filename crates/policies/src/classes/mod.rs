//! [`Classes`]: an ordered set of scheduling classes, as in Linux: stop, deadline, real-time, and a class below.
//! The policies `deadline`, `rt` and `linux` are built from [`Classes`].
//!
//! On every CPU, the most urgent class picks first. If that class has no entity for the CPU, the next class picks. When
//! a class takes a CPU, the classes below it, except a fair class, are notified. They can then move their waiting
//! entities to other CPUs. An entity that changes class leaves the old class as if the entity blocked, and enters the
//! new class as if the entity woke. A running entity that changes to a class above the last class continues to run. A
//! running entity that changes to the last class stops until it is picked.

mod background;
mod layer;
mod server;
mod stop;

pub(crate) use background::{Background, QUANTUM};
pub(crate) use layer::Layer;
pub(crate) use server::{FairServers, KNOBS as SERVER_KNOBS};
pub(crate) use stop::Stop;

use crate::deadline::Deadline;
use crate::rt::Rt;
use sched::{
    Alarm, AlarmBase, AlarmOwner, Class, CpuId, Cx, Decision, EntityId, GroupChange, GroupId, Held, Instant, Nanos,
    Notice, Params, Policy, Position, PromiseState, Refused, State, StopReason, Stopped, Topology, Wake,
};

/// A class of the composition; the most urgent class is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Stop,
    Deadline,
    Rt,
    Below,
}

/// The last class, below all others.
pub(crate) enum Below {
    /// A fair class as the last class.
    Fair(Box<dyn Policy>),
    /// Round robin as the last class.
    Background(Background),
}

impl Below {
    fn policy(&mut self) -> &mut dyn Policy {
        match self {
            Below::Fair(fair) => fair.as_mut(),
            Below::Background(background) => background,
        }
    }

    fn policy_ref(&self) -> &dyn Policy {
        match self {
            Below::Fair(fair) => fair.as_ref(),
            Below::Background(background) => background,
        }
    }
}

/// The first alarm slot of each class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bases {
    pub(crate) rt: AlarmBase,
    pub(crate) server: AlarmBase,
    pub(crate) below: AlarmBase,
}

/// The parts of a composition. An entity that requests a missing class belongs to the last class.
pub(crate) struct Parts {
    pub(crate) stop: Option<Stop>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) rt: Option<Rt>,
    pub(crate) servers: Option<FairServers>,
    pub(crate) below: Below,
    /// Whether an entity that returns to the last class is charged in this class for its CPU time in the classes above.
    pub(crate) boosts_pay: bool,
    pub(crate) bases: Bases,
}

/// The class of an entity.
#[derive(Clone, Copy, Debug)]
struct Member {
    level: Level,
    /// Whether the entity still runs for its previous class, while the last class treats the entity as blocked.
    joining: bool,
    /// Whether the entity was raised above the last class. `raised` is its CPU time since then.
    is_raised: bool,
    raised: Nanos,
}

impl Member {
    const fn new(level: Level) -> Member {
        Member { level, joining: false, is_raised: false, raised: Nanos::ZERO }
    }
}

/// The occupant of a CPU.
#[derive(Clone, Copy, Debug)]
struct Seat {
    level: Level,
    since: Instant,
}

/// The state of the composition.
pub(crate) struct Classes {
    parts: Parts,
    /// Class of each entity, by index.
    members: Vec<Member>,
    /// Occupant of each CPU.
    seats: Vec<Option<Seat>>,
}

impl Parts {
    fn policy(&mut self, level: Level) -> &mut dyn Policy {
        match level {
            Level::Below => self.below.policy(),
            _ => self.layer(level).expect("only a class that is present has members"),
        }
    }

    fn policy_ref(&self, level: Level) -> &dyn Policy {
        match level {
            Level::Stop => self.stop.as_ref().expect("it has members"),
            Level::Deadline => self.deadline.as_ref().expect("it has members"),
            Level::Rt => self.rt.as_ref().expect("it has members"),
            Level::Below => self.below.policy_ref(),
        }
    }

    fn layer(&mut self, level: Level) -> Option<&mut dyn Layer> {
        match level {
            Level::Stop => self.stop.as_mut().map(|stop| stop as &mut dyn Layer),
            Level::Deadline => self.deadline.as_mut().map(|deadline| deadline as &mut dyn Layer),
            Level::Rt => self.rt.as_mut().map(|rt| rt as &mut dyn Layer),
            Level::Below => None,
        }
    }

    fn base(&self, level: Level) -> AlarmBase {
        match level {
            Level::Stop | Level::Deadline => AlarmBase::default(),
            Level::Rt => self.bases.rt,
            Level::Below => self.bases.below,
        }
    }

    fn view<'a>(&self, level: Level, cx: &'a mut Cx<'_>) -> Cx<'a> {
        cx.as_class(level as u8, self.base(level))
    }

    fn server_view<'a>(&self, cx: &'a mut Cx<'_>) -> Cx<'a> {
        cx.as_class(Level::Below as u8, self.bases.server)
    }

    /// Returns the class that these parameters request, or the last class if that class is missing. A reservation
    /// requests the deadline class. If the real-time class is present, a reservation has this effect only for
    /// SCHED_OTHER.
    fn level_for(&self, params: &Params) -> Level {
        let reserved = params.reservation.is_some() && (self.rt.is_none() || params.class == Class::Normal);
        if params.class == Class::Stop && self.stop.is_some() {
            Level::Stop
        } else if reserved && self.deadline.is_some() {
            Level::Deadline
        } else if params.class.rt_priority().is_some() && self.rt.is_some() {
            Level::Rt
        } else {
            Level::Below
        }
    }

    /// Reports to the classes below `by`, except a fair class, that `by` takes `cpu`.
    fn take(&mut self, cpu: CpuId, by: Level, cx: &mut Cx<'_>) {
        for level in [Level::Deadline, Level::Rt].into_iter().filter(|&level| level > by) {
            let view = &mut self.view(level, cx);
            if let Some(layer) = self.layer(level) {
                layer.take(cpu, view);
            }
        }
        if let Below::Background(background) = &mut self.below {
            background.take(cpu, &mut cx.as_class(Level::Below as u8, self.bases.below));
        }
    }
}

impl Classes {
    pub(crate) fn new(host: &Topology, parts: Parts) -> Classes {
        Classes { parts, members: Vec::new(), seats: vec![None; host.cpus] }
    }

    fn member(&self, e: EntityId) -> Member {
        self.members[e.index()]
    }

    /// Returns the class of `e`, and the view of the machine for that class.
    fn class_of<'a>(&mut self, e: EntityId, cx: &'a mut Cx<'_>) -> (&mut dyn Policy, Cx<'a>) {
        let Member { level, .. } = self.member(e);
        let view = self.parts.view(level, cx);
        (self.parts.policy(level), view)
    }

    fn enter(&mut self, e: EntityId, level: Level, joining: bool, cx: &mut Cx<'_>) {
        let before = self.member(e);
        let (is_raised, raised) = match (before.level, level) {
            (_, Level::Below) => (false, Nanos::ZERO),
            (Level::Below, _) => (true, Nanos::ZERO),
            _ => (before.is_raised, before.raised),
        };
        self.members[e.index()] = Member { level, joining, is_raised, raised };
        // While `e` joins, the last class must not regard `e` as its own running entity.
        cx.classify(e, if joining { Level::Stop } else { level } as u8);
    }

    // ---- Changes of class ----

    fn change_class(&mut self, e: EntityId, to: Level, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let view = &mut self.parts.view(to, cx);
        self.parts.policy(to).attach(e, view)?;
        self.leave(e, cx);
        let Member { is_raised, raised, .. } = self.member(e);
        if to == Level::Below && is_raised && self.parts.boosts_pay {
            let view = &mut self.parts.view(to, cx);
            self.parts.policy(to).owe(e, raised, view);
        }
        match (to, cx.state(e)) {
            (Level::Below, State::Running(cpu)) => {
                self.enter(e, to, true, cx);
                cx.kick(cpu);
            }
            (_, State::Running(cpu)) => {
                self.enter(e, to, false, cx);
                self.seats[cpu.index()] = Some(Seat { level: to, since: cx.now() });
                let view = &mut self.parts.view(to, cx);
                self.parts.layer(to).expect("only the last class is not a layer").adopt(e, cpu, view);
            }
            (_, State::Waiting) => {
                self.enter(e, to, false, cx);
                self.wake_in_class(e, Wake::Resumed, cx);
            }
            (_, State::Blocked) => self.enter(e, to, false, cx),
        }
        Ok(())
    }

    /// Removes `e` from its class as if the entity blocked.
    fn leave(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Member { level, joining, .. } = self.member(e);
        match cx.state(e) {
            State::Blocked => {}
            _ if joining => {}
            State::Waiting => self.sleep(e, cx),
            State::Running(cpu) => self.put(cpu, Stopped { entity: e, why: StopReason::Blocked }, cx),
        }
        let view = &mut self.parts.view(level, cx);
        self.parts.policy(level).detach(e, view);
        // A hold of the old class does not apply in the new class.
        for held in Held::ALL {
            cx.release(e, held);
        }
    }

    fn wake_in_class(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        if self.member(e).level == Level::Below {
            self.count_runnable(true, cx);
        }
        let level = self.member(e).level;
        // A parent of another class is omitted.
        let why = match why {
            Wake::New { parent } => Wake::New { parent: parent.filter(|&parent| self.member(parent).level == level) },
            other => other,
        };
        let (class, mut view) = self.class_of(e, cx);
        class.wake(e, why, &mut view);
    }

    // ---- Fair servers ----

    fn count_runnable(&mut self, comes: bool, cx: &mut Cx<'_>) {
        let view = &mut self.parts.server_view(cx);
        match (&mut self.parts.servers, comes) {
            (Some(servers), true) => servers.add_runnable(view),
            (Some(servers), false) => servers.remove_runnable(view),
            (None, _) => {}
        }
    }

    /// Records that `e` no longer occupies `cpu`.
    fn vacate(&mut self, cpu: CpuId, e: EntityId, cx: &mut Cx<'_>) {
        let Some(Seat { level, since }) = self.seats[cpu.index()].take() else { return };
        let member = &mut self.members[e.index()];
        if member.is_raised {
            member.raised += cx.now().since(since);
        }
        let view = &mut self.parts.server_view(cx);
        match (level, &mut self.parts) {
            (Level::Below, Parts { servers: Some(servers), .. }) => servers.ceases_to_run(cpu, view),
            (Level::Deadline, Parts { rt: Some(rt), bases, .. }) => {
                let now = view.now();
                rt.count_above(cpu, now.since(since), &cx.as_class(Level::Rt as u8, bases.rt));
            }
            _ => {}
        }
    }

    fn occupy(&mut self, cpu: CpuId, level: Level, cx: &mut Cx<'_>) {
        self.seats[cpu.index()] = Some(Seat { level, since: cx.now() });
        match &mut self.parts.servers {
            Some(servers) if level == Level::Below => servers.begins_to_run(cpu, cx.now()),
            _ => {}
        }
    }

    /// Picks a fair task for `cpu`, on which the fair server competes at `deadline`. If no fair task waits, the server
    /// gives up its budget.
    fn pick_served(&mut self, cpu: CpuId, deadline: Instant, cx: &mut Cx<'_>) -> Decision {
        let view = &mut self.parts.view(Level::Below, cx);
        let slice = self.parts.below.policy().pick(cpu, view);
        let server_view = &mut self.parts.server_view(cx);
        let servers = self.parts.servers.as_mut().expect("only a server sets a deadline");
        if slice.run.is_none() {
            servers.give_up_budget(cpu, server_view);
            return slice;
        }
        let until = servers.end(cpu, server_view.now()).min(slice.until);
        let view = &mut self.parts.view(Level::Deadline, cx);
        if let Some(class) = &mut self.parts.deadline {
            class.take_at(cpu, deadline, view);
        }
        self.parts.take(cpu, Level::Deadline, cx);
        Decision { until, ..slice }
    }

    /// Returns the decision for `cpu`, and the class of the entity.
    fn choose(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> (Level, Decision) {
        let served = self.parts.servers.as_ref().and_then(|servers| servers.deadline(cpu));
        for level in [Level::Stop, Level::Deadline, Level::Rt] {
            let view = &mut self.parts.view(level, cx);
            let slice = match (level, &mut self.parts) {
                (Level::Deadline, Parts { deadline: Some(class), .. }) => class.pick_before(cpu, served, view),
                (_, parts) => parts.layer(level).map_or(Decision::IDLE, |layer| layer.pick(cpu, view)),
            };
            if slice.run.is_some() {
                self.parts.take(cpu, level, cx);
                return (level, slice);
            }
            if let (Level::Deadline, Some(deadline)) = (level, served) {
                let slice = self.pick_served(cpu, deadline, cx);
                if slice.run.is_some() {
                    return (Level::Below, slice);
                }
                return self.choose(cpu, cx); // The server has given up its budget.
            }
        }
        let view = &mut self.parts.view(Level::Below, cx);
        (Level::Below, self.parts.below.policy().pick(cpu, view))
    }
}

impl Policy for Classes {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let level = self.parts.level_for(cx.params(e));
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, Member::new(level));
        }
        self.members[e.index()] = Member::new(level);
        self.enter(e, level, false, cx);
        let (class, mut view) = self.class_of(e, cx);
        class.attach(e, &mut view)
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let (class, mut view) = self.class_of(e, cx);
        class.detach(e, &mut view);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let to = self.parts.level_for(cx.params(e));
        if to != self.member(e).level {
            return self.change_class(e, to, cx);
        }
        let (class, mut view) = self.class_of(e, cx);
        class.adjust(e, old, &mut view)
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let view = &mut self.parts.view(Level::Below, cx);
        self.parts.below.policy().group(g, change, view)
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        self.wake_in_class(e, why, cx);
    }

    fn event(&mut self, e: EntityId, what: Notice, cx: &mut Cx<'_>) {
        if !self.member(e).joining {
            let (class, mut view) = self.class_of(e, cx);
            class.event(e, what, &mut view);
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.member(e).level == Level::Below {
            self.count_runnable(false, cx);
        }
        let (class, mut view) = self.class_of(e, cx);
        class.sleep(e, &mut view);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        if !self.member(e).joining {
            let (class, mut view) = self.class_of(e, cx);
            class.charge(e, ran, &mut view);
        }
    }

    fn yield_to(&mut self, from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        let below = |e| matches!(self.member(e), Member { level: Level::Below, joining: false, .. });
        if !below(from) || !below(to) {
            return false;
        }
        let view = &mut self.parts.view(Level::Below, cx);
        self.parts.below.policy().yield_to(from, to, view)
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let slot_of = |base: AlarmBase| match alarm.owner {
            AlarmOwner::Policy => base.policy,
            AlarmOwner::Cpu(_) => base.cpu,
            AlarmOwner::Entity(_) => base.entity,
            AlarmOwner::Group(_) => base.group,
        };
        let Bases { rt, server, below } = self.parts.bases;
        let from = |base| alarm.slot.checked_sub(slot_of(base)).map(|slot| Alarm { slot, ..alarm });
        if let Some(alarm) = from(below) {
            let view = &mut self.parts.view(Level::Below, cx);
            return self.parts.below.policy().alarm(alarm, view);
        }
        let server_view = &mut self.parts.server_view(cx);
        if let (AlarmOwner::Cpu(cpu), Some(_), Some(servers)) = (alarm.owner, from(server), &mut self.parts.servers) {
            return servers.ring(cpu, server_view);
        }
        let real_time = self.parts.rt.is_some() && !matches!(alarm.owner, AlarmOwner::Entity(_));
        let (level, alarm) = match from(rt).filter(|_| real_time) {
            Some(alarm) => (Level::Rt, alarm),
            None => (Level::Deadline, alarm),
        };
        let view = &mut self.parts.view(level, cx);
        self.parts.policy(level).alarm(alarm, view);
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        let view = &mut self.parts.view(Level::Below, cx);
        self.parts.below.policy().plan(view);
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.vacate(cpu, e, cx);
        let Member { level, joining, .. } = self.member(e);
        if joining {
            self.enter(e, level, false, cx);
            if prev.why != StopReason::Blocked {
                self.wake_in_class(e, Wake::Resumed, cx);
            }
            return;
        }
        if level == Level::Below && prev.why == StopReason::Blocked {
            self.count_runnable(false, cx);
        }
        let (class, mut view) = self.class_of(e, cx);
        class.put(cpu, prev, &mut view);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let (level, slice) = self.choose(cpu, cx);
        if slice.run.is_some() {
            self.occupy(cpu, level, cx);
        }
        slice
    }

    fn interactive(&self, e: EntityId) -> bool {
        self.parts.policy_ref(self.member(e).level).interactive(e)
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.parts.policy_ref(self.member(e).level).promise(e)
    }

    fn position(&self, e: EntityId) -> Option<Position> {
        self.parts.policy_ref(self.member(e).level).position(e)
    }

    fn credit(&self, e: EntityId) -> Option<i64> {
        self.parts.policy_ref(self.member(e).level).credit(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.parts.policy_ref(self.member(e).level).inspect(e, show);
    }
}
