//! Servers with a global run queue or with one run queue per CPU: the common part of `rtds` and `rt-xen`.
//!
//! Each entity has a [`Server`]: a budget in every period. Among the entities with budget, the most urgent run, one per
//! CPU. Deadlines or fixed priorities determine urgency. With extra time, urgency depends first on the level. The level
//! is the number of times that the budget was used up in the period.

mod account;
mod gate;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use account::{Kind, Server};
pub(crate) use settings::{
    ADMISSION, DEFAULT_BUDGET, DEFAULT_PERIOD, EXTRATIME, GRID, Grid, Order, Settings, Ties, reservations,
};

use crate::admission::Utilisation;
use gate::Gate;
use sched::queue::Trees;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, CpuSet, Cx, Decision, EntityId, Held, Instant, Limit, Nanos,
    Params, Policy, PromiseState, Refused, Reservation, Running, State, StopReason, Stopped, Topology, Wake,
};

/// The alarm slots of the servers.
pub(crate) const ALARMS: AlarmSlots = AlarmSlots { entity: &[AlarmKind::Timer], ..AlarmSlots::NONE };
/// The minimum of periods and budgets. Source: `RTDS_MIN_PERIOD`, `RTDS_MIN_BUDGET`, xen/common/sched/rt.c.
const SHORTEST: Nanos = Nanos::us(10);

/// The urgency of a waiting entity: the level, then the deadline or relative deadline, then the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    level: u32,
    order: u64,
    arrival: u64,
}

/// The server of an entity, and the CPU to which the entity is assigned.
#[derive(Clone, Copy, Debug)]
struct Member {
    server: Server,
    cpu: Option<CpuId>,
    asked: Reservation,
    /// Density of the server: the budget divided by the relative deadline.
    density: Utilisation,
    /// Whether the entity is attached.
    open: bool,
    /// Whether the affinity of the entity excludes some CPU.
    restricted: bool,
}

/// The state of a scheduler of servers.
#[derive(Debug)]
pub(crate) struct Servers {
    settings: Settings,
    /// Server of each entity, by index.
    members: Vec<Member>,
    /// Waiting entities with budget, in one queue or in one queue per CPU.
    waiting: Trees<Key>,
    arrivals: u64,
    gate: Gate,
    /// Total density of the entities assigned to each CPU; `admission::ONE` is a whole CPU.
    load: Vec<u64>,
    /// For each CPU, the entity that has just stopped there and may continue.
    stopped: Vec<Option<EntityId>>,
    /// Number of entities whose affinity excludes some CPU.
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

    /// Returns the reservation in `params`, or the default reservation.
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

    /// Admits `member` as the server of `e`, which has no server. If servers are partitioned, tries the allowed CPU
    /// with the minimum total density first.
    fn admit(&mut self, e: EntityId, member: &mut Member, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let allowed = cx.params(e).affinity.and(&cx.topology().all());
        let least = allowed.iter().min_by_key(|cpu| (self.load[cpu.index()], cpu.index()));
        let least = least.expect("an affinity contains a CPU");
        let members = &self.members;
        let others = |cpu: Option<CpuId>| {
            let others = members.iter().enumerate().filter(move |&(index, _)| index != e.index());
            others.filter(move |(_, other)| other.open && other.cpu == cpu).map(|(_, other)| &other.density)
        };
        member.cpu = self.gate.admit(&member.asked, least, &allowed, others)?;
        Ok(())
    }

    /// Makes `member`, which was just admitted, the server of `e`.
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

    /// Removes the server of `e`.
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

    /// Returns the level and the order, without the arrival. Level and order decide on preemption.
    fn urgency(&self, e: EntityId) -> (u32, u64) {
        let server = &self.members[e.index()].server;
        let order = match self.settings.order {
            Order::EarliestDeadline => server.deadline.as_ns(),
            Order::DeadlineMonotonic => server.relative_deadline().as_ns(),
        };
        (server.level, order)
    }

    /// Enqueues `e`, which is runnable and does not run, and kicks a CPU that should run `e`. If the budget of `e` is
    /// used up, holds `e` instead.
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

    /// Kicks a CPU for `e`, which waits: an idle CPU, preferably the last CPU of `e`. If no CPU idles, kicks the CPU of
    /// the least urgent entity, if that entity is less urgent than `e`.
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

    /// Kicks an idle CPU on which a waiting entity may run. This is necessary because the CPU `picking`, which may have
    /// been kicked for the waiting entity, may pick another entity.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if !cx.topology().iter().any(idle) {
            return;
        }
        if let Some(idle) = self.waiting.iter(0).find_map(|(_, e)| cx.idle_cpu_for(e)) {
            cx.kick(idle);
        }
    }

    /// Sets the alarm for the next update of the server of `e`, which is runnable.
    fn arm(&self, e: EntityId, cx: &mut Cx<'_>) {
        match self.members[e.index()].server.next_event().filter(|&at| at != Instant::NEVER) {
            Some(at) => cx.set_alarm(renewal(e), cx.last_cpu(e), at.max(cx.now() + Nanos::ns(1))),
            None => cx.clear_alarm(renewal(e)),
        }
    }

    /// Updates the server of `e`, which has blocked.
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
        // The next period may begin at this instant. An alarm cannot be set for this instant.
        let now = cx.now();
        self.server(prev.entity).renew_at(now);
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
