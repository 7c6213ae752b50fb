//! Servers under a global or a partitioned queue: what `rtds` and `rt-xen` are made of.
//!
//! Everybody has a [`Server`]: a budget in every period. The most urgent that has budget runs: by deadline, or by fixed
//! priority; on levels, one for each time the budget was used up in the period, where that is allowed.

mod account;
mod gate;
#[cfg(test)]
mod tests;

pub(crate) use account::{Kind, Server};

use crate::admission::Utilisation;
use gate::Gate;
use sched::queue::Trees;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, CpuSet, Cx, Decision, EntityId, Held, Instant, Knob, Limit,
    LoadBounds, Nanos, Params, Policy, PromiseState, Refused, Reservation, Running, State, StopReason, Stopped,
    Topology, Wake,
};

/// The alarms it uses.
pub(crate) const ALARMS: AlarmSlots = AlarmSlots { entity: &[AlarmKind::Timer], ..AlarmSlots::NONE };
/// The shortest period and budget. Source: `RTDS_MIN_PERIOD`, `RTDS_MIN_BUDGET`, xen/common/sched/rt.c.
const SHORTEST: Nanos = Nanos::us(10);

/// Who is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Whose deadline comes first.
    EarliestDeadline,
    /// Whose deadline comes sooner after the beginning of its period.
    DeadlineMonotonic,
}

/// Who goes on where two are equally urgent and one of them has just run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ties {
    /// The other.
    Turn,
    /// Who has just run.
    Stay,
}

/// When the first period of who asks for no start begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grid {
    /// When it comes.
    Seen,
    /// When the machine starts.
    Boot,
}

/// What the policies over it choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    /// Whether each entity has a CPU of its own.
    pub(crate) partitioned: bool,
    /// Whether who asks for a soft limit goes on when its budget is used up.
    pub(crate) extratime: bool,
    /// How long anybody runs without another look; zero: as long as its budget.
    pub(crate) quantum: Nanos,
    /// Whether a deadline before the end of the period means anything.
    pub(crate) constrained: bool,
    /// What who asks for nothing has.
    pub(crate) default_period: Nanos,
    pub(crate) default_budget: Nanos,
    pub(crate) ties: Ties,
    pub(crate) grid: Grid,
    /// Whether what does not fit is refused.
    pub(crate) closed: bool,
}

pub(crate) const EXTRATIME: &str = "whether who has a soft limit goes on when its budget is used up";

pub(crate) const GRID: Knob = Knob::choice(
    "grid",
    &["seen", "boot"],
    "whether periods are counted from when somebody comes, or from the machine's start",
)
.from("boot: rt_update_deadline, xen/common/sched/rt.c, and RT-Xen 2, where deadlines count from 0");
pub(crate) const ADMISSION: Knob =
    Knob::switch("admission", false, "whether who asks for more than there is left is refused")
        .from("on: rt_try_set_utilization, Xen at 04584da792 (not at c447b7308b); RT-Xen: an analysis beforehand");
pub(crate) const DEFAULT_PERIOD: Knob =
    Knob::time("default-period", Nanos::ms(10), (Nanos::us(10), Nanos::s(10)), "the period of who asks for nothing")
        .from("RTDS_DEFAULT_PERIOD, xen/common/sched/rt.c");
pub(crate) const DEFAULT_BUDGET: Knob =
    Knob::time("default-budget", Nanos::ms(4), (Nanos::us(10), Nanos::s(10)), "the budget of who asks for nothing")
        .from("RTDS_DEFAULT_BUDGET, xen/common/sched/rt.c");

/// Every budget in every period, on one CPU each, where nobody asked for too much and everybody wants to run from when
/// all have come. Who rests defers its budget, or waits for the grid; a sporadic budget has no periods.
pub(crate) fn reservations(load: &LoadBounds<'_>, settings: &Settings) -> Option<Nanos> {
    let steady = !load.has_changes && !load.has_sleepers;
    let own_cpu = settings.partitioned || load.host.cpus == 1;
    let periods = settings.grid == Grid::Seen && settings.kind != Kind::Sporadic;
    (settings.closed && steady && own_cpu && periods).then_some(Nanos::ZERO)
}

/// Urgency: the level, then the deadline, then who came first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    level: u32,
    order: u64,
    arrival: u64,
}

/// An entity's server, and the CPU it is bound to.
#[derive(Clone, Copy, Debug)]
struct Member {
    server: Server,
    cpu: Option<CpuId>,
    asked: Reservation,
    /// Its budget in relation to the time it has for it.
    density: Utilisation,
    /// Whether it is attached.
    open: bool,
    /// Whether it may not run on every CPU.
    restricted: bool,
}

/// A scheduler of servers.
#[derive(Debug)]
pub(crate) struct Servers {
    settings: Settings,
    /// By entity.
    members: Vec<Member>,
    /// Who waits with budget: one queue, or one for each CPU.
    waiting: Trees<Key>,
    arrivals: u64,
    gate: Gate,
    /// By CPU: the densities of those bound to it, in parts of one CPU.
    load: Vec<u64>,
    /// By CPU: who has just been stopped there, and may go on.
    stopped: Vec<Option<EntityId>>,
    /// How many may not run on every CPU.
    restricted: usize,
}

const fn renewal(e: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot: 0 }
}

impl Servers {
    pub(crate) fn new(host: &Topology, settings: Settings) -> Servers {
        let queues = if settings.partitioned { host.cpus } else { 1 };
        Servers {
            gate: Gate::new(host, &settings),
            settings,
            members: Vec::new(),
            waiting: Trees::new(queues),
            arrivals: 0,
            load: vec![0; host.cpus],
            stopped: vec![None; host.cpus],
            restricted: 0,
        }
    }

    fn server(&mut self, e: EntityId) -> &mut Server {
        &mut self.members[e.index()].server
    }

    // ---- Membership ----

    /// What `params` asks for, or what who asks for nothing has.
    fn asked(&self, params: &Params) -> Result<Reservation, Refused> {
        let Settings { default_period, default_budget, .. } = self.settings;
        let asked = params.reservation.unwrap_or(Reservation {
            limit: Limit::Soft,
            ..Reservation::new(default_budget.min(default_period), default_period)
        });
        if asked.slice < SHORTEST {
            return Err(Refused::OutOfRange { what: "slice", least: SHORTEST, most: asked.period });
        }
        if asked.deadline.is_some_and(|deadline| deadline < asked.period) && !self.settings.constrained {
            return Err(Refused::Unsupported {
                reason: "a deadline before the end of the period means nothing to this policy",
                remedy: "leave the deadline out, or use rt-xen",
            });
        }
        Ok(asked)
    }

    fn member(&self, params: &Params, now: Instant) -> Result<Member, Refused> {
        let asked = self.asked(params)?;
        let Settings { kind, extratime, grid, .. } = self.settings;
        let begin = match (asked.start, grid) {
            (Some(start), _) => start.max(now),
            (None, Grid::Seen) => now,
            (None, Grid::Boot) => Instant::at_ns(now.as_ns() / asked.period.as_ns() * asked.period.as_ns()),
        };
        let server = Server::new(kind, &asked, extratime, begin, now);
        let density = Utilisation::density(&asked);
        Ok(Member { server, cpu: None, asked, density, open: true, restricted: false })
    }

    /// Lets `member` in as the server of `e`, which is not in; partitioned, on the CPU of those it may run on on which
    /// the least is asked for, if it fits there.
    fn admit(&mut self, e: EntityId, member: &mut Member, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let allowed = cx.params(e).affinity.and(&cx.topology().all());
        let least = allowed.iter().min_by_key(|cpu| (self.load[cpu.index()], cpu.index()));
        let least = least.expect("everybody may run somewhere");
        let members = &self.members;
        let others = |cpu: Option<CpuId>| {
            let others = members.iter().enumerate().filter(move |&(index, _)| index != e.index());
            others.filter(move |(_, other)| other.open && other.cpu == cpu).map(|(_, other)| &other.density)
        };
        member.cpu = self.gate.admit(&member.asked, least, &allowed, others)?;
        Ok(())
    }

    /// `member`, just let in, is the server of `e`.
    fn enter(&mut self, e: EntityId, mut member: Member, cx: &mut Cx<'_>) {
        match member.cpu {
            Some(cpu) => {
                self.load[cpu.index()] += member.density.units();
                cx.confine(e, &CpuSet::one(cpu));
            }
            None => {
                member.restricted = !cx.may_run_anywhere(e);
                self.restricted += usize::from(member.restricted);
            }
        }
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, member);
        }
        self.members[e.index()] = member;
    }

    /// The server of `e` goes.
    fn leave(&mut self, e: EntityId) {
        let Member { cpu, density, restricted, open, .. } = &mut self.members[e.index()];
        *open = false;
        self.restricted -= usize::from(std::mem::take(restricted));
        if let Some(cpu) = cpu {
            self.load[cpu.index()] -= density.units();
        }
        self.gate.release(*density, *cpu);
    }

    // ---- Queueing ----

    fn queue(&self, e: EntityId) -> usize {
        self.members[e.index()].cpu.map_or(0, CpuId::index)
    }

    /// Level and order: without the arrival, what preempts what.
    fn urgency(&self, e: EntityId) -> (u32, u64) {
        let server = &self.members[e.index()].server;
        let order = match self.settings.order {
            Order::EarliestDeadline => server.deadline.as_ns(),
            Order::DeadlineMonotonic => server.relative_deadline().as_ns(),
        };
        (server.level, order)
    }

    /// `e` is runnable and does not run.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.members[e.index()].server.depleted {
            return cx.hold(e, Held::Depleted);
        }
        self.arrivals += 1;
        let (level, order) = self.urgency(e);
        self.waiting.push(self.queue(e), Key { level, order, arrival: self.arrivals }, e);
        self.tickle(e, cx);
    }

    fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.waiting.remove(e);
        if cx.is_held(e) {
            cx.release(e, Held::Depleted);
        }
    }

    /// Calls a CPU for `e`, which waits: an idle one, its last if that is; else the one that runs the least urgent, if that is
    /// less urgent than `e`.
    fn tickle(&self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(idle) = cx.idle_cpu_for(e) {
            return cx.kick(idle);
        }
        let mine = self.urgency(e);
        let runs = |cpu: CpuId| match cx.running(cpu) {
            Running::Mine { entity, .. } => Some((self.urgency(entity), cpu)),
            Running::Below => Some(((u32::MAX, u64::MAX), cpu)),
            Running::Idle | Running::Above => None,
        };
        let open = cx.topology().iter().filter(|&cpu| cx.may_run(e, cpu) && !cx.kicked(cpu));
        let least = open.filter_map(runs).max_by_key(|&(urgency, _)| urgency);
        if let Some((_, cpu)) = least.filter(|&(urgency, _)| urgency > mine) {
            cx.kick(cpu);
        }
    }

    /// `picking` may have been called for somebody and have taken another, who may run elsewhere: an idle CPU that somebody
    /// who waits may run on is called.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if !cx.topology().iter().any(idle) {
            return;
        }
        if let Some(idle) = self.waiting.iter(0).find_map(|(_, e)| cx.idle_cpu_for(e)) {
            cx.kick(idle);
        }
    }

    /// Sets the alarm for when the server of `e`, which is runnable, must be looked at again.
    fn arm(&self, e: EntityId, cx: &mut Cx<'_>) {
        match self.members[e.index()].server.next_event().filter(|&at| at != Instant::NEVER) {
            Some(at) => cx.set_alarm(renewal(e), cx.last_cpu(e), at.max(cx.now() + Nanos::ns(1))),
            None => cx.clear_alarm(renewal(e)),
        }
    }

    /// `e` is blocked from now on.
    fn rest(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.server(e).block(cx.now());
        cx.clear_alarm(renewal(e));
    }
}

impl Policy for Servers {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let mut member = self.member(cx.params(e), cx.now())?;
        self.admit(e, &mut member, cx)?;
        self.enter(e, member, cx);
        self.waiting.reserve(e, Key { level: 0, order: 0, arrival: 0 });
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.stopped.iter_mut().for_each(|stopped| *stopped = stopped.filter(|&other| other != e));
        self.leave(e);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let new = *cx.params(e);
        if old.reservation == new.reservation && old.affinity == new.affinity {
            return Ok(());
        }
        let before = self.members[e.index()];
        let mut member = self.member(&new, cx.now())?;
        if old.reservation == new.reservation {
            member.server = before.server;
        }
        self.leave(e);
        if let Err(refused) = self.admit(e, &mut member, cx) {
            self.members[e.index()] = before;
            self.restricted += usize::from(before.restricted);
            if let Some(cpu) = before.cpu {
                self.load[cpu.index()] += before.density.units();
            }
            self.gate.restore(before.density, before.cpu);
            return Err(refused);
        }
        if cx.state(e) == State::Waiting {
            self.dequeue(e, cx);
        }
        self.enter(e, member, cx);
        match cx.state(e) {
            State::Blocked => return Ok(()),
            State::Waiting => self.enqueue(e, cx),
            State::Running(cpu) => cx.kick(cpu),
        }
        self.arm(e, cx);
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.server(e).wake(now);
        self.arm(e, cx);
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, cx);
        self.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.server(e).charge(ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Entity(e) = alarm.owner else { unreachable!("only entities have alarms here") };
        let (now, state) = (cx.now(), cx.state(e));
        match state {
            State::Running(cpu) => {
                if let Some((e, ran)) = cx.take_ran(cpu) {
                    self.server(e).charge(ran);
                }
                cx.kick(cpu);
            }
            State::Waiting => self.dequeue(e, cx),
            State::Blocked => unreachable!("{e} is blocked and its alarm is cleared"),
        }
        self.server(e).renew_at(now);
        self.arm(e, cx);
        if state == State::Waiting {
            self.enqueue(e, cx);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        if prev.why == StopReason::Blocked {
            return self.rest(prev.entity, cx);
        }
        let stays = self.settings.ties == Ties::Stay && prev.why != StopReason::Yielded;
        self.stopped[cpu.index()] = stays.then_some(prev.entity);
        self.arm(prev.entity, cx);
        self.enqueue(prev.entity, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let queue = if self.settings.partitioned { cpu.index() } else { 0 };
        let mut chosen = self.waiting.iter(queue).map(|(_, e)| e).find(|&e| cx.may_run(e, cpu));
        if let (Some(first), Some(last)) = (chosen, self.stopped[cpu.index()].take()) {
            let goes_on = self.waiting.contains(last) && cx.may_run(last, cpu);
            chosen = Some(if goes_on && self.urgency(last) <= self.urgency(first) { last } else { first });
        }
        if let Some(e) = chosen {
            self.waiting.remove(e);
        }
        if self.restricted > 0 {
            self.call_for_stranded(cpu, cx);
        }
        let Some(e) = chosen else { return Decision::IDLE };
        let left = self.members[e.index()].server.left().max(Nanos::ns(1));
        let most = if self.settings.quantum.is_zero() { left } else { left.min(self.settings.quantum) };
        Decision::until(e, cx.now() + most)
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        Some(self.members[e.index()].server.promise())
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let server = &self.members[e.index()].server;
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        show("budget", signed(server.left().as_ns()));
        show("deadline", signed(server.deadline.as_ns()));
        show("level", i64::from(server.level));
    }
}
