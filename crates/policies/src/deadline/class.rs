//! [`Deadline`], the scheduling class: accounts over [`MostUrgent`], admission control, and the return of bandwidth.

mod books;

use super::account::{Account, Activity, Woken};
use super::reclaim::{Formula, Rate, Reclaim};
use crate::admission::{Admission, Utilisation};
use crate::classes::Layer;
use crate::most_urgent::{MostUrgent, Rank};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, Cx, Decision, EntityId, Held, Instant, Knobs, Nanos, Params,
    Policy, PromiseState, Refused, Reservation, Running, State, StopReason, Stopped, Topology, Wake,
};

/// The alarm slots of the class.
pub(crate) const ALARMS: AlarmSlots = AlarmSlots {
    policy: &[AlarmKind::Timer],
    cpu: &[AlarmKind::Tick],
    entity: &[AlarmKind::Timer, AlarmKind::Timer],
    ..AlarmSlots::NONE
};

/// The alarm at which the next detached entity returns its bandwidth.
const RETURN: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

/// Returns the alarm at the end of a throttling.
const fn renewal(e: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot: 0 }
}

/// Returns the alarm at which the share of a blocked entity becomes free.
const fn zero_lag(e: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot: 1 }
}

/// Returns the tick alarm, which is set only if slices end at ticks.
const fn ticker(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

/// A detached entity whose bandwidth is still in use.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    id: EntityId,
    account: Account,
    cpu: CpuId,
    until: Instant,
}

/// The state of a member.
#[derive(Clone, Copy, Debug)]
struct Task {
    account: Account,
    /// CPU on which the bandwidth of the task is counted.
    counted: CpuId,
}

/// The deadline class.
#[derive(Debug)]
pub(crate) struct Deadline {
    queues: MostUrgent<Instant>,
    /// State of each member, by index; `None`: not a member.
    tasks: Vec<Option<Task>>,
    leaving: Vec<Leaving>,
    admission: Admission,
    /// Whether constrained deadlines are admitted by their density.
    by_density: bool,
    /// Bandwidth of each CPU's fair server, if there are servers.
    servers: Vec<Utilisation>,
    reclaim: Reclaim,
    /// Sum of all shares, including those of fair servers and, until their 0-lag time, those of detached entities.
    shares: u64,
    whole_machine: bool,
    /// Whether a period that could begin while its entity is blocked begins at the wake-up.
    lapses: bool,
    /// Whether an entity that lags by more than a period keeps the deadlines that it missed.
    catches_up: bool,
    period_least: Nanos,
    period_most: Nanos,
    /// Period of the tick, if slices end at ticks.
    tick: Option<Nanos>,
}

impl Deadline {
    /// Creates the class on `host`. `knobs` must contain the knobs of the class and `tick`. `server` is the reservation
    /// of each CPU's fair server, if there are servers.
    pub(crate) fn new(host: &Topology, knobs: &Knobs, server: Option<&Reservation>) -> Deadline {
        let percent = knobs.get("rt-bandwidth").unsigned_abs();
        let formula = match knobs.word("reclaim") {
            "v5.13" => Some(Formula::V513),
            "v6.5" => Some(Formula::V65),
            _ => None,
        };
        let servers: Vec<_> = server.map_or(Vec::new(), |server| vec![Utilisation::of(server); host.cpus]);
        let mut admission = Admission::new(host.cpus, 100 - percent, false);
        servers.iter().for_each(|&server| admission.restore(server, None));
        let mut deadline = Deadline {
            queues: MostUrgent::new(host.cpus, true),
            tasks: Vec::new(),
            leaving: Vec::new(),
            admission,
            by_density: knobs.word("admission") == "density",
            shares: servers.iter().map(|server| server.units()).sum(),
            servers,
            reclaim: Reclaim::new(host.cpus, formula, percent),
            whole_machine: knobs.on("whole-machine"),
            lapses: knobs.word("asleep") == "lapse",
            catches_up: knobs.word("lagging") == "catch-up",
            period_least: knobs.time("period-least"),
            period_most: knobs.time("period-most"),
            tick: (!knobs.on("hrtick")).then(|| knobs.time("tick")),
        };
        deadline.reclaim.promised(deadline.shares);
        deadline
    }

    fn task(&self, e: EntityId) -> &Task {
        self.tasks[e.index()].as_ref().expect("it is a member")
    }

    fn account(&mut self, e: EntityId) -> &mut Account {
        &mut self.tasks[e.index()].as_mut().expect("it is a member").account
    }

    // ---- Rates ----

    fn rate(&self, e: EntityId, cpu: CpuId) -> Rate {
        let account = &self.task(e).account;
        if account.reclaims { self.reclaim.rate(cpu, account.share.units()) } else { Rate::FULL }
    }

    fn spend(&mut self, e: EntityId, cpu: CpuId, ran: Nanos) {
        let used = self.rate(e, cpu).charge(ran);
        self.account(e).charge(used);
    }

    /// Charges the running entity of `cpu`, before the rate on `cpu` changes.
    fn settle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.reclaim.is_on()
            && let Some((e, ran)) = cx.take_ran(cpu)
        {
            self.spend(e, cpu, ran);
        }
    }

    /// Updates the end of the slice on `cpu` after a change of the rate or of the remaining slice. If the new end is
    /// later than the old end, the entity is picked again at the old end.
    fn retime(&self, cpu: CpuId, cx: &mut Cx<'_>) {
        let Running::Mine { entity, .. } = cx.running(cpu) else { return };
        if self.queues.running(cpu) != Some(entity) || self.task(entity).account.throttled.is_some() {
            return;
        }
        if self.task(entity).account.left <= 0 {
            cx.kick(cpu);
        } else {
            cx.cut(cpu, self.slice_end(entity, cpu, cx.now()));
        }
    }

    fn settle_all(&mut self, cx: &mut Cx<'_>) {
        for cpu in cx.topology().iter() {
            self.settle(cpu, cx);
        }
    }

    fn retime_all(&self, cx: &mut Cx<'_>) {
        if self.reclaim.is_on() {
            cx.topology().iter().for_each(|cpu| self.retime(cpu, cx));
        }
    }

    /// Marks the bandwidth of `e` as active or inactive.
    fn set_active(&mut self, e: EntityId, active: bool, cx: &mut Cx<'_>) {
        let Task { account, counted } = *self.task(e);
        let units = account.share.units();
        self.settle(counted, cx);
        self.reclaim.remove(counted, units, !active);
        self.reclaim.add(counted, units, active);
        if self.reclaim.is_on() {
            self.retime(counted, cx);
        }
    }

    /// For each entity that has migrated, counts its bandwidth on its new CPU.
    fn follow(&mut self, cx: &mut Cx<'_>) {
        while let Some((e, _)) = self.queues.next_move() {
            let (to, Task { account, counted }) = (self.queues.home(e), *self.task(e));
            if to == counted {
                continue;
            }
            let (units, active) = (account.share.units(), account.activity != Activity::Inactive);
            for cpu in [counted, to] {
                self.settle(cpu, cx);
            }
            self.reclaim.remove(counted, units, active);
            self.reclaim.add(to, units, active);
            self.tasks[e.index()].as_mut().expect("it is a member").counted = to;
            if self.reclaim.is_on() {
                [counted, to].into_iter().for_each(|cpu| self.retime(cpu, cx));
            }
        }
    }

    // ---- States ----

    /// Returns the instant at which the slice of `e` is used up, if `e` runs on `cpu` from `now` on. Returns
    /// `Instant::NEVER` if slices end at ticks.
    fn slice_end(&self, e: EntityId, cpu: CpuId, now: Instant) -> Instant {
        if self.tick.is_some() {
            return Instant::NEVER;
        }
        let left = Nanos::ns(self.task(e).account.left.max(1).unsigned_abs());
        let lasts = self.rate(e, cpu).lasts(left).max(Nanos::ns(1));
        now.saturating_add(lasts)
    }

    fn start_ticker(&self, cpu: CpuId, cx: &mut Cx<'_>) {
        if let Some(tick) = self.tick
            && cx.alarm_at(ticker(cpu)).is_none()
        {
            cx.set_alarm(ticker(cpu), cpu, cx.now().next_tick(tick, Nanos::ZERO));
        }
    }

    /// Handles a tick of `cpu`: stops the running entity if its slice is used up.
    fn tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let Some(e) = self.queues.running(cpu) else { return };
        if let Some((_, ran)) = cx.take_ran(cpu) {
            self.spend(e, cpu, ran);
        }
        if self.account(e).left <= 0 {
            cx.kick(cpu);
        }
        self.start_ticker(cpu, cx);
    }

    /// Activates `e`, which becomes runnable. Returns whether `e` may run.
    fn activate(&mut self, e: EntityId, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let before = core::mem::replace(&mut self.account(e).activity, Activity::Contending);
        match before {
            Activity::Contending => {}
            Activity::NonContending(_) => cx.clear_alarm(zero_lag(e)),
            Activity::Inactive => self.set_active(e, true, cx),
        }
        if let Some(until) = self.account(e).throttled {
            if until > now {
                cx.hold(e, Held::Depleted);
                return false;
            }
            cx.clear_alarm(renewal(e));
            if !self.renew_asleep(e, cx) {
                cx.hold(e, Held::Depleted);
                return false;
            }
        }
        match self.account(e).wake(now) {
            Woken::Throttled(until) => {
                self.throttle(e, until, cx);
                cx.hold(e, Held::Depleted);
                false
            }
            Woken::Ready if self.account(e).left > 0 => true,
            Woken::Ready => self.deplete(e, cx),
        }
    }

    fn throttle(&mut self, e: EntityId, until: Instant, cx: &mut Cx<'_>) {
        self.account(e).throttled = Some(until);
        if until != Instant::NEVER {
            cx.set_alarm(renewal(e), cx.last_cpu(e), until);
        }
    }

    /// Ends the throttling of `e`, which is or was blocked, unless `e` owes the new slice or more. Returns whether the
    /// throttling is over.
    fn renew_asleep(&mut self, e: EntityId, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        if !self.lapses {
            self.account(e).replenish(now);
            return true;
        }
        while let Some(until) = self.account(e).lapse(now) {
            if until > now {
                self.throttle(e, until, cx);
                return false;
            }
        }
        true
    }

    /// Throttles `e`, which is runnable and whose slice is used up or given up. Returns whether the next slice is
    /// available already.
    fn deplete(&mut self, e: EntityId, cx: &mut Cx<'_>) -> bool {
        let (now, until) = (cx.now(), self.account(e).next_period());
        if until > now {
            self.throttle(e, until, cx);
            cx.hold(e, Held::Depleted);
            return false;
        }
        let catches_up = self.catches_up;
        let account = self.account(e);
        account.throttled = Some(until);
        if catches_up {
            account.go_on(now);
        } else {
            account.replenish(now);
        }
        true
    }

    /// Enqueues `e`, which is runnable and not throttled.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let deadline = self.account(e).deadline;
        self.queues.set_urgency(e, deadline);
        self.queues.enqueue(e, cx);
        self.follow(cx);
    }

    /// Deactivates `e`, which blocks now.
    fn rest(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let free = self.account(e).zero_lag();
        if self.account(e).throttled.is_none() && self.account(e).left <= 0 {
            let until = self.account(e).next_period();
            match until > cx.now() {
                true => self.throttle(e, until, cx),
                false => drop(self.renew_asleep(e, cx)),
            }
        }
        if cx.is_held(e) {
            cx.release(e, Held::Depleted);
        }
        if free <= cx.now() {
            self.account(e).activity = Activity::Inactive;
            return self.set_active(e, false, cx);
        }
        self.account(e).activity = Activity::NonContending(free);
        if free != Instant::NEVER {
            cx.set_alarm(zero_lag(e), cx.last_cpu(e), free);
        }
    }

    /// Returns the decision for `cpu`. If `than` is given, picks only an entity with a deadline before `than`.
    pub(crate) fn pick_before(&mut self, cpu: CpuId, than: Option<Instant>, cx: &mut Cx<'_>) -> Decision {
        let picked = self.queues.pick(cpu, than.map_or(Rank::Other, Rank::Urgency), cx);
        self.follow(cx);
        let Some(e) = picked else { return Decision::IDLE };
        self.start_ticker(cpu, cx);
        Decision::until(e, self.slice_end(e, cpu, cx.now()))
    }

    /// Records that `cpu` runs an entity of another class with this deadline.
    pub(crate) fn take_at(&mut self, cpu: CpuId, deadline: Instant, cx: &mut Cx<'_>) {
        self.queues.take_at(cpu, deadline, cx);
        self.follow(cx);
    }
}

impl Layer for Deadline {
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.activate(e, cx);
        let deadline = self.account(e).deadline;
        self.queues.set_urgency(e, deadline);
        self.queues.adopt(e, cpu);
        self.follow(cx);
        cx.kick(cpu);
    }

    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.take(cpu, cx);
        self.follow(cx);
    }
}

impl Policy for Deadline {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let asked = self.asked(cx.params(e), cx.topology())?;
        // An entity that was detached and returns before its bandwidth was released takes over this bandwidth.
        let back = self.leaving.iter().position(|gone| gone.id == e);
        let gone = back.map(|at| self.leaving[at]);
        if let Some(gone) = &gone {
            self.admission.release(gone.account.share, None);
        }
        let share = self.admit(e, &asked, cx).inspect_err(|_| {
            if let Some(gone) = &gone {
                self.admission.restore(gone.account.share, None);
            }
        })?;
        self.settle_all(cx);
        let mut account = Account::open(&asked, share);
        if let (Some(at), Some(gone)) = (back, gone) {
            self.leaving.swap_remove(at);
            self.arm_return(cx);
            self.admission.restore(gone.account.share, None);
            self.withdraw(&gone.account, gone.cpu, true);
            account = gone.account;
            account.renegotiate(&asked, share);
            account.activity = Activity::Inactive;
        }
        let cpu = cx.last_cpu(e);
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, None);
        }
        self.enter(&account, cpu, false);
        self.tasks[e.index()] = Some(Task { account, counted: cpu });
        self.queues.attach(e, account.deadline, cpu);
        if let Some(until) = account.throttled.filter(|&until| until > cx.now()) {
            self.throttle(e, until, cx);
        }
        self.retime_all(cx);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        assert!(self.queues.queue_of(e).is_none(), "{e} leaves blocked");
        cx.clear_alarm(renewal(e));
        cx.clear_alarm(zero_lag(e));
        let Task { account, counted } = self.tasks[e.index()].take().expect("it is a member");
        match account.activity {
            // The bandwidth of the entity stays in use until the 0-lag time.
            Activity::NonContending(until) if self.reclaim.is_on() => {
                self.leaving.push(Leaving { id: e, account, cpu: counted, until });
                self.arm_return(cx);
            }
            activity => {
                self.settle_all(cx);
                self.withdraw(&account, counted, activity != Activity::Inactive);
                self.retime_all(cx);
            }
        }
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let asked = self.asked(&params, cx.topology())?;
        if Some(asked) != old.reservation {
            let Task { account, counted } = *self.task(e);
            self.admission.release(account.share, None);
            let share = self.admit(e, &asked, cx).inspect_err(|_| self.admission.restore(account.share, None))?;
            self.settle_all(cx);
            let active = self.account(e).activity != Activity::Inactive;
            self.admission.restore(account.share, None);
            self.withdraw(&account, counted, active);
            self.account(e).renegotiate(&asked, share);
            let account = *self.account(e);
            self.enter(&account, counted, active);
            self.retime_all(cx);
        }
        match (cx.state(e), self.queues.queue_of(e)) {
            (_, Some(cpu)) if !cx.may_run(e, cpu) => {
                self.queues.unqueue(e);
                self.enqueue(e, cx);
            }
            (_, Some(_)) => {
                self.queues.push_one(e, cx);
                self.follow(cx);
            }
            (State::Running(cpu), None) => self.retime(cpu, cx),
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        if self.activate(e, cx) {
            self.enqueue(e, cx);
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queues.unqueue(e);
        self.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.spend(e, cx.here(), ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let e = match alarm.owner {
            AlarmOwner::Entity(e) => e,
            AlarmOwner::Cpu(cpu) => return self.tick(cpu, cx),
            _ => return self.give_back(cx),
        };
        let now = cx.now();
        if alarm == zero_lag(e) {
            if matches!(self.account(e).activity, Activity::NonContending(free) if free <= now) {
                self.account(e).activity = Activity::Inactive;
                self.set_active(e, false, cx);
            }
            return;
        }
        if self.account(e).throttled.is_none_or(|until| until > now) {
            return;
        }
        match cx.state(e) {
            State::Blocked => drop(self.renew_asleep(e, cx)),
            State::Waiting => {
                self.account(e).replenish(now);
                cx.release(e, Held::Depleted);
                self.enqueue(e, cx);
            }
            // The entity is about to stop, but has not stopped yet.
            State::Running(_) => {
                self.account(e).replenish(now);
                cx.release(e, Held::Depleted);
                let deadline = self.account(e).deadline;
                self.queues.set_urgency(e, deadline);
            }
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.queues.put(cpu, e);
        if prev.why == StopReason::Blocked {
            return self.rest(e, cx);
        }
        if self.account(e).throttled.is_some() {
            return; // The entity is throttled already.
        }
        if prev.why == StopReason::Yielded {
            self.account(e).left = self.account(e).left.min(0);
        }
        if self.account(e).left <= 0 {
            if self.deplete(e, cx) {
                self.enqueue(e, cx);
            }
        } else if cx.may_run(e, cpu) {
            self.queues.queue_first(e, cpu);
        } else {
            self.enqueue(e, cx);
        }
        self.follow(cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        self.pick_before(cpu, None, cx)
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        Some(self.task(e).account.promise())
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let Task { account, counted } = self.task(e);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        show("deadline", signed(account.deadline.as_ns()));
        show("remaining", account.left);
        show("slice", signed(account.slice.as_ns()));
        show("period", signed(account.period.as_ns()));
        show("throttled", i64::from(account.throttled.is_some()));
        show("active", i64::from(account.activity != Activity::Inactive));
        show("cpu", signed(counted.index() as u64));
    }
}
