//! `placement = global`: the entities with the earliest deadlines of the whole machine run. Each plan decides for all
//! CPUs at once.

use super::account::BudgetState;
use super::state::Edf;
use sched::{
    Alarm, AlarmOwner, CpuId, Cx, Decision, EntityId, Instant, Nanos, Params, Policy, PromiseState, Refused, Running,
    State, StopReason, Stopped, Wake,
};
use std::cmp::Reverse;
use std::hint::select_unpredictable;

const READY: usize = 0;

/// The urgency of an entity: the earlier deadline first, then the lower index. The key is one wide number, because the
/// comparison of keys is the most frequent operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(u128);

impl Key {
    /// The key before all others.
    const LEAST: Key = Key(0);
    /// The key behind all reserved entities.
    const BACKGROUND: Key = Key(u128::MAX - 1);
    /// The key behind all others: a free CPU.
    const FREE: Key = Key(u128::MAX);

    #[inline]
    fn of(deadline: Instant, e: EntityId) -> Key {
        Key(u128::from(deadline.as_ns()) << 64 | e.index() as u128)
    }
}

pub(super) struct Global {
    edf: Edf,
    /// Entities that woke with a remaining slice since the last plan.
    woken: Vec<EntityId>,
    /// Entity that the last plan chose for each CPU, until the CPU picks.
    seats: Vec<Option<EntityId>>,
    /// Number of CPUs for which `seats` has an entity.
    seated: usize,
    /// Urgency of the entity that each CPU runs or is planned to run.
    urgency: Vec<Key>,
    /// Entities that the current plan has chosen but not yet assigned to a CPU, in order of key. In
    /// `choose_restricted`: the entities that preempt no entity.
    chosen: Vec<EntityId>,
    /// Whether an event other than a wake-up, a block or a preemption occurred since the last plan. Only then may an
    /// entity in the queue preempt a running entity.
    changed: bool,
    /// Number of entities whose affinity excludes some CPU.
    restricted: usize,
}

impl Global {
    pub(super) fn new(edf: Edf, cpus: usize) -> Global {
        Global {
            edf,
            woken: Vec::new(),
            seats: vec![None; cpus],
            seated: 0,
            urgency: vec![Key::FREE; cpus],
            chosen: Vec::with_capacity(cpus),
            changed: true,
            restricted: 0,
        }
    }

    /// Records whether the affinity of `e` excludes some CPU.
    fn note_restricted(&mut self, e: EntityId, restricted: bool) {
        self.changed = true;
        let before = std::mem::replace(&mut self.edf.account_mut(e).restricted, restricted);
        self.restricted = self.restricted + usize::from(restricted) - usize::from(before);
    }

    fn key(&self, e: EntityId) -> Key {
        let account = self.edf.account(e);
        if account.state == BudgetState::Reserved { Key::of(account.deadline, e) } else { Key::BACKGROUND }
    }

    /// Returns entities that an earlier plan chose, but no CPU has picked, to the queue. Recomputes the urgency on each
    /// CPU.
    fn unseat_all(&mut self, cx: &Cx<'_>) {
        self.changed = true;
        for cpu in cx.topology().iter() {
            if let Some(e) = self.seats[cpu.index()].take() {
                self.edf.ready.push(READY, self.edf.account(e).deadline, e);
            }
            self.urgency[cpu.index()] = match cx.running(cpu) {
                Running::Mine { entity, .. } => self.key(entity),
                Running::Idle | Running::Above | Running::Below => Key::FREE,
            };
        }
        self.seated = 0;
    }

    /// Removes `e` from `seats`, `woken` or its queue, or releases its hold.
    fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.seated > 0 {
            self.unseat_all(cx);
        }
        if let Some(at) = self.woken.iter().position(|&other| other == e) {
            self.woken.swap_remove(at);
            return;
        }
        self.edf.dequeue(e, cx);
    }

    /// Plans the two most frequent cases without the general algorithm of [`choose`](Global::choose): one entity woke,
    /// or one CPU became free. Nothing else may have changed since the last plan, after which no entity in the queue
    /// could preempt a running entity. Returns false if the general algorithm is needed.
    #[inline]
    fn choose_one(&mut self, cx: &mut Cx<'_>) -> bool {
        let (worst, urgency) = self.least_urgent();
        let queued = self.edf.ready.first(READY).map(|(deadline, e)| (Key::of(deadline, e), e));
        match (self.woken.as_slice(), queued) {
            (&[e], queued) => {
                let key = Key::of(self.edf.account(e).deadline, e);
                if urgency == Key::FREE && queued.is_some() {
                    return false;
                }
                self.woken.clear();
                if urgency > key {
                    let last = cx.last_cpu(e);
                    let at_last = urgency == Key::FREE && self.urgency[last.index()] == Key::FREE;
                    self.seat(if at_last { last } else { worst }, e, key, cx);
                } else {
                    self.edf.ready.push(READY, self.edf.account(e).deadline, e);
                }
                true
            }
            ([], Some((key, e))) if urgency == Key::FREE => {
                if self.urgency[worst.index() + 1..].contains(&Key::FREE) {
                    return false;
                }
                self.edf.ready.pop(READY);
                self.seat(worst, e, key, cx);
                true
            }
            ([], _) => true,
            _ => false,
        }
    }

    /// Finds the entities to run in addition to those that continue to run, and assigns a CPU to each.
    fn choose(&mut self, cx: &mut Cx<'_>) {
        self.queue_woken();
        let mut free = self.urgency.iter().filter(|&&key| key == Key::FREE).count();
        while let Some((deadline, e)) = self.edf.ready.first(READY) {
            if self.chosen.len() == free {
                let worst = self.least_urgent_running();
                let Some(worst) = worst.filter(|&cpu| self.urgency[cpu.index()] > Key::of(deadline, e)) else { break };
                self.urgency[worst.index()] = Key::FREE;
                free += 1;
            }
            self.edf.ready.pop(READY);
            self.chosen.push(e);
        }
        for i in 0..self.chosen.len() {
            let e = self.chosen[i];
            let last = cx.last_cpu(e);
            let cpu = match self.urgency[last.index()] {
                Key::FREE => last,
                _ => CpuId::new(
                    self.urgency.iter().position(|&key| key == Key::FREE).expect("as many are free as chosen"),
                ),
            };
            self.seat(cpu, e, self.key(e), cx);
        }
        self.chosen.clear();
    }

    fn queue_woken(&mut self) {
        while let Some(e) = self.woken.pop() {
            self.edf.ready.push(READY, self.edf.account(e).deadline, e);
        }
    }

    /// Returns the lowest free CPU or, if no CPU is free, the CPU of the least urgent running entity. Also returns the
    /// urgency on this CPU.
    #[inline]
    fn least_urgent(&self) -> (CpuId, Key) {
        // The outcome of a comparison is unpredictable, so no branch should depend on it.
        let (mut worst, mut urgency) = (0, Key::LEAST);
        for (cpu, &key) in self.urgency.iter().enumerate() {
            let worse = key > urgency;
            worst = select_unpredictable(worse, cpu, worst);
            urgency = select_unpredictable(worse, key, urgency);
        }
        (CpuId::new(worst), urgency)
    }

    /// Returns the CPU that runs the least urgent entity.
    fn least_urgent_running(&self) -> Option<CpuId> {
        let running = self.urgency.iter().enumerate().filter(|&(_, &key)| key != Key::FREE);
        running.max_by_key(|&(_, &key)| key).map(|(cpu, _)| CpuId::new(cpu))
    }

    /// Chooses entities if some affinities exclude CPUs. In order of deadline, assigns each entity the CPU in its
    /// affinity with the least urgent entity, unless that entity is more urgent. Free CPUs take precedence. On a tie,
    /// the last CPU of the entity takes precedence, then the lowest CPU.
    fn choose_restricted(&mut self, cx: &mut Cx<'_>) {
        self.queue_woken();
        while let Some((deadline, e)) = self.edf.ready.pop(READY) {
            let last = cx.last_cpu(e);
            let open = |cpu: &CpuId| cx.may_run(e, *cpu) && self.seats[cpu.index()].is_none();
            let order = |cpu: &CpuId| (self.urgency[cpu.index()], *cpu == last, Reverse(*cpu));
            match cx.topology().iter().filter(open).max_by_key(order) {
                Some(cpu) if self.urgency[cpu.index()] > Key::of(deadline, e) => {
                    self.seat(cpu, e, Key::of(deadline, e), cx)
                }
                _ => self.chosen.push(e), // The entity preempts no entity in this plan.
            }
            if self.seated == self.seats.len() {
                break;
            }
        }
        while let Some(e) = self.chosen.pop() {
            self.edf.ready.push(READY, self.edf.account(e).deadline, e);
        }
    }

    #[inline]
    fn seat(&mut self, cpu: CpuId, e: EntityId, key: Key, cx: &mut Cx<'_>) {
        self.seats[cpu.index()] = Some(e);
        self.seated += 1;
        self.urgency[cpu.index()] = key;
        cx.kick(cpu);
    }

    /// Kicks a CPU for `e`, which has just been queued outside a plan. Kicks an idle CPU, or the CPU of the least
    /// urgent entity if that entity is less urgent than `e`.
    fn call_for(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
            return;
        }
        let account = self.edf.account(e);
        if account.state == BudgetState::Reserved {
            let open = cx.topology().iter().filter(|&cpu| cx.may_run(e, cpu) && !cx.kicked(cpu));
            let worst = open.max_by_key(|cpu| self.urgency[cpu.index()]);
            if let Some(cpu) = worst.filter(|cpu| self.urgency[cpu.index()] > self.key(e)) {
                cx.kick(cpu);
            }
        }
    }
}

impl Policy for Global {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.edf.attach(e, cx)?;
        self.note_restricted(e, !cx.may_run_anywhere(e));
        // `choose_restricted` moves all queued entities to `chosen` if none of them preempts an entity.
        self.chosen.reserve(self.edf.members);
        self.woken.reserve(self.edf.members);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.note_restricted(e, false);
        self.edf.detach(e, cx);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.edf.renegotiate(e, old, cx)?;
        self.note_restricted(e, !cx.may_run_anywhere(e));
        match cx.state(e) {
            State::Blocked => return Ok(()),
            State::Running(cpu) => cx.kick(cpu),
            State::Waiting => {
                self.dequeue(e, cx);
                self.edf.enqueue(e, cx);
                self.call_for(e, cx);
            }
        }
        self.edf.arm(e, cx);
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.edf.begin(e, cx);
        if self.edf.account(e).state == BudgetState::Reserved {
            self.woken.push(e);
            return;
        }
        self.edf.enqueue(e, cx);
        if let Some(cpu) = cx.idle_cpu_for(e).filter(|_| !cx.is_held(e)) {
            cx.kick(cpu);
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, cx);
        self.edf.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.edf.account_mut(e).charge(ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Entity(e) = alarm.owner else { unreachable!("only entities have alarms here") };
        self.changed = true;
        if let State::Running(cpu) = cx.state(e) {
            if let Some((e, ran)) = cx.take_ran(cpu) {
                self.edf.account_mut(e).charge(ran);
            }
            cx.kick(cpu);
        }
        let waiting = cx.state(e) == State::Waiting;
        if waiting {
            self.dequeue(e, cx);
        }
        let (late, now) = (self.edf.late, cx.now());
        self.edf.account_mut(e).renew(late, now);
        self.edf.arm(e, cx);
        if let State::Running(cpu) = cx.state(e) {
            self.urgency[cpu.index()] = self.key(e);
        }
        if waiting {
            self.edf.enqueue(e, cx);
        }
    }

    #[inline]
    fn plan(&mut self, cx: &mut Cx<'_>) {
        if self.seated > 0 {
            self.unseat_all(cx);
        }
        if !self.edf.ready.is_empty(READY) || !self.woken.is_empty() {
            let changed = std::mem::replace(&mut self.changed, false);
            if self.restricted > 0 {
                self.choose_restricted(cx);
            } else if changed || !self.choose_one(cx) {
                self.choose(cx);
            }
        }
        self.edf.call_for_background(cx);
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        if self.seats[cpu.index()].is_none() {
            self.urgency[cpu.index()] = Key::FREE;
        }
        if prev.why == StopReason::Blocked {
            self.edf.rest(e, cx);
            return;
        }
        self.changed |= prev.why != StopReason::Kicked;
        self.edf.judge(e, prev.why);
        self.edf.enqueue(e, cx);
        // The plan has already been made. It can have missed `e` only if an affinity excludes CPUs, or if `e` now waits
        // for unreserved time.
        if self.restricted > 0 || self.edf.account(e).state == BudgetState::Background {
            self.call_for(e, cx);
        }
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        if let Some(e) = self.seats[cpu.index()].take() {
            self.seated -= 1;
            return self.edf.reserved_slice(e, cx.now());
        }
        let best = match self.restricted {
            0 => self.edf.ready.first(READY),
            _ => self.edf.ready.iter(READY).filter(|&(_, e)| cx.may_run(e, cpu)).min_by_key(|&(at, e)| (at, e.index())),
        };
        if let Some((deadline, e)) = best {
            self.edf.ready.remove(e);
            self.urgency[cpu.index()] = Key::of(deadline, e);
            return self.edf.reserved_slice(e, cx.now());
        }
        let rest = self.edf.pop_background(cpu, cx);
        self.urgency[cpu.index()] = if rest.is_some() { Key::BACKGROUND } else { Key::FREE };
        match rest {
            Some(e) => self.edf.background_slice(e, cx.now()),
            None => Decision::IDLE,
        }
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.edf.promise_state(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.edf.inspect(e, show);
    }
}
