//! Servers under a global or a partitioned queue: what `rtds` and `rt-xen` are made of.
//!
//! Everybody has a [`Server`]: a budget in every period. The most urgent that has budget runs: by deadline, or by fixed
//! priority; on levels, one for each time the budget was used up in the period, where that is allowed.

mod account;
#[cfg(test)]
mod tests;

pub(crate) use account::{Kind, Server};
use sched::queue::Trees;
use sched::{
    Alarm, AlarmKind, AlarmSlots, CpuId, CpuSet, Cx, EntityId, Held, Host, Instant, Limit, Nanos, Of, Params, Policy,
    Refused, Reservation, Running, Slice, State, Stopped, Wake, Why,
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
    /// Its share of a CPU, in millionths.
    share_ppm: u64,
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
    /// By CPU: the shares of those bound to it, in millionths.
    shares_ppm: Vec<u64>,
    /// How many may not run on every CPU.
    restricted: usize,
}

const fn renewal(e: EntityId) -> Alarm {
    Alarm { of: Of::Entity(e), slot: 0 }
}

impl Servers {
    pub(crate) fn new(host: &Host, settings: Settings) -> Servers {
        let queues = if settings.partitioned { host.cpus } else { 1 };
        Servers {
            settings,
            members: Vec::new(),
            waiting: Trees::new(queues),
            arrivals: 0,
            shares_ppm: vec![0; host.cpus],
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
            let text =
                "a deadline before the end of the period means nothing to this policy; right would be none, or rt-xen";
            return Err(Refused::Unsupported(text));
        }
        Ok(asked)
    }

    fn member(&self, params: &Params, now: Instant) -> Result<Member, Refused> {
        let asked = self.asked(params)?;
        let Settings { kind, extratime, .. } = self.settings;
        let server = Server::new(kind, &asked, extratime, now);
        let share_ppm = asked.slice.scale(1_000_000, asked.period.as_ns()).as_ns();
        Ok(Member { server, cpu: None, share_ppm, restricted: false })
    }

    /// Notes where `e` may run; partitioned, binds it to the CPU of these on which the least is asked for.
    fn bind(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !self.settings.partitioned {
            let restricted = !cx.may_run_anywhere(e);
            self.members[e.index()].restricted = restricted;
            self.restricted += usize::from(restricted);
            return;
        }
        let allowed = cx.params(e).affinity.and(&cx.host().all());
        let least = allowed.iter().min_by_key(|cpu| (self.shares_ppm[cpu.index()], cpu.index()));
        let cpu = least.expect("everybody may run somewhere");
        let member = &mut self.members[e.index()];
        member.cpu = Some(cpu);
        self.shares_ppm[cpu.index()] += member.share_ppm;
        cx.confine(e, &CpuSet::one(cpu));
    }

    fn unbind(&mut self, e: EntityId) {
        let Member { cpu, share_ppm, restricted, .. } = &mut self.members[e.index()];
        self.restricted -= usize::from(std::mem::take(restricted));
        if let Some(cpu) = cpu.take() {
            self.shares_ppm[cpu.index()] -= *share_ppm;
        }
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
        let open = cx.host().iter().filter(|&cpu| cx.may_run(e, cpu) && !cx.kicked(cpu));
        let least = open.filter_map(runs).max_by_key(|&(urgency, _)| urgency);
        if let Some((_, cpu)) = least.filter(|&(urgency, _)| urgency > mine) {
            cx.kick(cpu);
        }
    }

    /// `picking` may have been called for somebody and have taken another, who may run elsewhere: an idle CPU that somebody
    /// who waits may run on is called.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if !cx.host().iter().any(idle) {
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
        let member = self.member(cx.params(e), cx.now())?;
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, member);
        }
        self.members[e.index()] = member;
        self.waiting.reserve(e, Key { level: 0, order: 0, arrival: 0 });
        self.bind(e, cx);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.unbind(e);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let new = *cx.params(e);
        if old.reservation == new.reservation && old.affinity == new.affinity {
            return Ok(());
        }
        let member = self.member(&new, cx.now())?;
        if cx.state(e) == State::Waiting {
            self.dequeue(e, cx);
        }
        self.unbind(e);
        let kept = self.members[e.index()].server;
        self.members[e.index()] = member;
        if old.reservation == new.reservation {
            self.members[e.index()].server = kept;
        }
        self.bind(e, cx);
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
        let Of::Entity(e) = alarm.of else { unreachable!("only entities have alarms here") };
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

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        if prev.why == Why::Blocked {
            return self.rest(prev.entity, cx);
        }
        self.arm(prev.entity, cx);
        self.enqueue(prev.entity, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Slice {
        let queue = if self.settings.partitioned { cpu.index() } else { 0 };
        let chosen = self.waiting.iter(queue).map(|(_, e)| e).find(|&e| cx.may_run(e, cpu));
        if let Some(e) = chosen {
            self.waiting.remove(e);
        }
        if self.restricted > 0 {
            self.call_for_stranded(cpu, cx);
        }
        let Some(e) = chosen else { return Slice::IDLE };
        let left = self.members[e.index()].server.left().max(Nanos::ns(1));
        let most = if self.settings.quantum.is_zero() { left } else { left.min(self.settings.quantum) };
        Slice::until(e, cx.now() + most)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let server = &self.members[e.index()].server;
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        show("budget", signed(server.left().as_ns()));
        show("deadline", signed(server.deadline.as_ns()));
        show("level", i64::from(server.level));
    }
}
